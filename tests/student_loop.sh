#!/bin/sh
# student_loop.sh - make progress, next, hint-NN, reset-NN, diff-NN and watch do what they promise, on a copy without git
# and without a build; nothing that a student wrote is lost. Each target is asked through make once, then its script.
# make watch gets a make of its own here, which records that it was asked.
set -u
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS GAP LEVEL YES P SANITIZE
for skeleton in $(sed 's/.*  //' workbook/shipped.sha256); do
    number=$(basename "$(dirname "$skeleton")")
    mkdir -p "$scratch/wb/problems/$number" "$scratch/shipped/$number"
    cp "problems/$number/hints.txt" "$scratch/wb/problems/$number"
    workbook/shipped.sh "$number" "$scratch/wb/$skeleton" || exit 1
    cp "$scratch/wb/$skeleton" "$scratch/shipped/$number"
done
cp -R Makefile .gitignore workbook "$scratch/wb"
[ ! -d solutions ] || cp -R solutions "$scratch"
cd "$scratch/wb" || exit 1
rm -rf workbook/shipped
said=$scratch/said failed=0 status=0 numbers="01 02 03 04 05 06 07 08 09"

run() { "$@" >"$said" 2>&1 </dev/null; status=$?; }
check() { # WHAT CONDITION...
    what=$1
    shift
    if "$@"; then echo "ok    $what"; return; fi
    failed=1
    echo "FAIL  $what. It ended with $status and said:"
    sed 's/^/      /' "$said"
}
says() { grep -qE -- "$1" "$said"; }
ends_well() { [ $status -eq 0 ]; }
fails_and_says() { [ $status -ne 0 ] && says "$1"; }
has_lines() { [ "$(grep -cE -- "$1" "$said")" -eq "$2" ]; }
same() { cmp -s "$1" "$2"; }
wait_until() { # CONDITION..., up to twenty seconds
    tries=200
    until "$@"; do
        [ $tries -gt 0 ] || return 1
        sleep 0.1
        tries=$((tries - 1))
    done
}

# ------------------------------------------------------------------------------------------------------- progress and next
run make progress
check "progress, of a fresh copy: nine problems that are not started" has_lines '^0[1-9]  [a-z_]+ +not started +0 / ' 9
check "progress, of a fresh copy: no points" says '^Score: 0/750 \(\+ bonus 0/400\)$'
check "progress builds nothing" test -z "$(find build -name '*.o')"
run make next
check "next, of a fresh copy: problem 01" says '^Now: 01 tiled_attention\. not started'

record() { # NN STATE EARNED TITLE TEST CASE: what make test would leave behind
    mkdir -p build/grade
    awk -F '\t' -v OFS='\t' -v number="$1" -v row="$2	$3	-	$4	$5	$6" '
        { split(row, new, "\t") }
        $1 == number { $3 = new[1]; $4 = new[2]; $8 = new[4]; $9 = new[5]; $10 = new[6] }
        { print }' "$scratch/scores" >build/grade/scores.tsv
    cp build/grade/scores.tsv "$scratch/scores"
    echo "$2" >"build/grade/$1.state"
    echo "$2" >"build/grade/$1.log"
}
{
    printf 'number\tname\tstate\tearned\tpossible\tbonus\tnext\ttitle\ttest\tcase\n'
    workbook/standing.sh $numbers |
        awk -F '\t' -v OFS='\t' '{ print $1, $2, "not run", 0, $5, $6, "x", "-", "-", "-" }'
} >"$scratch/scores"
edit() { echo "// $2" >>"$(echo problems/"$1"/*.c*)"; touch -t 202001010000 problems/"$1"/*.c*; }
edit 01 mine && record 01 failed 100 "the causal mask" worked_causal "B=1,Nq=6,D=16"
edit 02 mine && record 02 passed 100 - - -
edit 03 mine && record 03 "compile error" 0 "one tile" O_of_one_tile -
record 04 failed 25 "two phases" two_tiles "B=1" # but the file is as shipped
edit 05 mine && record 05 failed 10 "one key head" one_kv_head - && touch -t 203001010000 problems/05/flash_gqa.cu
edit 06 mine
edit 07 mine && record 07 passed 40 "tiles that are skipped" - -
run workbook/progress.sh $numbers
check "progress: failed, the first checkpoint that is not earned" says '^01 .* failed +100 / 200  the causal mask$'
check "progress: passed" says '^02 .* passed +100 / 100  done$'
check "progress: does not compile" says '^03 .* compile error +0 / 200  make test-03$'
check "progress: reset since, so not started and without points" says '^04 .* not started +0 / 100  read problems/04/README.md$'
check "progress: changed since" says '^05 .* failed +10 /  50  changed since: make test-05$'
check "progress: written in, never tested" says '^06 .* not tested +0 /  50  make test-06$'
check "progress: passed, but for what no test here could tell" says '^07 .* passed +40 /  50  tiles that are skipped \(not judged here\)$'
check "progress: the sum" says '^Score: 250/750 '
run workbook/next.sh $numbers
check "next: what to type, if the report has no case" says 'make test-01 VERBOSE=1$'
check "next: what is missing" says 'missing +the causal mask'
printf '  FAIL  %s\n          test again  make test-01 CASE=%s\n' other Nq=1 worked_causal B=1,Nq=6,D=16 >build/grade/01.report
run workbook/next.sh $numbers
check "next: the case to type is that of the missing test" says 'make test-01 CASE=B=1,Nq=6,D=16$'
record 01 passed 200 - - -
run workbook/next.sh $numbers
check "next: 02 has passed, 03 does not compile" says '^Now: 03 '
touch -t 203001010000 problems/02/weighted_row_sum.cu
run workbook/next.sh $numbers
check "next: 02 has changed since it passed" says '^Now: 02 '
for number in $numbers; do
    [ -f build/grade/$number.state ] || edit $number mine
    edit $number mine
    record $number passed 50 - - -
done
run workbook/next.sh $numbers
check "next: everything has passed" says '^Everything has passed'

# --------------------------------------------------------------------------------------------------------------------- hint
copy() { cp "$scratch/shipped/$1"/* "problems/$1/"; }
copy 03
for level in 1 2 3; do
    run env LEVEL=$level workbook/hint.sh 03
    check "hint, level $level" says "gap \"tail\".*level $level of 3"
    cp "$said" "$scratch/level$level"
done
check "hint: the levels differ" test -z "$(sort "$scratch"/level? | grep '^  ' | uniq -d)"
mkdir -p workbook/shipped && cp -R "$scratch/shipped/03" workbook/shipped
sed -i.bak 's/(void)left;/(void)left, (void)t;/' problems/03/flash_forward.cu
run workbook/hint.sh 03
check "hint: the first gap that is untouched" says 'gap "max" .*level 1 of 3'
sed 's/TODO(03)/now:/' problems/03/flash_forward.cu >"$scratch/mine" && cp "$scratch/mine" problems/03/flash_forward.cu
run workbook/hint.sh 03
check "hint: every gap is touched, so they are listed" has_lines 'make hint-03 GAP=' 5
run make hint-08 GAP="dS for" LEVEL=2
check "hint through make: a gap with spaces in its name, and a level" says 'gap "dS for dQ".* level 2 of 3'
run env GAP=ds workbook/hint.sh 08
check "hint: a gap by a name that others begin with" says 'gap "dS" '
run env GAP=recompute-for workbook/hint.sh 08
check "hint: a gap by its beginning" says 'gap "recompute for dQ" '
run env GAP=mask workbook/hint.sh 06
check "hint: a name that fits two gaps" fails_and_says 'more than one'
run env GAP=nonsense workbook/hint.sh 03
check "hint: a gap that is not there" fails_and_says 'GAP=rescale'
run env LEVEL=4 workbook/hint.sh 03
check "hint: a level that is not there" fails_and_says 'LEVEL=4: there are three'
run workbook/hint.sh 12
check "hint: a problem that is not there" fails_and_says 'no problems/12'
rm -rf workbook/shipped

# -------------------------------------------------------------------------------------------------------------------- reset
mine=problems/03/flash_forward.cu
cp $mine "$scratch/mine"
run workbook/reset.sh 03
check "reset: no skeleton to be had, so nothing changes" fails_and_says 'workbook/shipped/03'
check "reset: the file is what it was" same $mine "$scratch/mine"
mkdir -p workbook/shipped/03 && echo "something else" >workbook/shipped/03/flash_forward.cu
run workbook/reset.sh 03
check "reset: a skeleton that is not the shipped one is refused" fails_and_says 'workbook/shipped/03'
check "reset: the file is what it was" same $mine "$scratch/mine"
cp -R "$scratch/shipped/03" workbook/shipped
run make reset-03
check "reset from workbook/shipped" same $mine "$scratch/shipped/03/flash_forward.cu"
check "reset keeps the student's file" same $mine.1 "$scratch/mine"
run workbook/reset.sh 03
check "reset: nothing to do" says 'nothing to do'
echo "// second" >>$mine
cp $mine "$scratch/second"
run workbook/reset.sh 03
check "reset again: a second backup" same $mine.2 "$scratch/second"
check "reset again: the first is untouched" same $mine.1 "$scratch/mine"
rm $mine
run workbook/reset.sh 03
check "reset: a file that is gone comes back" same $mine "$scratch/shipped/03/flash_forward.cu"
run make -s --eval='show:;@echo $(call source,problems,03)' show
check "a backup is never the source" says "^$mine\$"
run make clean
check "clean keeps backups" test -f $mine.1 -a -f $mine.2
rm -rf workbook/shipped
if command -v git >/dev/null; then
    git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm shipped
    for change in one two; do
        echo "// $change" >>$mine
        git add -A && git -c user.name=a -c user.email=a@b commit -qm "$change"
    done
    run workbook/reset.sh 03
    check "reset from the git history" same $mine "$scratch/shipped/03/flash_forward.cu"
    git status --short >"$said"
    check "git does not see backups" test "$(cat "$said")" = " M $mine"
    rm -rf .git
fi

# --------------------------------------------------------------------------------------------------------------------- diff
run env YES=1 workbook/diff.sh 03
check "diff without solutions/: one line" fails_and_says '^diff-03: there is no answer key here'
if [ -d "$scratch/solutions" ]; then
    mv "$scratch/solutions" .
    run workbook/diff.sh 03
    check "diff asks, and refuses where there is nobody to ask" fails_and_says 'nobody to ask'
    check "diff: the refusal gives nothing away" test "$(grep -c . "$said")" -le 2
    run make diff-03 YES=1
    check "diff shows the key" says 'any_above'
    check "diff ends well" ends_well
fi

# -------------------------------------------------------------------------------------------------------------------- watch
# Run 2 never ends by itself, and has a child in a process group of its own, as a suite has.
cat >make_stub <<'STUB'
#!/bin/sh
echo "$*" >>runs
if [ "$(grep -c . runs)" -eq 2 ]; then
    if command -v setsid >/dev/null; then setsid sleep 60 & else sleep 60 & fi
    echo $! >child
    wait
fi
mkdir -p build/grade
{
    printf '  ok    one\n  FAIL  two\n        run %s is wrong\n' "$(grep -c . runs)"
    echo "1 passed, 1 failed, 0 skipped"
} >build/grade/03.report
echo failed >build/grade/03.state
STUB
chmod +x make_stub
echo "// mine" >>$mine
# Where this shell itself ignores SIGINT (a background job), nobody below it can be told to end by it.
signal=INT
! grep -q '^SigIgn:.*[2367abef]$' /proc/$$/status 2>/dev/null || signal=TERM
(
    ran() { [ -f runs ] && [ "$(grep -c . runs)" -eq "$1" ]; }
    shows() { grep -q "$1" "$scratch/watched" 2>/dev/null; }
    wait_until shows 'run 1 is wrong'
    echo "// save 2" >>$mine
    wait_until ran 2 && wait_until test -s child
    echo "// save 3" >>$mine
    wait_until shows 'run 3 is wrong'
    kill -$signal "$(cat watcher)"
) &
saver=$!
run timeout -k 5 60 sh -c 'echo $$ >watcher; MAKE=./make_stub P=3 exec sh workbook/watch.sh 01 02 03 >"$1"' \
    sh "$scratch/watched"
wait $saver
cp "$scratch/watched" "$said"
check "watch tests again after a save" says 'run 3 is wrong'
check "watch: one run a save, of the problem asked for" test "$(grep -c '^--no-print-directory test-03$' runs)" -eq 3
check "watch: a save ends the run that is under way" eval "! says 'run 2 is wrong'"
gone() { ! kill -0 "$(cat child)" 2>/dev/null; }
check "watch: what that run had started is gone" wait_until gone
check "watch ends well on SIG$signal" ends_well
{
    echo "  ok    one"
    for test in two three four five six; do
        echo "  FAIL  $test"
        awk 'BEGIN { for (i = 1; i <= 40; i++) printf "        line %d %100s\n", i, "x" }'
        echo "          test again  make test-03 CASE=$test"
    done
    echo "1 passed, 5 failed, 0 skipped"
    awk 'BEGIN { for (i = 1; i <= 40; i++) print "  it may be " i }'
} >long
run awk -v heading=heading -v footing=footing -v wanted=three -v rows=24 -v columns=80 -f workbook/watch_page.awk long
check "watch: a page fits a terminal" \
    test "$(awk '{ rows += length > 80 ? int((length - 1) / 80) + 1 : 1 } END { print rows }' "$said")" -le 24
check "watch: the page shows the test that keeps the next checkpoint" says 'CASE=three'
check "watch: and how many others fail" says 'Also failing: two four five and 1 more'
run env P=12 sh workbook/watch.sh 01 02 03
check "watch: a problem that is not there" fails_and_says 'no problem P=12'
exit $failed
