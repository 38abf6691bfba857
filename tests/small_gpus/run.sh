#!/bin/sh
# run.sh - run by make check-all: keys and variants choose smaller tiles where a block may have less shared memory, and those are right
# too. No machine at hand need have so little: the CPU layer plays a GPU with 64 KB (sm_75) and one with 99 KB (sm_86, sm_89, sm_120).
set -u
backend=cpu out=build/cpu
if [ "${1:-}" = --one ]; then # KB NN WORKER: the tests that visit every head dimension and every choice of tiles, on one core
    record=$4.$2.results
    said=$(WB_JOBS=1 WB_RESULTS=$record WB_SHARED_KB=$2 "$out/suite" "$out/tests/$3_test" "$4" $backend \
        --filter '*/@(many_tiles|every_input|wide_windows|no_window|whole_function|long_sequence)' 2>&1)
    if [ $? -eq 0 ] && [ "$("$out/suite" --show "$record" ok | grep -c .)" -ge 2 ]; then
        echo "ok    $2 KB: $4: $("$out/suite" --show "$record" counts)"
    else
        said=$(echo "$said" | sed 's/^/          /' | tail -n 20)
        printf 'FAIL  %s KB: %s\n%s\n' "$2" "$4" "$said"
    fi
    exit 0
fi
log=$out/small_gpu.log
${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" BACKEND=$backend WERROR=1 everything >"$log" 2>&1 || { cat "$log"; exit 1; }
{
    # That the layer lends no more than it is told: otherwise everything below would pass with any tiles.
    if WB_SHARED_KB=48 "$out/solutions/03_worker" --case Nq=100,Nk=100,D=128 2>/dev/null | grep -q '^returned: device error'; then
        echo "ok    48 KB are too few for 03 at D = 128, and it says so"
    else
        echo "FAIL  03 at D = 128 needs 51 KB, and was given them on a GPU with 48"
    fi
    for kilobytes in 64 99; do
        for key in $(grep -lE '(tile|paged).cuh' solutions/[0-9][0-9]/*.cu solutions/[0-9][0-9]/variants/*.cu); do
            number=$(echo "$key" | cut -d/ -f2)
            worker=$out/solutions/${number}_worker
            case $key in */variants/*) worker=$out/variants/$number/variants/$(basename "$key" .cu)/${number}_worker ;; esac
            echo "$kilobytes $number $worker"
        done
    done >"$log"
    xargs -P "${WB_JOBS:-2}" -n 3 "$0" --one <"$log"
} | tee "$out/small_gpu.txt"
passed=$(grep -c '^ok' "$out/small_gpu.txt") failed=$(grep -c '^FAIL' "$out/small_gpu.txt")
[ $((passed + failed)) -eq $((1 + $(grep -c . "$log"))) ] || failed=$((failed + 1))
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
