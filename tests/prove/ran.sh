#!/bin/sh
# ran.sh NN - each line of the reference solution has run in some case of its suite, as gcc counts them.
set -u
. tests/prove/judge.sh
grep -q '^GCOV := .' build/tools.mk || exit 77
worker=$out/solutions/${1}_counted_worker source=$(ls solutions/"$1"/*.c*)
export WB_COVERAGE="$ROW.counted"
rm -rf "$WB_COVERAGE" && mkdir "$WB_COVERAGE" && cp "${worker%_worker}.gcno" "$WB_COVERAGE/c.gcno" || exit 1
judge "$out/tests/${1}_test" "$worker" "$BACKEND" || exit 1
name=${source##*/}
! workbook/loop/coverage.sh "$WB_COVERAGE" "$source" "${name%.*}" | grep -v '^is decided'
