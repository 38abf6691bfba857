#!/bin/sh
# grade.sh [--again] [--unsafe|--container] [--] SUBMISSION OUT - grades one submission, a folder or an archive that
# nobody trusts, and leaves in the folder OUT report.txt, results.json (Gradescope) and record, which make
# grade-all collects. Many may run at once. --unsafe: where bubblewrap does not work, with limits alone; --container:
# the same, without asking, since this container exists for one submission. Exit status: README.md.
#
# WB_BASE: what it is judged with, build/grades/base, made if it is not there (grade_base.sh). --again: even if OUT
# has the grade of the same sources. Limits: see below. SEED, CASES, SANITIZE=1, COVERAGE=1: see wb/test.c.
set -u
unset WERROR # a warning in what a student wrote is no error
umask 077
home=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
fail() { status=$1; shift; echo "grade: $*" >&2; exit "$status"; }
busy() { fail 4 "could not be judged: $*. No points are lost: grade it again when nothing else runs"; }

again=
[ "${1:-}" != --again ] || { again=yes; shift; }
case ${1:-} in --unsafe | --container) isolation=$1; shift ;; esac
[ "${1:-}" != -- ] || shift
[ $# -eq 2 ] && [ -n "$1" ] || fail 2 "name the submission: make grade SUBMISSION=handed-in/ada"
one=${CASE:-}${TEST:-}
case ${one:+one}${P:+P} in '' | oneP) ;; *) fail 2 "P= needs CASE= or TEST=, and these need P=" ;; esac
[ -z "$one" ] || [ -n "${SEED:-}" ] || SEED=$(cat "$home/build/grades/seed" 2>/dev/null) # as the class was graded
export SEED
# Names are bytes: in $(...) one would lose the newlines at its end, and could be that of somebody else's.
submission=${1%/} out=$2
if ! [ -e "$submission" ] && ! [ -L "$submission" ]; then # ada is ada.zip
    for file in "$submission".*; do [ ! -e "$file" ] || submission=$file; done
fi
[ -e "$submission" ] || [ -L "$submission" ] || fail 2 "there is no submission $1"
case $submission in /*) ;; *) submission=$PWD/$submission ;; esac
case $out in /*) ;; *) out=$PWD/$out ;; esac
base=$(realpath -m "${WB_BASE:-$home/build/grades/base}")
if [ -n "${CASES:-}" ]; then
    CASES=$(realpath "$CASES")
    "$home/workbook/class/cases.sh" "$CASES" || exit 2
fi
. "$home/workbook/class/sandbox.sh"
sandbox_find
if [ -n "${CASES:-}" ] && [ "$sandbox" != bwrap ] && [ "$sandbox_uid" != 0 ]; then
    ! $(sandbox_as) test -r "$CASES" ||
        fail 1 "every user, and so every submission, can read the case file: chmod 600 $CASES"
fi

# Seconds are a submission's own (judge/spent.h): on a busy machine it has as many.
: "${WB_TIMEOUT:=20}" "${WB_PROBLEM_SECONDS:=300}"          # for a case, to compile twice that; for a problem's tests
: "${WB_MEMORY_MB:=4096}"                                   # address space of a worker
: "${JOBS:=${SLURM_CPUS_PER_TASK:-$(nproc)}}"               # tests at once
export WB_TIMEOUT WB_PROBLEM_SECONDS WB_MEMORY_MB JOBS
export SANITIZE="${SANITIZE:-0}" COVERAGE="${COVERAGE:-0}"

# Its folders lie where every user may look, since the sandbox's user is none that has a name.
scratch=$(mktemp -d /tmp/workbook-grade.XXXXXX) && chmod 711 "$scratch" || exit 1
export GRADE_SCRATCH="$scratch"
: >"$scratch/spent"
running=
stop() {
    [ -z "$running" ] || pkill -KILL -s "$running"
    rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

# Runs a command that ends with this script, in a session of its own, for so many seconds of its own. Standard input
# comes from FILE.
attended() { # SECONDS FILE COMMAND...
    seconds=$1 input=$2
    shift 2
    setsid "$scratch/wb" within "$seconds" "$@" <"$input" &
    running=$!
    wait $running
    ended=$?
    running=
    return $ended
}

# ------------------------ what it is

[ -n "${WB_BASE:-}" ] && [ -f "$base/fingerprint" ] || "$home/workbook/class/grade_base.sh" "$base" ||
    fail 1 "the grader cannot be built"
cp "$base/build/cpu/confine" "$base/build/cpu/wb" "$scratch/" && chmod a+rx "$scratch/confine" || exit 1
plain() { "$base/build/cpu/wb" plain; } # what comes from a submission is shown so, here too
# shellcheck disable=SC2046
eval "$(sandbox_words 512 8 1 10 0 worker --) /bin/true" ||
    fail 3 "the sandbox does not work on this system, see above"
known=$(sed 's|.*  problems/||' "$base/workbook/loop/shipped.sha256")
numbers=$(echo "$known" | cut -d/ -f1)
tree=$scratch/tree
mkdir -p "$tree/build/cpu/problems" "$scratch/sources" "$scratch/shown"
ended() { # DOING STATUS
    case $2 in
    75) busy "$1: $(tail -n 1 "$scratch/said")" ;;
    124 | 137) reason="$1 takes more than 60 s" ;;
    153) reason="the submission is larger than 100 MB" ;;
    [012]) ;; # of tar: files that it could not open
    *) reason="$1 failed" ;;
    esac
}
: >"$scratch/taken"
reason=
if [ -L "$submission" ]; then
    reason="the submission is a link, neither a folder nor an archive"
elif [ -d "$submission" ] || [ -f "$submission" ]; then
    attended 60 /dev/null "$home/workbook/class/unpack.sh" pack "$submission" >"$scratch/handed" 2>"$scratch/said"
    ended "reading it" $?
    sed -n 's|^tar: [.]/\(.*\): Cannot open: Permission denied$|left - \1 is not readable (file mode)|p' \
        "$scratch/said" >"$scratch/taken"
else
    reason="the submission is neither a folder nor a file"
fi
if [ -z "$reason" ]; then
    sandbox_room
    # shellcheck disable=SC2034 # eval reads it
    script=$(cat "$base/workbook/class/unpack.sh") words=$(sandbox_words 1024 32 300 60 400 tools --)
    eval "attended 60 \"\$scratch/handed\" $words /bin/sh -c \"\$script\" unpack $room 256 $(quoted $known)" \
        >>"$scratch/taken" 2>"$scratch/said"
    ended "unpacking it" $?
fi
# Of the files that could be a problem's, those that differ from the shipped one count; of these the one that lies best.
shipped=no notes= took=
note() { [ -z "$*" ] || notes="${notes:+$notes; }$*"; }
sort -k 2,2 -k 3,3n -k 5 "$scratch/taken" | grep '^file ' >"$scratch/files"
before=
while [ -z "$reason" ] && read -r _ number rank text path; do
    own=$scratch/sources/$number source=$(echo "$known" | grep "^$number/")
    printf '%s' "$text" | basenc --base16 -d >"$scratch/one"
    if cmp -s "$scratch/one" "$base/problems/$source"; then
        shipped=yes
    elif [ "$before" != "$number" ]; then
        mv "$scratch/one" "$own"
        note "$took"
        before=$number best=$rank its=$path took=
        [ "$rank" -lt 100 ] || took="'$path' was graded as problems/$source"
    elif ! cmp -s "$scratch/one" "$own"; then
        if [ "$rank" = "$best" ]; then
            rm -f "$own"
            took="two files could be problems/$source, so neither is graded: '$its' and '$path'"
        else
            note "'$path' is ignored, because '$its' is graded instead"
        fi
    fi
done <"$scratch/files"
note "$took"
notes=$(printf '%s' "$notes" | plain)
told() { # WORD MOST SIGN: so many lines that begin with this word
    sed -n "s/^$1 //p" "$scratch/taken" | LC_ALL=C sort | head -n "$2" | paste -s -d "$3" - | sed "s/$3/$3 /g" | plain
}
others=$(told other 3 ,) left=$(told 'left [^ ]*' 30 ';')
[ -z "$others" ] || note "files that belong to no problem (only problems/NN/NAME counts): $others"
[ -z "$left" ] || note "$left"
changed='' calls=''
cp -Rs "$base/problems" "$tree/" || exit 1 # what is missing is as it was
for source in $known; do
    number=${source%/*} own=$scratch/sources/${source%/*}
    [ -f "$own" ] || continue
    cp --remove-destination "$own" "$tree/problems/$source"
    changed="$changed $number"
    # To be read, and compared by others: without CR and what moves a cursor.
    sed 's/\r$//' "$own" | tr '\r' '\n' | tr -d '\000-\010\013-\037\177' >"$scratch/shown/${source#*/}"
    # What no function here has a use for is none of a student's business to be told, and is told to who grades.
    found=$(LC_ALL=C awk -f "$base/workbook/loop/code.awk" "$own" | LC_ALL=C grep -aoE \
        '\<(v?fork|clone3?|exec[lv][pe]*|system|popen|posix_spawnp?|socket(pair)?|syscall|ptrace)[[:space:]]*[(]' |
        tr -d ' \t(' | sort -u | paste -s -d , -)
    [ -z "$found" ] || calls="$calls${calls:+; }look at $number: it calls $found"
done
if [ -z "$reason" ]; then
    reason=$notes
    [ -n "$reason$changed" ] || reason="it has no file problems/NN/NAME of the workbook"
    [ "$shipped$changed$notes" != yes ] || reason="every file in it is as shipped"
fi

# A source that was judged with the same is not judged again: of the whole submission, or of a problem.
for number in $numbers; do
    printf '%s ' "$number"
    {
        grep "^$number " "$base/fingerprints"
        [ -z "${CASES:-}" ] || awk -v number="$number" '$1 == number' "$CASES"
        echo "${SEED:-}|$WB_TIMEOUT|$WB_PROBLEM_SECONDS|$WB_MEMORY_MB"
        echo "$sandbox|$SANITIZE|$COVERAGE"
        cat "$tree/problems/$number"/*.c*
    } | sha256sum
done >"$scratch/prints"
total() { (cd "$base" && build/cpu/wb total "$out" | sed 's/^Score: //'); }
print=$({ cat "$scratch/prints"; echo "$reason"; } | sha256sum | cut -d' ' -f1) kept=
if [ -z "$again$one" ] && [ -s "$out/record" ]; then
    if [ "$(head -n 1 "$out/record")" = "$print" ]; then
        echo "grade: graded before, nothing has changed: $(total)"
        exit 0
    fi
    kept=$(tail -n +3 "$out/record" | grep -xFf "$scratch/prints" | cut -d ' ' -f 1)
fi

# ------------------------ judging

mkdir -m 711 "$scratch/workers"
cp -Rp "$base/build/kit" "$scratch/kit" && chmod -R a+rX "$scratch/kit" || exit 1
ln -s "$base/workbook" "$base/tests" "$tree/"
for judge in tests wb diagnose; do ln -s "$base/build/cpu/$judge" "$tree/build/cpu/"; done
[ -z "$one" ] || numbers=$P out=$scratch/one # tried, and recorded nowhere
mkdir -p "$out" && rm -rf "$out/sources" && mv "$scratch/shown" "$out/sources" || exit 1
for old in 00.note record report.txt results.json; do rm -f "$out/$old"; done
for number in $numbers; do
    case $kept in *"$number"*) ;; *) rm -f "$out/$number.json" ;; esac
done
shown=${SEED:-1}
[ -z "${WB_UNTIL:-}" ] || shown=the_instructors
{
    printf 'Submission %s, graded %s, SEED=%s, workbook %s\n' "$(basename "$1")" \
        "$(date -u '+%Y-%m-%d %H:%M UTC')" "$shown" "$(cut -c 1-12 "$base/fingerprint")"
    [ -z "$reason" ] || printf 'About this submission: %s\n' "$reason"
} | plain >"$out/00.note"
build=workbook/class/grade_build.sh
export sandbox sandbox_uid WB_SPENT="$scratch/spent"
cd "$tree" || exit 1
# shellcheck disable=SC2086
attended $((2 * sandbox_seconds + 600)) /dev/null build/cpu/wb test --grade "$out" "$build" cpu problems $numbers \
    >"$out/log" 2>&1
judged=$?
cd "$home" || exit 1
[ -z "$one" ] || plain <"$out/log"
case $judged in
0 | 1) [ -z "$one" ] || exit 0 ;;
3 | 75) busy "$(sed -n 's/^Could not be judged: //p' "$out/00.note" 2>/dev/null | head -n 1 | plain)" ;;
*)
    [ -z "$one" ] || exit 2
    echo "grade: this submission could not be judged; the output is in $out/log:" >&2
    tail -n 20 "$out/log" | plain >&2
    exit 1 ;;
esac
[ -z "$calls" ] || reason="${reason:+$reason; }$calls"

# The sum of all that it was judged with; what there is to say of it; and the sum of each problem.
printf '%s\n' "$print" "$reason" | cat - "$scratch/prints" >"$out/record.new" && mv "$out/record.new" "$out/record" ||
    fail 1 "$out is full"
echo "grade: $(total)${reason:+: $reason}"
