#!/bin/sh
# ran.sh NN - each line of the reference solution has run in some case of its suite, as gcc counts them.
set -u
. tests/prove/judge.sh
grep -q '^GCOV := .' build/tools.mk || exit 77
worker=$out/solutions/${1}_counted_worker source=$(ls solutions/"$1"/*.c*)
counted=$ROW.counted
rm -rf "$counted" && mkdir "$counted" && cp "${worker%_worker}.gcno" "$counted/c.gcno" || exit 1
judge --coverage "$counted" "$out/tests/${1}_test" "$worker" "$BACKEND" || exit 1
name=${source##*/}
! workbook/loop/coverage.sh "$counted" "$source" "${name%.*}" | grep -v '^is decided'
