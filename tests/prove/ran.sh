#!/bin/sh
# ran.sh NN - each line of the reference solution has run in some case of its suite, as gcc counts them: first of the
# tests that meet most lines, and of the whole suite where that is not enough.
set -u
. tests/prove/judge.sh
grep -q '^GCOV := .' build/tools.mk || exit 77
worker=$out/solutions/${1}_counted_worker source=$(ls solutions/"$1"/*.c*)
counted=$ROW.counted name=${source##*/}
for tests in '@(drawn_sizes|every_head_dim|one_key|worked_by_hand|bad_input*)' '*'; do
    rm -rf "$counted" && mkdir "$counted" && cp "${worker%_worker}.gcno" "$counted/c.gcno" || exit 1
    judge --coverage "$counted" "$out/tests/${1}_test" "$worker" "$BACKEND" --filter "*/$tests" || exit 1
    left=$(workbook/loop/coverage.sh "$counted" "$source" "${name%.*}" | grep -v '^is decided')
    [ -n "$left" ] || exit 0
done
echo "$left"
exit 1
