#!/bin/sh
# verdicts.sh - code that cheats or dies must get the verdict that the lists of tests/hostile have for it, and never a pass: for one case,
# or, where a test is named, for its cases, which run in one process. Run by make check, which has built the workers.
set -u
out=build/${BACKEND:-cpu}
record=$out/hostile/record case=B=1,Hq=2,Nq=40,D=16,seed=1
! grep -q -e -Werror "$out/flags.mk" 2>/dev/null || export WERROR=1 # as it was built
failed=0
told() { awk -v list="tests/hostile/$1.diff" -v entry="${3:-}" -v tell="$2" -f workbook/loop/edit.awk; }
verdicts() { # LIST NN FOLDER SUITE CASE
    for name in $(told "$1" names); do
        want=$(told "$1" known "$name")
        test=$(told "$1" test "$name" | sed "s|^|$4/|")
        if [ -n "$test" ]; then given= ; else given=$5; fi
        report=$(WB_RESULTS=$record WB_TIMEOUT=5 WB_CASE=$given "$out/suite" "$out/tests/$2_test" "$out/$3/$name/$2_worker" cpu ${test:+--filter "$test"} 2>&1)
        status=$?
        said=$("$out/suite" --show "$record" case)
        if [ $status -eq 1 ] && "$out/suite" --show "$record" message | grep -qF "$want" && { [ -z "$given" ] || [ "${said:-$5}" = "$5" ]; }; then
            echo "ok    $name: $want"
        else
            echo "FAIL  $name: wanted '$want', exit status $status, got:"
            echo "$report"
            failed=1
        fi
    done
}
verdicts hostile 01 hostile tiled_attention "$case"
verdicts ring 17 hostile_ring flash_ring B=1,Hq=2,Hkv=1,Nq=36,D=64,causal=1,ranks=3,seed=1

# What worker and layer keep to themselves cannot be named, and all that can be is declared where the lesson's headers declare it.
if [ "${BACKEND:-cpu}" = cpu ]; then
    for name in $(awk -v list=tests/hostile/refused.diff -v tell=names -f workbook/loop/edit.awk); do
        want=$(awk -v list=tests/hostile/refused.diff -v entry="$name" -v tell=known -f workbook/loop/edit.awk)
        if ${MAKE:-make} --no-print-directory -s BACKEND=cpu "$out/refused/$name/01_worker" >"$record.log" 2>&1 ||
            ! grep -q "undefined reference to .$want" "$record.log"; then
            echo "FAIL  $name: wanted that $want is not found:"
            cat "$record.log"
            failed=1
        else
            echo "ok    $name: nothing is known of $want"
        fi
    done
    others=$(nm -gC --defined-only "$out/machinery/judge_01.o" | cut -c20- | grep -v -e std:: -e '^main$' -e '^__ubsan_' -e "^cblas_sgemm$" -e "^wb_statics_from$" |
        sed 's/(.*//; s/.*:://' | sort -u | while read -r name; do
        grep -rqw -e "$name" workbook/workbook.h workbook/cpu/include || echo "$name"
    done)
    if [ -z "$others" ]; then
        echo "ok    what a worker's function can name is declared in workbook.h and cpu/include"
    else
        echo "FAIL  a worker's function can name what no header of its own declares:" $others
        failed=1
    fi
fi

# What a failure says: where, in the tile of this launch; and what the first hour shows, but for the last digits.
says() { # NN WRONG CASE: what make test-NN prints for a wrong solution
    ${MAKE:-make} --no-print-directory -s BACKEND="${BACKEND:-cpu}" "$out/tests/$1_test" "$out/wrong/$1/$2/$1_worker" >"$record.log" 2>&1 || cat "$record.log"
    WB_CASE=$3 WB_WORKER_SHOWN=build/cpu/problems/$1_worker "$out/suite" "$out/tests/$1_test" "$out/wrong/$1/$2/$1_worker" cpu 2>&1
}
if [ "${BACKEND:-cpu}" != cpu ]; then
    echo "ok    a failure names the tile of the kernel's own launch: on the CPU layer, which sees launches"
elif WB_SHARED_KB=64 says 03 scale_forgotten Nq=129,Nk=64,D=128 | grep -q 'first wrong O\[b 0, h 0, i 0, d 0\] (row 0 of tile 0, of 64 rows) is'; then
    echo "ok    a failure names the tile of the kernel's own launch"
else
    echo "FAIL  a failure names the tile of the kernel's own launch:"
    WB_SHARED_KB=64 says 03 scale_forgotten Nq=129,Nk=64,D=128
    failed=1
fi
if "$out/wrong/03/scale_forgotten/03_worker" --case Nq=5,D=80 >"$record.log" 2>&1 && grep -q '^returned: unsupported' "$record.log" &&
    ! grep -q 'O\[' "$record.log"; then
    echo "ok    a run by hand prints no outputs of a call that was refused"
else
    echo "FAIL  a run by hand prints no outputs of a call that was refused:" && cat "$record.log"
    failed=1
fi
# The mask is drawn where it can be wrong: not where O has a wrong denominator, or L alone is wrong.
for wrong in "sink_is_one:look at what O is divided by" "sink_left_out_of_L:L differs" "window_one_too_many:the mask (#"; do
    says 11 "${wrong%%:*}" Nq=70,D=16,W=9,seed=1 >"$record.log"
    if grep -qF "${wrong#*:}" "$record.log" && [ "$(grep -c 'the mask (#' "$record.log")" -eq "$(echo "$wrong" | grep -c '(#$')" ]; then
        echo "ok    a failure of ${wrong%%:*} says: ${wrong#*:}"
    else
        echo "FAIL  a failure of ${wrong%%:*} says: ${wrong#*:}" && cat "$record.log"
        failed=1
    fi
done
# A function of problem 10 may say that it needs another GPU. Whether it does is asked of the driver, here one that says what it is told.
mkdir -p "$out/hostile/driver"
${CC:-cc} -shared -fPIC tests/hostile/driver/driver.c -o "$out/hostile/driver/libcuda.so.1"
${MAKE:-make} --no-print-directory -s BACKEND="${BACKEND:-cpu}" "$out/tests/10_test" "$out/wrong/10/says_unsupported/10_worker" >"$record.log" 2>&1 || cat "$record.log"
unsupported() { # BACKEND CAPABILITY EXIT-STATUS COUNTS WHAT
    LD_LIBRARY_PATH=$out/hostile/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} DRIVER_SAYS=$2 WB_RESULTS=$record "$out/suite" "$out/tests/10_test" \
        "$out/wrong/10/says_unsupported/10_worker" "$1" --filter 'flash_hopper/@(one_tile_of_keys|bad_input_mask)' >"$record.log" 2>&1
    if [ $? -eq "$3" ] && [ "$("$out/suite" --show "$record" counts)" = "$4" ]; then
        echo "ok    $5"
    else
        echo "FAIL  $5:" && cat "$record.log"
        failed=1
    fi
}
unsupported cuda 8 0 "1 passed, 0 failed, 1 skipped" "a function that needs another GPU is skipped where the driver says so"
unsupported cuda 9 1 "1 passed, 1 failed, 0 skipped" "it fails on the GPU that it needs, whatever it says"
unsupported cuda 0 1 "1 passed, 1 failed, 0 skipped" "it fails where there is no GPU to ask"
unsupported cpu 8 1 "1 passed, 1 failed, 0 skipped" "it fails on the CPU layer"

shorter() { sed 's/\([0-9]\.[0-9]\{3\}\)[0-9]*/\1/g; s/^ *//' | grep .; }
shown=$(sed -n '/^ *FAIL  given_case/,/^ *by hand /p' problems/README.md | shorter)
printed=$(says 01 O_not_rescaled Nq=8,Nk=256,D=16 | sed -n '/FAIL/,/by hand/p' | shorter)
if [ "$shown" = "$printed" ]; then
    echo "ok    problems/README.md shows the failure that is printed"
else
    printf 'FAIL  problems/README.md shows\n%s\nand printed is\n%s\n' "$shown" "$printed"
    failed=1
fi
exit $failed
