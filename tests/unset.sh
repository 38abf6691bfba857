#!/bin/sh
# unset.sh - a variable without a value is found in a source, and none in a reference solution.
set -u
failed=0
finds() { # WANT SOURCE
    got=$(awk -f workbook/sanitize/unset.awk "$2")
    [ "$got" = "$1" ] || { echo "$2: wanted '$1', got '$got'"; failed=1; }
}
work=$(mktemp) && trap 'rm -f "$work"' EXIT
for key in solutions/0[2-9]/*.cu; do finds '' "$key"; done
sed 's/float sum.ROWS. = {};/float sum[ROWS];/' solutions/02/weighted_row_sum.cu >"$work"
finds "$(grep -n 'float sum.ROWS.;' "$work" | sed 's/: */ /; s/ *\/\/.*//')" "$work"
sed 's/m, l = {};/m, l;/' solutions/03/flash_forward.cu >"$work"
finds "$(grep -n 'm, l;' "$work" | sed 's/: */ /')" "$work"
exit $failed
