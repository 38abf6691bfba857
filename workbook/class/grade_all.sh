#!/bin/sh
# grade_all.sh [--unsafe|--container] SUBMISSIONS [OUT] - grades every submission in the folder SUBMISSIONS, each a
# folder or an archive, JOBS at once, and goes on after any failure. README.md says what OUT gets, build/grades if not
# given. What grade.sh has graded into OUT/reports/NAME counts.
#
# Exit status: 0 all graded, 1 some could not be graded (their rows say so), 2 usage, 3 there is no sandbox, 130
# interrupted
set -u
umask 077  # grades are for nobody else's eyes
home=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
usage() { echo "grade-all: $*" >&2; exit 2; }
case ${1:-} in --unsafe | --container) isolation=$1; shift ;; esac
[ $# -ge 1 ] && [ -n "$1" ] ||
    usage "name the folder of submissions: make grade-all SUBMISSIONS=dir [JOBS=n] [OUT=dir]"
[ -d "$1" ] || usage "there is no folder $1"
mkdir -p "${2:-$home/build/grades}" || exit 1
submissions=$(cd "$1" && pwd -P) out=$(cd "${2:-$home/build/grades}" && pwd -P) || exit 1
[ -z "${ROSTER:-}" ] || [ -r "$ROSTER" ] || usage "there is no roster $ROSTER"
if [ -n "${AGAIN:-}" ]; then # ada is ada.zip
    set -- "$submissions/$AGAIN" "$submissions/$AGAIN".*
    [ -e "$1" ] || [ -e "${2:-}" ] || usage "AGAIN=$AGAIN: there is no such submission in $submissions"
fi
[ -z "${CASES:-}" ] || CASES=$(realpath "$CASES")
[ -z "${CASES:-}" ] || cmp -s "$CASES" "$out/cases" ||
    { "$home/workbook/class/cases.sh" "$CASES" ask && cp "$CASES" "$out/cases"; } || exit 2
export CASES="${CASES:-}" isolation="${isolation:-}"
. "$home/workbook/class/sandbox.sh"
sandbox_find

graders=${JOBS:-2}
case $graders in [1-9] | [1-9][0-9]) ;; *) usage "JOBS=$graders: must be a number from 1 to 99" ;; esac
# One grader at a time; what one has graded the next finds done.
exec 9>"$out/lock"
flock -n 9 || { echo "grade-all: waiting: another grade-all is writing to $out" >&2; flock 9; }
# The cores that this may use, one a word.
cores=$(taskset -cp $$ 2>/dev/null | sed 's/.*: //' | tr , '\n' |
    awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }')
base=${WB_BASE:-$home/build/grades/base} # the same, whatever OUT
"$home/workbook/class/grade_base.sh" "$base" || exit 1
# What may have been published stays until it is known what of it changes.
mkdir -p "$out/reports"
work=$out
if [ -s "$out/grades.csv" ]; then
    work=$out/new
    mkdir -p "$work" && cp -Rpu "$out/reports" "$work/" || exit 1
fi
# What suites draw nobody has seen before: a class has one seed, its first grading's.
[ -n "${SEED:-}" ] || [ -s "$out/seed" ] || od -An -N3 -tu4 /dev/urandom | tr -d ' ' >"$out/seed" || exit 1
export SEED="${SEED:-$(cat "$out/seed")}"
scratch=$(mktemp -d) || exit 1
all=
stop() {
    if [ -n "$all" ]; then
        exec 2>/dev/null # the shell would say what was ended
        kill -s TERM -- "-$all"
        wait "$all"
        while kill -s 0 -- "-$all"; do sleep 0.1; done
    fi
    rm -rf "$scratch"
}
trap stop EXIT
trap 'echo >&2; echo "grade-all: interrupted; the same command continues from here" >&2; exit 130' INT TERM HUP

# One after the other in the order of their names, of which each byte may be any.
listed() { (cd "$submissions" && LC_ALL=C find . -mindepth 1 -maxdepth 1 -regextype posix-extended "$@"); }
set -- ! -name '.*' \( -type d -o -type f -iregex '.*[.](zip|tar|gz|tgz|bz2|tbz|xz|txz|zst|7z|rar)' \)
listed "$@" -print0 | LC_ALL=C sort -z >"$scratch/names"
count=$(tr -dc '\0' <"$scratch/names" | wc -c)
[ "$count" -gt 0 ] || usage "there are no submissions in $submissions"
others=$(listed ! \( "$@" \) -printf '%P\0' | LC_ALL=C sort -z | tr '\n\0' '?\n' | paste -s -d , - | sed 's/,/, /g')
[ -z "$others" ] ||
    printf 'grade-all: ignored, neither folders nor archives: %s\n' "$others" | "$base/build/cpu/wb" plain
echo "grade-all: $count submissions, $graders at once, SEED=$SEED; reports in $out/reports"

# Each grader keeps to cores of its own, so that a submission cannot take time from another.
: >"$scratch/failed"
: >"$scratch/busy"
share=$(($(echo "$cores" | wc -w) / graders))
[ $share -gt 0 ] || share=1
export WB_BASE="$base" home submissions work scratch cores share JOBS=$share AGAIN="${AGAIN:-}" alone=
one='
    name=${1#./}
    set -- $cores
    [ $# -eq 0 ] || shift $((GRADER * share % $#))
    mine=$(echo "$*" | cut -d " " -f "1-$share" | tr " " ,)
    again=
    case $name in "$AGAIN" | "$AGAIN".*) again=--again ;; esac
    said=$(${mine:+taskset -c "$mine"} "$home/workbook/class/grade.sh" $again $isolation "$submissions/$name" \
        "$work/reports/$name" 2>&1)
    status=$?
    if [ $status -eq 0 ]; then
        said=${said##*grade: }
    elif [ $status -eq 4 ] && [ -z "$alone" ]; then
        printf "./%s\\0" "$name" >>"$scratch/busy"
        exit 0
    else
        [ $status -ne 4 ] || said="${said##*grade: }. The same happened when it was graded alone: ask the instructor"
        mkdir -p "$work/reports/$name"
        printf "\n%s\n" "$said" >"$work/reports/$name/record" # the sum of nothing, and why
        printf "x\n" >>"$scratch/failed"
        [ $status -eq 4 ] || said="could not be graded (exit status $status)"
    fi
    # One write a line, also of several graders at once.
    shown=$(printf "%s" "$name" | tr "\n" "?" | "$WB_BASE/build/cpu/wb" plain)
    printf "%s: %s\n" "$shown" "$(printf "%s" "$said" | head -n 1)"'
begun=$(date +%s)
grade_these() { # NAMES GRADERS
    setsid xargs -0 -n 1 -P "$2" --process-slot-var=GRADER sh -c "$one" one <"$1" 9>&- &
    all=$!
    wait $all
    all=
}
grade_these "$scratch/names" "$graders"
if [ -s "$scratch/busy" ]; then
    alone=yes share=$(echo "$cores" | wc -w) JOBS=$share
    grade_these "$scratch/busy" 1
fi

table=$out/grades.csv
(cd "$base" && build/cpu/wb class "$work" <"$scratch/names") >"$table.new" || exit 1
if [ "$work" != "$out" ]; then
    diff "$table" "$table.new" | grep '^[<>]' >"$scratch/changed"
    changed=$(grep '^<' "$scratch/changed" | grep -vc ',"*not graded')
    [ "$changed" -eq 0 ] || cut -d, -f 1-4 "$scratch/changed"
    if [ "$changed" -gt 0 ] && [ "${REPLACE:-}" != 1 ]; then
        echo "grade-all: nothing was replaced: rows that would change: $changed. The new results are in $work and" \
            "$table.new; REPLACE=1 accepts them"
        exit 1
    fi
    [ "$changed" -eq 0 ] || cp -p "$table" "$out/grades.before.csv"
    rm -rf "$out/reports" && mv "$work/reports" "$out/reports" && rmdir "$work" || exit 1
fi
mv "$table.new" "$table" || exit 1
rm -f "$out/coverage.txt"
[ "${COVERAGE:-0}" = 0 ] ||
    (cd "$out/reports" && find . -name '[0-9][0-9].json' | LC_ALL=C sort | while IFS= read -r of; do
        "$base/build/cpu/wb" show "$of" coverage | OF="${of%.json}" awk '{ print ENVIRON["OF"] ": " $0 }'
    done) | "$base/build/cpu/wb" plain >"$out/coverage.txt"
[ -z "${ROSTER:-}" ] ||
    LC_ALL=C awk -v roster="$ROSTER" -f "$home/workbook/score/roster.awk" "$table" >"$out/roster.csv" || exit 1
failed=$(wc -l <"$scratch/failed")
echo "grade-all: $((count - failed)) of $count graded in $(($(date +%s) - begun)) s; the table is $table"
[ "$failed" -eq 0 ]
