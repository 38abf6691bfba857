#!/bin/sh
# test.sh BACKEND IMPL NN... - builds and tests problems, says of each where it stands (not started, compile error, failed, passed),
# and counts points by the table in checkpoints.txt.
# Exit status: 0 if all that was started passes, 1 if something fails or does not compile, 2 if the machinery could not run.
#
# Everything is recorded in build/grade (build/BACKEND/IMPL/grade for another IMPL): NN.state, NN.results, NN.report, and of all
# problems together scores.tsv, report.txt, results.json (Gradescope) and junit.xml. These are written whatever happens, an interrupt too.
#
#   SANITIZE=1       a problem passes only if the check build (sanitize.sh) finds nothing either; 0: not asked, even after a failure
#   SEED=n           other inputs
#   SPEED=1          speed points as well (speed.sh), on a GPU
#   WB_CASES=FILE    held-out cases as well, a line each: "NN checkpoint CASE"; the checkpoint is won only if they pass too
# For a grader that builds and runs elsewhere (grade.sh):
#   WB_GRADE=FOLDER    where to record            WB_SOURCES=FOLDER    where NN/name.cu lies, instead of IMPL
#   WB_BUILD=COMMAND   builds problem NN ($1), its output is shown if it fails
#   WB_WORKERS=FOLDER  where NN_worker then lies
set -u
backend=$1 impl=$2
shift 2
out=build/$backend
sources=${WB_SOURCES:-$impl} workers=${WB_WORKERS:-$out/$impl}
if [ "$impl" = problems ]; then record=build/grade; else record=$out/$impl/grade; fi
record=${WB_GRADE:-$record}
one=${WB_CASE:-}  # a single case is tried, and not recorded
[ -z "$one" ] || record=$out/$impl/one_case
status=0 number=
mkdir -p "$record"

finish() { # the table, and the files that others read
    trap - INT TERM HUP
    [ -z "$one" ] || exit $status
    [ -z "$number" ] || [ -f "$record/$number.state" ] || echo "interrupted" >"$record/$number.state"
    [ "${SPEED:-0}" = 0 ] || workbook/speed.sh "$backend" "$impl" "$record" $problems
    "$out/points" "$record" $problems || status=2
    if [ "$impl" = problems ] && [ -z "${WB_GRADE:-}" ]; then next_step; fi
    exit $status
}
next_step() { # the first problem of this run that has not passed, else the first of all
    awk -F'\t' -v asked=" $problems " '
        NR == 1 || $3 == "passed" { next }
        !best || (!ours && index(asked, " " $1 " ")) { best = $1; state = $3; what = $8; ours = index(asked, " " $1 " ") }
        END {
            if (!best) print "All nine have passed."
            else if (state == "failed") printf "Next: %s, \"%s\"; make hint-%s helps, then make test-%s\n", best, what, best, best
            else printf "Next: problems/%s/README.md, then make test-%s\n", best, best
        }' "$record/scores.tsv"
}
worse() { [ "$status" -ge "$1" ] || status=$1; }

build() {
    if [ -n "${WB_BUILD:-}" ]; then
        $WB_BUILD "$number"
    else
        $MAKE --no-print-directory "program-$number" BACKEND="$backend" IMPL="$impl"
    fi
}

# Builds one problem and runs its suite. Sets `state`; all that it says goes to the record.
judge() {
    number=$1 results=$record/$1.results
    file=$(ls "$sources/$number"/*.cu "$sources/$number"/*.c 2>/dev/null | head -n 1)
    name=$(basename "tests/${number}"_*.c .c | cut -d_ -f2-)
    if [ -z "$file" ]; then
        state="not started"
        echo "  there is no $name.cu or $name.c in $sources/$number"
        return
    fi
    if [ "$impl" = problems ] && workbook/untouched.sh "$file"; then
        state="not started"
        echo "  not started: open $file, and read problems/$number/README.md"
        return
    fi
    if ! build >"$record/$number.log" 2>&1; then
        state="compile error"
        grep -v '^make' "$record/$number.log" | head -n 40
        echo "  $file does not compile"
        return
    fi
    grep -E 'warning:' "$record/$number.log"
    WB_RESULTS=$results workbook/suite.sh "$out/tests/${number}_test" "$workers/${number}_worker" "$backend" >"$record/$number.suite" 2>&1
    suite=$?
    cat "$record/$number.suite"
    case $suite in
    0) state="passed" ;;
    1) state="failed" ;;
    *) state="could not run"; return ;;
    esac
    [ -z "${WB_CASES:-}" ] || [ -n "$one" ] || hold_out
    [ "$state" = passed ] || explain
    [ "$state" != passed ] || [ "${SANITIZE:-0}" = 0 ] || [ -n "${WB_GRADE:-}" ] || look_closer
}

# Held-out cases: what they are is not told.
hold_out() {
    held=0 wrong=0
    while read -r of checkpoint case; do
        [ "$of" = "$number" ] || continue
        held=$((held + 1))
        if WB_CASE=$case workbook/suite.sh "$out/tests/${number}_test" "$workers/${number}_worker" "$backend" </dev/null >"$record/$number.held" 2>&1; then
            result=ok
        else
            result=FAIL wrong=$((wrong + 1)) state=failed
        fi
        printf '%s\theld-out case %d\t%s\n' $result $held "$checkpoint" >>"$results"
    done <"$WB_CASES"
    rm -f "$record/$number.held"
    [ $held -eq 0 ] || echo "  held-out cases: $((held - wrong)) of $held right"
}

# A wrong result often has a cause that can be named: by the check build, for the first failing case, or by what is known of mistakes.
explain() {
    given=$(sed -n 's/.*make test-[0-9]* CASE=\([^ ]*\).*/\1/p' "$record/$number.suite" | head -n 1)
    if [ -n "$given" ] && [ "${SANITIZE:-}" != 0 ] && [ -z "${WB_GRADE:-}" ]; then
        WB_CASE= workbook/sanitize.sh "$backend" "$impl" --after "$number" "$given" >"$record/$number.sanitize" 2>&1
        [ ! -s "$record/$number.sanitize" ] || { echo "  the check build says of $given:"; cat "$record/$number.sanitize"; }
    fi
    [ ! -x "$out/tests/diagnose" ] ||
        WB_WORKER=$workers/${number}_worker WB_BACKEND=$backend WB_HUNG=$record/$number.hung WB_TIMEOUT=5 "$out/tests/diagnose" "$number" $given 2>/dev/null | sed 's/^/  /'
}

look_closer() {
    if workbook/sanitize.sh "$backend" "$impl" "$number" >"$record/$number.sanitize" 2>&1; then
        echo "  and the check build finds nothing"
    else
        state="failed"
        echo "  right results, but the check build found something:"
        printf 'FAIL\tcheck build\tpromises\n' >>"$results"
    fi
    grep -v '^$\|^==' "$record/$number.sanitize"
}

problems=$*
if [ -z "${WB_GRADE:-}" ]; then
    $MAKE --no-print-directory "$out/points" >"$record/grade.log" 2>&1 || { cat "$record/grade.log"; exit 2; }
fi
trap 'status=2; finish' INT TERM HUP

if [ "$backend" = cpu ]; then where="the CPU execution layer (no GPU needed)"; else where="the GPU"; fi
if [ "$impl" = problems ]; then whose="your code, problems/"; else whose="$impl/"; fi
echo "FlashAttention workbook: $whose on $where"

for number in $problems; do
    echo
    echo "== $number $(basename "tests/${number}"_*.c .c | cut -d_ -f2-)"
    rm -f "$record/$number".*
    workbook/where.sh "$backend" >"$record/$number.run"
    state=
    judge "$number" >"$record/$number.report" 2>&1
    cat "$record/$number.report"
    echo "$state" >"$record/$number.state"
    case $state in
    "compile error" | failed) worse 1 ;;
    "could not run") worse 2 ;;
    esac
done
number=
finish
