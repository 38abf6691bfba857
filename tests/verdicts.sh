#!/bin/sh
# verdicts.sh - code that cheats or dies must get the verdict that the first line of tests/hostile/NAME.c names, and never a pass: for one
# case, or, where the second line names a test, for its cases, which run in one process. Run by make check, which has built the workers.
set -u
out=build/${BACKEND:-cpu}
record=$out/hostile/record case=B=1,Hq=2,Nq=40,D=16,seed=1
failed=0
for source in tests/hostile/*.c; do
    name=$(basename "$source" .c)
    want=$(sed -n '1s|^// expect: ||p' "$source")
    test=$(sed -n '2s|^// test: |tiled_attention/|p' "$source")
    if [ -n "$test" ]; then given= ; else given=$case; fi
    report=$(WB_RESULTS=$record WB_TIMEOUT=2 WB_CASE=$given "$out/suite" "$out/tests/01_test" "$out/hostile/$name/01_worker" cpu ${test:+--filter "$test"} 2>&1)
    status=$?
    said=$("$out/suite" --show "$record" case)
    if [ $status -eq 1 ] && "$out/suite" --show "$record" message | grep -qF "$want" && { [ -z "$given" ] || [ "${said:-$case}" = $case ]; }; then
        echo "ok    $name: $want"
    else
        echo "FAIL  $name: wanted '$want', exit status $status, got:"
        echo "$report"
        failed=1
    fi
done
exit $failed
