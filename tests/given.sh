#!/bin/sh
# given.sh - what is given to make as VARIABLE=... reaches no shell, and make does not expand it either: targets
# that take a variable are called with values that would make a file. And a CASE that is none, or that the
# function has to refuse, is no failure of the function: one sentence says what is wrong.
set -u
. tests/prove/frame.sh
made=made_by_given

refused() { # TARGET CASE WHAT: of a right function; make's last line has the status that the command ended with
    LC_ALL=C $MAKE --no-print-directory BACKEND=cpu IMPL=solutions "$1" CASE="$2" >"$said" 2>&1 </dev/null
    grep -qF "$3" "$said" && grep -q '\*\*\* .* Error 2$' "$said" &&
        ! grep -q 'FAIL\|[1-9] failed\|the check build\|sanitize: \| again ' "$said"
    verdict $? "make $1 CASE=$2 ends with status 2, and says: $3"
}
for target in run test sanitize; do
    refused $target-13 Nq=1 "has no D: Nq and D are required"
    refused $target-02 cols=32 "has no rows: rows and cols are required"
done
for target in test sanitize; do
    refused $target-13 B=2 "has no Nq and no D: Nq and D are required"
    refused $target-01 Nq=4,D=16,size=3 "'size' in the case: the name must be one of B Hq"
    refused $target-13 Nq=1,D=17 "head_dim = 17 is not supported, use"
    refused $target-03 Nq=4,D=16,null=K "K is null"
done

expanded="\$(shell touch $made)" # by make
pasted="q'; touch $made; '\"; touch $made; \"; touch $made; \`touch $made\`" # into a recipe: quoted or not
mkdir -p "$scratch/$expanded/full" "$scratch/$pasted/full" # what exists is not overwritten
# What is tried is the Makefile: the scripts that would then work for long are empty here. They get the values as words.
cp -Rp Makefile workbook train "$scratch/" || exit 2
mkdir -p "$scratch/build/cpu" && ln -s "$PWD"/build/cpu/* "$scratch/build/cpu/" &&
    ln -s "$PWD/build/tools.mk" "$scratch/build/" && rm "$scratch/build/cpu/wb" || exit 2
printf '#!/bin/sh\n[ "$1" = test ] || exec "%s/build/cpu/wb" "$@"\n' "$PWD" >"$scratch/build/cpu/wb"
chmod +x "$scratch/build/cpu/wb"
for folder in problems solutions tests reference plots; do ln -s "$PWD/$folder" "$scratch/"; done
cd "$scratch" || exit 1
printf '#!/bin/sh\n' >train/train.sh
for script in class/grade_base class/grade class/grade_all class/class_copy class/gradescope; do
    printf '#!/bin/sh\n' >"workbook/$script.sh"
done
called() { $MAKE --no-print-directory BACKEND=cpu "$@" >"$said" 2>&1 </dev/null; }
try() { # TARGET VARIABLE [MORE...]: little is done, since there is no such problem, folder or file
    target=$1 variable=$2
    shift 2
    case $variable in DEST | ZIP | OUT) at=$scratch/ ;; *) at= ;; esac
    called "$target" "$variable=$at$expanded" "$@"
    called "$target" "$variable=$at$pasted" "$@"
    (export "$variable=$at$expanded"; called "$target" "$@")
    check "make $target $variable= runs nothing of what it is given" [ ! -e $made ]
    rm -f $made
}
(eval ": $expanded"; eval "echo '$pasted'") >"$said" 2>&1
check "an attempt would be noticed" [ -e $made ]
rm -f $made
while read -r target variables more; do
    # shellcheck disable=SC2086
    for variable in $(echo $variables | tr , ' '); do try $target $variable $more; done
done <<END
grade SUBMISSION OUT=$scratch/out
grade OUT,CASES SUBMISSION=$scratch/none
grade-all OUT,JOBS,CASES,SEED,UNSAFE,AGAIN SUBMISSIONS=$scratch/none
grade-all SUBMISSIONS OUT=$scratch/out
class-copy DEST
class-copy UPTO DEST=$scratch/upto
ring RANKS,N,D,HEADS,CAUSAL,RUNS
train STEPS,SEED,TEXT,WRONG,RESUME,TRAIN,RANKS,PARALLEL IMPL=naive
gradescope ZIP
test-02 CASE,SEED,TEST
run-02 CASE
hint-02 GAP,LEVEL
step-04 KEYS,COMMENTS
predict-04 GUESS
which SAY
watch P
next P
mask-06 N
new-problem N,NAME,FROM
report OUT
uninstall PREFIX,DESTDIR
END
exit $failed
