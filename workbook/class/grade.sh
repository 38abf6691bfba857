#!/bin/sh
# grade.sh [OPTION...] SUBMISSION OUT - grades one submission, a folder or an archive that nobody trusts, and leaves
# in the folder OUT report.txt, results.json (Gradescope), scores.tsv and record, which make grade-all
# collects. One submission is one independent command: many may run at once, here or on many machines.
#
#   --base FOLDER   what it is judged with, build/grades/base if not given; made if it is not there (grade_base.sh)
#   --unsafe        where bubblewrap does not work: with limits alone
#   --container     the same, without asking: this container exists for one submission
#   --again         even if OUT has the grade of the same sources already
#
# Environment, with what holds otherwise. Seconds are a submission's own (judge/spent.h): on a busy machine it has as
# many.
#   WB_TIMEOUT=20            seconds for a case         WB_PROBLEM_SECONDS=300   for the tests of a problem
#   WB_COMPILE_SECONDS=60    to compile a problem       WB_TOTAL_SECONDS=1800    for the whole submission
#   WB_MEMORY_MB=4096        address space of a worker  WB_PROCESSES=64 + 2 a core  its processes, threads
#   WB_JOBS                  tests at once: as many as there are cores for this (SLURM_CPUS_PER_TASK, nproc)
#   WB_SEED, WB_CASES, SANITIZE=1   other inputs, a file of private cases, the check build: test.sh, grade_build.sh
#
# What is taken from a submission: of each problem one regular file, problems/NN/NAME at any depth, or known by its name
# alone (read_sources.c). Each is compiled and run in the sandbox (sandbox.sh). The judge never runs there, and what
# runs there sees no test, no oracle and no reference solution.
#
# Exit status: 0 graded, whatever the score; 1 could not be graded, try again; 2 usage; 3 there is no sandbox; 4 could
# not be judged, since the machine was too busy: nothing is recorded, try again with nothing beside it; 130
# interrupted
set -u
unset WERROR # a warning in what a student wrote is no error
umask 077
home=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "grade: $*" >&2; exit 1; }

base= again=
while [ $# -gt 0 ]; do
    case $1 in
    --base) [ $# -gt 1 ] || usage; base=$2; shift ;;
    --unsafe) WB_ISOLATION=unsafe ;;
    --container) WB_ISOLATION=container ;;
    --again) again=yes ;;
    --) shift; break ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[ $# -eq 2 ] || usage
[ -z "${WB_CASE:-}${WB_TEST:-}" ] || [ -n "${P:-}" ] ||
    { echo "grade: CASE= and TEST= need a problem: make grade SUBMISSION=ada P=03 CASE=..." >&2; exit 2; }
[ -n "$1" ] || { echo "grade: name the submission: make grade SUBMISSION=handed-in/ada" >&2; exit 2; }
# Names are bytes: in $(...) one would lose the newlines at its end, and could be that of somebody else's.
submission=$1 out=$2
if ! [ -e "$submission" ] && ! [ -L "$submission" ]; then # ada is ada.zip
    for file in "$submission".*; do [ ! -e "$file" ] || submission=$file; done
fi
[ -e "$submission" ] || [ -L "$submission" ] || { echo "grade: there is no submission $1" >&2; exit 2; }
case $submission in /*) ;; *) submission=$PWD/$submission ;; esac
case $out in /*) ;; *) out=$PWD/$out ;; esac
given=$base base=${base:-$home/build/grades/base}
case $base in /*) ;; *) base=$PWD/$base ;; esac
if [ -n "${WB_CASES:-}" ]; then
    case $WB_CASES in /*) ;; *) WB_CASES=$PWD/$WB_CASES ;; esac
    [ -r "$WB_CASES" ] || fail "there is no case file $WB_CASES"
    "$home/workbook/class/cases.sh" "$WB_CASES" || exit 2
fi
. "$home/workbook/class/sandbox.sh"
sandbox_find
if [ -n "${WB_CASES:-}" ] && [ "$sandbox" != bwrap ] && [ "$sandbox_uid" != 0 ]; then
    ! $(sandbox_as) test -r "$WB_CASES" ||
        fail "every user, also a submission, can read the case file: chmod 600 $WB_CASES"
fi

case_seconds=${WB_TIMEOUT:-20} problem_seconds=${WB_PROBLEM_SECONDS:-300}
compile_seconds=${WB_COMPILE_SECONDS:-60} total_seconds=${WB_TOTAL_SECONDS:-1800}
memory=${WB_MEMORY_MB:-4096} processes=${WB_PROCESSES:-$((64 + 2 * $(nproc)))}
export WB_JOBS="${WB_JOBS:-${SLURM_CPUS_PER_TASK:-$(nproc)}}"

# Its folders lie where every user may look, since the sandbox's user is none that has a name.
scratch=$(mktemp -d /tmp/workbook-grade.XXXXXX) && chmod 711 "$scratch" || exit 1
export GRADE_SCRATCH="$scratch"
: >"$scratch/spent"
running=
started_by() { # PROCESS: it and all that it has started, some of which have left its group
    ps -eo pid=,ppid= | awk -v root="$1" '
        { parent[$1] = $2 }
        END { for (p in parent) { for (q = p; q in parent && q != root; q = parent[q]) {} if (q == root) print p } }'
}
stop() {
    # shellcheck disable=SC2046
    [ -z "$running" ] || kill -s KILL $(started_by "$running") 2>/dev/null
    rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

# Runs a command that ends with this script, in a process group of its own, for so many seconds of its own. Standard
# input comes from FILE.
attended() { # SECONDS FILE COMMAND...
    seconds=$1 input=$2
    shift 2
    "$scratch/within" "$seconds" "$@" <"$input" &
    running=$!
    wait $running
    ended=$?
    running=
    return $ended
}

# ------------------------ what it is

[ -n "$given" ] && [ -f "$base/fingerprint" ] || "$home/workbook/class/grade_base.sh" "$base" ||
    fail "the grader cannot be built"
for tool in confine read_sources within worker.filter tools.filter; do
    cp "$base/build/cpu/$tool" "$scratch/" && chmod a+rX "$scratch/$tool" || exit 1
done
chmod a+x "$scratch/confine" "$scratch/read_sources"
plain() { "$base/build/cpu/suite" --plain; } # what comes from a submission is shown so, here too
# shellcheck disable=SC2046
if ! eval "$(sandbox_words 512 8 1 10 0 worker --) /bin/true"; then
    echo "grade: the sandbox does not work on this system, see above" >&2
    exit 3
fi
known=$(sed 's|.*  problems/||' "$base/workbook/loop/shipped.sha256")
numbers=$(echo "$known" | cut -d/ -f1)
tree=$scratch/tree
mkdir -p "$tree/problems" "$tree/build/cpu/problems" "$scratch/sources"
: >"$scratch/taken"
reason=
from_folder() { # read by a program that follows no link
    attended 60 /dev/null "$scratch/read_sources" folder "$submission" $known \
        >"$scratch/taken" 2>"$scratch/said" 3>"$scratch/inner"
    case $? in
    0)
        grep -q '^inner ' "$scratch/taken" || return
        submission=$scratch/inner # a learning platform puts an archive into a folder with the name
        from_archive ;;
    75) busy "reading it: $(tail -n 1 "$scratch/said")" ;;
    *) reason="the folder cannot be read" ;;
    esac
}
from_archive() {
    if [ "$(wc -c <"$submission")" -gt $((100 << 20)) ]; then reason="the file is larger than 100 MB"; return; fi
    sandbox_room
    words=$(sandbox_words 1024 32 300 60 400 tools -- \
        --ro-bind "$scratch/unpack.sh" /unpack.sh --ro-bind "$scratch/read_sources" /read_sources)
    of=
    [ "$sandbox" = bwrap ] || of=$scratch
    cp "$base/workbook/class/unpack.sh" "$scratch/unpack.sh" && chmod 755 "$scratch/unpack.sh"
    eval "attended 60 \"\$submission\" $words /bin/sh $of/unpack.sh $room 256 $of/read_sources $(quoted $known)" \
        >"$scratch/taken" 2>"$scratch/said"
    case $? in
    0) ;;
    124 | 137) reason="the archive does not unpack in 60 s" ;;
    75) busy "unpacking it: $(tail -n 1 "$scratch/said")" ;;
    *) reason="the archive cannot be unpacked" ;;
    esac
}
busy() {
    echo "grade: could not be judged: $*. No points are lost: grade it again when nothing else runs" >&2
    exit 4
}

if [ -L "$submission" ]; then
    reason="this is a link, neither a folder nor an archive"
elif [ -d "$submission" ]; then
    from_folder
elif [ -f "$submission" ] && [ -r "$submission" ]; then
    from_archive
elif [ -e "$submission" ]; then
    reason="this is neither a folder nor a file"
fi
[ -n "$reason" ] || reason=$(sed -n 's/^reason //p' "$scratch/taken" | head -n 1 | plain)
# Of the files that could be a problem's, those that differ from the shipped one count; of these the one that lies best.
shipped=no notes=
note() { notes="${notes:+$notes; }$*"; }
sort -k 2,2 -k 3,3n -k 5 "$scratch/taken" | grep '^file ' >"$scratch/files"
before=
while [ -z "$reason" ] && read -r _ number rank text path; do
    own=$scratch/sources/$number source=$(echo "$known" | grep "^$number/")
    printf '%s' "${text#=}" | basenc --base16 -d >"$scratch/one"
    if cmp -s "$scratch/one" "$base/problems/$source"; then
        shipped=yes
    elif [ "$before" != "$number" ]; then
        mv "$scratch/one" "$own"
        before=$number best=$rank its=$path
        [ "$rank" -lt 100 ] || note "'$path' was taken for problems/$source"
    elif ! cmp -s "$scratch/one" "$own"; then
        if [ "$rank" = "$best" ]; then
            rm -f "$own"
            note "two files could be problems/$source: '$its' and '$path'"
        else
            note "'$path' is ignored, because '$its' is there"
        fi
    fi
done <"$scratch/files"
notes=$(printf '%s' "$notes" | plain)
left=$(sed -n 's/^left [0-9]* //p' "$scratch/taken" | LC_ALL=C sort | paste -s -d ';' - | sed 's/;/; /g' | plain)
others=$(sed -n 's|^other ||p' "$scratch/taken" | LC_ALL=C sort |
    grep -vE '^(.*/)*(workbook|tests|reference|train)/' | head -n 3 | paste -s -d , - | sed 's/,/, /g' | plain)
changed=
for source in $known; do # what is missing is as it was
    number=${source%/*} own=$scratch/sources/${source%/*}
    mkdir "$tree/problems/$number"
    ln -s "$base/problems/$number/checkpoints.txt" "$base/problems/$number/hints.txt" "$tree/problems/$number/"
    if [ -f "$own" ]; then
        cp "$own" "$tree/problems/$source"
        changed="$changed $number"
    else
        cp "$base/problems/$source" "$tree/problems/$source"
    fi
done
[ -z "$others" ] || note "files that belong to no problem (only problems/NN/NAME counts): $others"
[ -z "$left" ] || note "$left"
if [ -z "$reason" ]; then
    reason=$notes
    [ -n "$reason$changed" ] || reason="it has no file problems/NN/NAME of the workbook"
    [ "$shipped$changed$notes" != yes ] || reason="every file in it is as shipped"
fi

# The same sources, judged with the same, are graded once.
print=$({
    cat "$base/fingerprint"
    [ -z "${WB_CASES:-}" ] || cat "$WB_CASES"
    echo "${WB_SEED:-}|$case_seconds|$problem_seconds|$compile_seconds|$total_seconds|$memory|${WB_PROCESSES:-}"
    echo "$sandbox|${SANITIZE:-0}|${COVERAGE:-0}|$reason"
    cd "$tree/problems" && sha256sum $known
} | sha256sum | cut -d' ' -f1)
if [ -z "$again${WB_CASE:-}${WB_TEST:-}" ] && [ "$(head -n 1 "$out/record" 2>/dev/null | cut -f1)" = "$print" ]; then
    echo "grade: graded before, nothing has changed: $(tail -n 1 "$out/record" | cut -f 1) points"
    exit 0
fi

# ------------------------ judging

mkdir -m 711 "$scratch/workers"
cp -Rp "$base/build/kit" "$scratch/kit" && chmod -R a+rX "$scratch/kit" || exit 1
ln -s "$base/workbook" "$base/tests" "$tree/"
for judge in tests score suite diagnose; do ln -s "$base/build/cpu/$judge" "$tree/build/cpu/"; done
one=${WB_CASE:-}${WB_TEST:-}
[ -z "$one" ] || out=$scratch/one
mkdir -p "$out" || exit 1
rm -rf "$out/sources" && mkdir "$out/sources" || exit 1 # to be read, and compared by others
for number in $changed; do
    tr -d '\000-\010\013-\037\177' <"$scratch/sources/$number" \
        >"$out/sources/$(basename "$tree/problems/$number"/*.c*)" # no CR, nothing that moves a cursor
done
for kept in record failure report.txt results.json scores.tsv; do rm -f "$out/$kept"; done
rm -f "$out"/[0-9][0-9].*
{
    printf 'Submission %s, graded %s, SEED=%s, workbook %s\n' "$(basename "$1")" \
        "$(date -u '+%Y-%m-%d %H:%M UTC')" "${WB_SEED_SHOWN:-${WB_SEED:-1}}" "$(cut -c 1-12 "$base/fingerprint")"
    [ -z "$reason" ] || printf 'About this submission: %s\n' "$reason"
} | plain >"$out/00.note"
export sandbox sandbox_uid GRADE_TOTAL_SECONDS="$total_seconds" GRADE_COMPILE_SECONDS="$compile_seconds" \
    WB_PROBLEM_SECONDS="$problem_seconds" WB_SPENT="$scratch/spent" WB_TIMEOUT="$case_seconds" \
    GRADE_MEMORY_MB="$memory" GRADE_PROCESSES="$processes" WB_GRADE="$out" WB_SOURCES=problems \
    WB_BUILD=workbook/class/grade_build.sh WB_LOOK="workbook/class/grade_build.sh look" WB_WORKERS=build/cpu/problems \
    WB_GCOV="workbook/class/grade_build.sh gcov" SANITIZE="${SANITIZE:-0}" COVERAGE="${COVERAGE:-0}"
cd "$tree" || exit 1
if [ -n "$one" ]; then # tried, and recorded nowhere
    attended $((2 * total_seconds + 600)) /dev/null workbook/loop/test.sh cpu problems "$P" 2>&1 | plain
    exit 0
fi
# shellcheck disable=SC2086
attended $((2 * total_seconds + 600)) /dev/null workbook/loop/test.sh cpu problems $numbers >"$out/log" 2>&1
judged=$?
cd "$home" || exit 1
case $judged in
0 | 1) ;;
3 | 75) busy "$(sed -n 's/^Could not be judged: //p' "$out/00.note" 2>/dev/null | head -n 1 | plain)" ;;
*)
    echo "grade: this submission could not be judged; the output is in $out/log:" >&2
    tail -n 20 "$out/log" | plain >&2
    exit 1 ;;
esac

# What no function here has a use for is none of a student's business to be told, and is told to who grades.
calls=
for number in $changed; do
    found=$(LC_ALL=C awk -f workbook/loop/code.awk "$scratch/sources/$number" | LC_ALL=C grep -aoE \
        '\<(v?fork|clone3?|exec[lv][pe]*|system|popen|posix_spawnp?|socket(pair)?|syscall|ptrace)[[:space:]]*[(]' |
        tr -d ' \t(' | sort -u | paste -s -d , -)
    [ -z "$found" ] || calls="$calls${calls:+; }look at $number: it calls $found"
done
[ -z "$calls" ] || reason="${reason:+$reason; }$calls"

# The record: a line with the fingerprint, a line for the table.
score() { (cd "$base" && build/cpu/score "$@"); }
{ echo "$print" && score row "$out" "$reason"; } >"$out/record.new" && mv "$out/record.new" "$out/record" ||
    fail "there are no scores in $out"
total=$(score total "$out")
echo "grade: ${total#Score: }${reason:+: $reason}"
