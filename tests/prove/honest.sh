#!/bin/sh
# honest.sh - keys by other hands (tests/honest, written from the lessons and workbook.h alone) pass every test of their suites, and
# the check build finds nothing in them: the suites ask for the contract and for no particular way to keep it. Part of make check-all.
set -u
out=build/cpu
one() { # NAME
    number=${1%%_*} log=$out/honest/$1/log
    if WB_JOBS=1 WB_RESULTS=$out/honest/$1/results "$out/suite" "$out/tests/${number}_test" "$out/honest/$1/${number}_worker" cpu >"$log" 2>&1; then
        echo "ok    $1: $(tail -n 1 "$log")"
    else
        echo "FAIL  $1"
        grep -v '^ *ok ' "$log" | sed 's/^/      /'
    fi
    # What one block says to another by a flag is reported, though it may be right (problems/when-it-is-wrong-but-runs.md).
    ! grep -q __threadfence tests/honest/"$1".* || return
    for given in $("$out/check/honest/$1/${number}_worker" --cases list); do
        "$out/check/honest/$1/${number}_worker" --case "$given" --guard 0 >"$log" 2>&1 && continue
        echo "FAIL  $1 in the check build: $given"
        sed 's/^/      /' "$log"
    done
}
if [ "${1:-}" = --one ]; then # in a process of its own, on one core; it prints all that it has to say at once
    said=$(one "$2")
    echo "$said"
    exit 0
fi
names=$(ls tests/honest/*.c* | sed 's|.*/||; s/[.].*//')
# shellcheck disable=SC2046
$MAKE --no-print-directory BACKEND=cpu WERROR=1 -j"${WB_JOBS:-2}" honest-checked "$out/suite" $(echo "$names" | sed "s|^\(..\).*|$out/tests/\1_test|" | sort -u) >"$out/honest.log" 2>&1 || {
    tail -n 20 "$out/honest.log"
    exit 1
}
echo "$names" | sort -r | xargs -P "${WB_JOBS:-2}" -n 1 "$0" --one | tee "$out/honest.txt"
! grep -q '^FAIL' "$out/honest.txt" && [ "$(grep -c '^ok' "$out/honest.txt")" -eq "$(echo "$names" | wc -l)" ]
