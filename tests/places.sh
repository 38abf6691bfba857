#!/bin/sh
# places.sh - unset.awk finds a variable without a value in a source, and none in a reference solution; origin.awk finds
# the gap to which a line leads, in time, and none in a file that would hold it up.
. tests/prove/frame.sh
unset_in() { check "in $2: '$1'" [ "$(awk -f workbook/sanitize/unset.awk "$2")" = "$1" ]; }
for key in solutions/0[2-9]/*.cu; do unset_in '' "$key"; done
sed 's/float sum.ROWS. = {};/float sum[ROWS];/' solutions/02/weighted_row_sum.cu >"$scratch/02"
unset_in "$(grep -n 'float sum.ROWS.;' "$scratch/02" | sed 's/: */ /; s/ *\/\/.*//')" "$scratch/02"
sed 's/m, l = {};/m, l;/' solutions/03/flash_forward.cu >"$scratch/03"
unset_in "$(grep -n 'm, l;' "$scratch/03" | sed 's/: */ /')" "$scratch/03"
printf '    int a;\n    if (x) a = 1;\n    y = a;\n    int b;\n    if (x) b = 1;\n    else b = 2;\n' >"$scratch/if"
unset_in '' "$scratch/if"
check "what a condition fills" [ "$(awk -v conditional=1 -f workbook/sanitize/unset.awk "$scratch/if")" = "1 int a;" ]

origin() { timeout 20 awk -v lines=" 2" -f workbook/wb/origin.awk; }
leads() { check "leads to '$1'" [ "$(printf "//{ max\nx = y;\n//}\n$2" | origin)" = "$1" ]; }
leads max ''
for long in "$(seq 5000)" "$(printf '%1001s' x)" "$(seq 60 | sed 's|.*|//{ &|')"; do leads '' "$long\n"; done
long=$({ echo '//{ max'; seq 4900 | sed 's/.*/x = x + y + z + f(c) +/'; } | origin)
check "a long gap is read in time" [ "$long" = max ]
exit $failed
