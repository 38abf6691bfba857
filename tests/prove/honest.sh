#!/bin/sh
# honest.sh - keys by other hands (tests/honest, written from the lessons and workbook.h alone) pass every test of their suites, and
# the check build finds nothing in them: the suites ask for the contract and for no particular way to keep it. Part of make check-all.
set -u
out=build/cpu
failed=0
$MAKE --no-print-directory BACKEND=cpu WERROR=1 -j"${WB_JOBS:-2}" honest-checked "$out/suite" >"$out/honest.log" 2>&1 || {
    tail -n 20 "$out/honest.log"
    exit 1
}
for source in tests/honest/*; do
    name=$(basename "${source%.*}")
    number=${name%%_*}
    log=$out/honest/$name/log
    $MAKE --no-print-directory BACKEND=cpu "$out/tests/${number}_test" >"$log" 2>&1
    if "$out/suite" "$out/tests/${number}_test" "$out/honest/$name/${number}_worker" cpu >"$log" 2>&1; then
        echo "ok    $name: $(tail -n 1 "$log")"
    else
        echo "FAIL  $name"
        grep -v '^ *ok ' "$log" | sed 's/^/      /'
        failed=1
    fi
    for given in $("$out/check/honest/$name/${number}_worker" --cases list); do
        "$out/check/honest/$name/${number}_worker" --case "$given" --guard 0 >"$log" 2>&1 && continue
        echo "FAIL  $name in the check build: $given"
        sed 's/^/      /' "$log"
        failed=1
    done
done
exit $failed
