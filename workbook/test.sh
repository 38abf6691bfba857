#!/bin/sh
# test.sh BACKEND IMPL NN... - builds and tests problems, and says of each where it stands: not started, compile error, failed,
# passed. Exit status: 1 if a problem that was started fails or does not compile. SANITIZE=1: a problem passes only if the check
# build (sanitize.sh) finds nothing either; SANITIZE=0: it is not asked, even after a failure.
set -u
backend=$1 impl=$2
shift 2
out=build/$backend
failed=0 states=

if [ "$backend" = cpu ]; then where="the CPU execution layer (no GPU needed)"; else where="the GPU"; fi
if [ "$impl" = problems ]; then whose="your code, problems/"; else whose="$impl/"; fi
echo "FlashAttention workbook: $whose on $where"

for number; do
    file=$(ls "$impl/$number"/*.cu "$impl/$number"/*.c 2>/dev/null | head -n 1)
    name=$(basename "${file%.*}")
    if [ -z "$file" ]; then
        echo "$number: there is no source file in $impl/$number" >&2
        failed=1
        continue
    fi
    echo
    echo "== $number $name"
    if [ "$impl" = problems ] && workbook/untouched.sh "$file"; then
        state="not started"
        echo "  not started: open $file, and read problems/$number/README.md"
    elif ! $MAKE --no-print-directory "program-$number" BACKEND="$backend" IMPL="$impl" >"$out/$number.log" 2>&1; then
        state="compile error"
        failed=1
        grep -v '^make' "$out/$number.log" | head -n 40
        echo "  $file does not compile"
    else
        grep -E 'warning:' "$out/$number.log"
        report=$out/$number.report
        workbook/suite.sh "$out/tests/${number}_test" "$out/$impl/${number}_worker" "$backend" >"$report" 2>&1
        status=$?
        cat "$report"
        case $status in
        0) state="passed" ;;
        1) state="failed, $(tail -n 1 "$report" | sed 's/, 0 skipped//')" failed=1 ;;
        *) state="the suite could not run" failed=1 ;;
        esac
        # A wrong result often has a cause that the check build can name: it runs the first failing case, or, on request, its own.
        given=$(sed -n 's/.*make test-[0-9]* CASE=\([^ ]*\).*/\1/p' "$report" | head -n 1)
        if [ $status -eq 1 ] && [ -n "$given" ] && [ "${SANITIZE:-}" != 0 ]; then
            WB_CASE= workbook/sanitize.sh "$backend" "$impl" --after "$number" "$given" >"$report.sanitize" 2>&1
            [ ! -s "$report.sanitize" ] || { echo "  the check build says of $given:"; cat "$report.sanitize"; }
        elif [ $status -eq 0 ] && [ "${SANITIZE:-0}" != 0 ]; then
            if workbook/sanitize.sh "$backend" "$impl" "$number" >"$report.sanitize" 2>&1; then
                state="passed, and nothing found in the check build"
            else
                state="failed: right results, but the check build found something" failed=1
            fi
            grep -v '^$\|^==' "$report.sanitize"
        fi
    fi
    states="$states$(printf '%s  %-22s %s' "$number" "$name" "$state")
"
done

echo
printf '%s' "$states"
next=$(printf '%s' "$states" | awk '$3 !~ /^passed/ { print $1; exit }')
if [ -n "$next" ] && [ "$impl" = problems ]; then
    echo "Next: problems/$next/README.md, then make test-$next"
fi
exit $failed
