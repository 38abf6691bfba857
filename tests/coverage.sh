#!/bin/sh
# coverage.sh - COVERAGE=1 tells of conditions that no case meets (planted.diff), and not of given lines; also who says
# that lines are others, and that counters do not have all calls.
set -u
. tests/prove/frame.sh
: "${ROW:=$scratch/row}"
. tests/prove/judge.sh
grep -q '^GCOV := .' build/tools.mk || exit 77
source=$out/planted/planted/flash_forward.cu
marked() { sed -n "/[/][/] $1\$/=" "$source" | sort; }
counted=$scratch/counted
mkdir "$counted" && cp "$out/planted/planted/03_counted.gcno" "$counted/c.gcno" &&
    judge --coverage "$counted" "$out/tests/03_test" "$out/planted/planted/03_counted_worker" "$BACKEND" \
        --filter '*/worked_by_hand' >"$said" 2>&1
workbook/loop/coverage.sh "$counted" "$source" flash_forward solutions/03/flash_forward.cu >"$said"
tr -c '0-9-' '\n' <"$said" | awk -F- '/[0-9]/ { for (n = $1 + 0; n <= ($2 == "" ? $1 : $2); n++) print n }' |
    sort >"$scratch/told"
check "each of 12 injected conditions is reported" [ "$(marked never | comm -12 "$scratch/told" - | grep -c .)" = 12 ]
diff --old-line-format= --unchanged-line-format='%dn
' --new-line-format= "$source" solutions/03/flash_forward.cu | sort >"$scratch/given"
check "no given line is reported" [ -z "$(comm -12 "$scratch/given" "$scratch/told")" ]
check "a condition written as arithmetic is not reported" [ -z "$(marked unseen | comm -12 "$scratch/told" -)" ]
check "directives that change lines or counters are reported" grep -q 'these lines may falsify .*: [0-9]' "$said"
mv "$(ls -d "$counted"/w-* | head -n 1)" "$counted/w-99-x" && rm -rf "$counted/sum" # as if some had been cleared
workbook/loop/coverage.sh "$counted" "$source" flash_forward >"$said"
check "a call that the counters lack is reported" grep -q 'what ran is unknown: of [0-9]* calls' "$said"
exit $failed
