#!/bin/sh
# run.sh - run by make check-all: keys and variants choose smaller tiles where a block may have less shared memory, and those are right
# too. No machine at hand need have so little: the CPU layer plays a GPU with 64 KB (sm_75) and one with 99 KB (sm_86, sm_89, sm_120).
set -u
backend=cpu out=build/cpu passed=0 failed=0
log=$out/small_gpu.log record=$out/small_gpu.results
${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" BACKEND=$backend WERROR=1 everything >"$log" 2>&1 || { cat "$log"; exit 1; }
try() { # KB NN WORKER: the tests that visit every head dimension and every choice of tiles
    if WB_RESULTS=$record WB_SHARED_KB=$1 "$out/suite" "$out/tests/$2_test" "$3" $backend \
        --filter '*/@(many_tiles|every_input|wide_windows|no_window|whole_function)' >"$log" 2>&1 &&
        [ "$("$out/suite" --show "$record" ok | grep -c .)" -ge 2 ]; then
        passed=$((passed + 1))
        echo "ok    $1 KB: $3: $("$out/suite" --show "$record" counts)"
    else
        failed=$((failed + 1))
        echo "FAIL  $1 KB: $3"
        sed 's/^/          /' "$log" | tail -n 20
    fi
}
# That the layer lends no more than it is told: otherwise everything below would pass with any tiles.
if WB_SHARED_KB=48 "$out/solutions/03_worker" --case Nq=100,Nk=100,D=128 2>/dev/null | grep -q '^returned: device error'; then
    passed=$((passed + 1))
    echo "ok    48 KB are too few for 03 at D = 128, and it says so"
else
    failed=$((failed + 1))
    echo "FAIL  03 at D = 128 needs 51 KB, and was given them on a GPU with 48"
fi
for kilobytes in 64 99; do
    for key in $(grep -l tile.cuh solutions/[0-9][0-9]/*.cu solutions/[0-9][0-9]/variants/*.cu); do
        number=$(echo "$key" | cut -d/ -f2)
        worker=$out/solutions/${number}_worker
        case $key in */variants/*) worker=$out/variants/$number/variants/$(basename "$key" .cu)/${number}_worker ;; esac
        try $kilobytes "$number" "$worker"
    done
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
