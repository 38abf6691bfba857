#!/bin/sh
# sanitize.sh BACKEND IMPL NN... - runs each problem on a few small cases in a build that looks at every access, and
# prints the first report. CASE (WB_CASE) names one case instead.
# sanitize.sh BACKEND IMPL --after NN CASE - for wb, after a failure: the report alone, if there is one.
# Exit status: 0 nothing found, 1 something found, or it does not compile; 2 if CASE is none; 3 if the machine was too
# busy to tell, or, after a failure, it took too long.
#
#   cpu   .cu: the check build of workbook/cpu.   .c: AddressSanitizer with UBSan, then ThreadSanitizer
#   cuda  .cu: compute-sanitizer's memcheck, racecheck, synccheck and initcheck
set -u
. workbook/loop/source.sh
. workbook/sanitize/settings.sh
backend=$1 impl=$2
shift 2
after=
if [ "$1" = --after ]; then after=yes WB_CASE=$3; set -- "$2"; fi
check=build/cpu/check/$impl
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 2' INT TERM HUP
limit=${WB_TIMEOUT:-60}
[ -z "$after" ] || limit=10
say() { [ -n "$after" ] || echo "$@"; }

# Each runs one case and leaves a report, or nothing, in $scratch/report; so does look_at_c (settings.sh).
look_at_kernel() { # WORKER CASE
    CUDACPU_TIMEOUT=${after:+5} build/cpu/within "$limit" "$1" --case "$2" --guard 0 \
        >"$scratch/printed" 2>"$scratch/raw"
    status=$?
    sed 's/^cudacpu: /sanitize: /' "$scratch/raw" >"$scratch/report"
    case $after$status in
    yes124 | *75) busy=yes; : >"$scratch/report"; return ;;
    124) echo "sanitize: no answer in $limit s" >>"$scratch/report" ;;
    esac
    [ $status -eq 0 ] || [ -s "$scratch/report" ] ||
        echo "sanitize: the worker ended with status $status" >"$scratch/report"
    [ -s "$scratch/report" ] || look_at_values "$2"
}
# In the check build a local variable without a value has another one than in the worker: does what comes out differ?
look_at_values() { # CASE
    ordinary=build/cpu/$impl/${number}_worker
    [ -x "$ordinary" ] && [ ! "$file" -nt "$ordinary" ] || return
    sed '/^memory/d' "$scratch/printed" >"$scratch/here"
    for n in 1 2; do
        build/cpu/within "$limit" "$ordinary" --case "$1" --guard 0 2>/dev/null | sed '/^memory/d' >"$scratch/$n"
    done
    ! cmp -s "$scratch/here" "$scratch/1" || return 0
    workbook/loop/shipped.sh "$number" "$scratch/shipped" 2>/dev/null
    awk -v skeleton="$scratch/shipped" -f workbook/sanitize/unset.awk "$file" >"$scratch/unset"
    # The order of atomics is a matter of chance, too.
    [ -s "$scratch/unset" ] || cmp -s "$scratch/1" "$scratch/2" || return 0
    {
        echo "sanitize: an uninitialised variable in $name"
        echo "   The results depend on the value of a local variable before its first assignment."
        head -n 4 "$scratch/unset" |
            sed "s|^\([0-9]*\) \(.*\)|   declared without a value at $file:\1\n               \| \2|"
        echo "   missing  a first value, such as = {} for a sum"
        echo '   read     problems/when-it-is-wrong-but-runs.md, "Nobody wrote it"'
    } >"$scratch/report"
}
look_at_gpu() { # WORKER CASE
    # initcheck does not see what Hopper's copy engine stores, and so finds the outputs of a right kernel uninitialised.
    tools="memcheck racecheck synccheck initcheck"
    if grep -q '^#include "hopper.cuh"' "$file"; then tools="memcheck racecheck synccheck"; fi
    for tool in $tools; do
        build/cuda/within "$limit" compute-sanitizer --tool $tool "$1" --case "$2" --guard 0 >"$scratch/raw" 2>&1
        status=$?
        [ $status -ne 75 ] || { busy=yes; return; }
        awk -v pwd="$(pwd)" -v tool=$tool -v files="$file $(echo workbook/words/*.cuh)" \
            -f workbook/sanitize/sanitize_gpu.awk "$scratch/raw" >"$scratch/report"
        [ $status -ne 124 ] || echo "sanitize: no answer in $limit s under $tool: do threads wait for each other?" \
            >>"$scratch/report"
        if ! [ -s "$scratch/report" ] &&
            ! grep -q 'SUMMARY: 0 ' "$scratch/raw"; then # it could not work, or in words that are new
            echo "sanitize: compute-sanitizer --tool $tool gave no clean result:"
            head -n 20 "$scratch/raw"
        fi >>"$scratch/report"
        [ -s "$scratch/report" ] && return
    done
}

case "${CXX:-g++} $([ -n "$after" ] || uname -s)" in
*clang*) less="clang++ instruments fewer accesses than g++, so a misaligned vector load may go unnoticed" ;;
*Darwin*) less="the check build is untested on this system, and may find less than g++ on Linux" ;;
*) less= ;;
esac

failed=0 busy='' late=''
for number; do
    find_source "$impl" "$number"
    [ -n "$file" ] || continue  # no reference solution yet
    say
    say "== $number $name"
    if [ "$impl$after" = problems ] && "build/$backend/wb" untouched "$file"; then
        say "  not started: open $file, and read problems/$number/README.md"
        continue
    fi
    look=look_at_kernel worker=$check/${number}_worker made=
    case $file in *.c) look=look_at_c made=$check/${number}_threads_worker ;; esac
    if [ "$backend" = cuda ] && [ $look = look_at_kernel ] && [ -z "$after" ]; then
        if command -v compute-sanitizer >/dev/null; then
            look=look_at_gpu worker=build/cuda/$impl/${number}_worker
            say "  on the GPU, with compute-sanitizer; BACKEND=cpu checks more," \
                "see problems/when-it-is-wrong-but-runs.md"
        else
            say "  compute-sanitizer is not in PATH; using the check build of the CPU execution layer instead"
        fi
    fi
    [ -z "$less" ] || [ $look != look_at_kernel ] || say "  $less"
    back=$backend
    [ $look = look_at_gpu ] || back=cpu
    if ! $MAKE --no-print-directory BACKEND=$back "$worker" $made "build/$back/within" \
        >"$scratch/log" 2>&1; then
        say "  $file does not compile"
        [ -n "$after" ] || LC_ALL=C awk -f workbook/loop/errors.awk "$scratch/log"
        failed=1
        continue
    fi
    case_is=0
    [ -z "${WB_CASE:-}" ] || [ -n "$after" ] || "$worker" --cases "$WB_CASE" 2>"$scratch/why" ||
        case_is=$? # 1 to be refused, 2 none
    if [ $case_is -eq 2 ]; then
        say "  CASE: $(cat "$scratch/why")"
        [ $failed -ne 0 ] || failed=2
        continue
    fi
    cases=${WB_CASE:-$("$worker" --cases list 2>/dev/null)}
    tried=0 found=0 unseen=''
    for given in $cases; do
        tried=$((tried + 1))
        $look "$worker" "$given"
        [ -z "$busy" ] || unseen="$unseen $given" busy=
        # A gap is open, or all of it is blank.
        if [ $look != look_at_gpu ] && grep -q '^returned: not implemented' "$scratch/printed"; then
            say "  nothing to check yet: $(sed -n 's/^returned: //p' "$scratch/printed")"
            found=-1 failed=1
            break
        fi
        if ! [ -s "$scratch/report" ] &&
            [ $look != look_at_gpu ]; then # a function that gave up did nothing that could be looked at
            if [ $case_is -eq 1 ] && grep -q '^returned: [^o]' "$scratch/printed"; then
                say "  CASE: nothing to check; the function rejects this case, as it must: $(cat "$scratch/why")"
                [ $failed -ne 0 ] || failed=2
                found=-1
                break
            fi
            sed -n 's/^returned: \([^o].*\)/sanitize: the function returned an error: \1/p' "$scratch/printed" \
                >"$scratch/report"
        fi
        [ -s "$scratch/report" ] || continue
        found=$((found + 1))
        if [ $found -eq 1 ]; then
            say "  case $given"
            sed 's/^/  /' "$scratch/report"
            say "     again    make sanitize-$number CASE=$given"
        fi
    done
    if [ $found -lt 0 ]; then
        continue
    elif [ $tried -eq 0 ]; then
        say "  $worker lists no cases"
        failed=1
    elif [ $found -eq 0 ] && [ -n "$unseen" ]; then
        say "  the machine was too busy to check$unseen: try again when it is less busy"
        late=yes
    elif [ $found -eq 0 ]; then
        say "  no errors in $tried case$([ $tried -eq 1 ] || echo s)"
        [ "$impl" != problems ] || [ -n "${WB_CASE:-}" ] || ! mkdir -p build/grade ||
            sha256sum <"$file" >"build/grade/clean.$number"
    else
        [ $tried -eq 1 ] || say "  errors in $found of $tried cases"
        failed=1
    fi
done
[ $failed -ne 0 ] || [ -z "$late" ] || exit 3
exit $failed
