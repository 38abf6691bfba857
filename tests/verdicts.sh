#!/bin/sh
# verdicts.sh - code that cheats or dies must get the verdict that the first line of tests/hostile/NAME.c names, and never a pass.
# Run by make check, which has built the workers.
set -u
out=build/${BACKEND:-cpu}
failed=0
for source in tests/hostile/*.c; do
    name=$(basename "$source" .c)
    want=$(sed -n '1s|^// expect: ||p' "$source")
    report=$(WB_TIMEOUT=2 WB_CASE=B=1,Hq=2,Nq=40,D=16,seed=1 workbook/suite.sh "$out/tests/01_test" "$out/hostile/$name/01_worker" cpu 2>&1)
    status=$?
    if [ $status -eq 1 ] && echo "$report" | grep -qF "$want"; then
        echo "ok    $name: $want"
    else
        echo "FAIL  $name: wanted '$want', exit status $status, got:"
        echo "$report"
        failed=1
    fi
done
exit $failed
