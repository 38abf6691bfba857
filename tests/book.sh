#!/bin/sh
# book.sh - make book: no warning, no link that leads nowhere, no page wider than a screen, a search that finds; and the figures that move, by
# keys and touches, their numbers held against the workbook's own programs. Wants a browser (chromium, or WB_BROWSER), and what builds the
# book: that is fetched from PyPI only where a browser is named. `book.sh --stills` draws the figures' still pictures anew.
set -u
out=build/${BACKEND:-cpu}
. tests/prove/frame.sh
trap 'exit 2' INT TERM
browser=${WB_BROWSER:-}
for candidate in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || ! command -v $candidate >/dev/null || browser=$candidate
done
[ -n "$browser" ] || { echo "not run: there is no chromium (WB_BROWSER=PROGRAM names another)"; exit 0; }
[ -n "${WB_BROWSER:-}" ] || cmp -s workbook/book/requirements.txt build/book/venv/installed || { echo "not run: make book has not been made here yet"; exit 0; }

make_book() { ${MAKE:-make} --no-print-directory book EDITION="$1" >"$scratch/said" 2>&1; }
make_book students
verdict $? "the students' edition is made without a warning"
[ $failed -eq 0 ] || exit 1
book="build/book/venv/bin/python tests/book/book.py $browser build/book/html"
[ "${1:-}" != --stills ] || { $book --stills plots; exit; }
! find build/book/html -path '*solutions/[0-9]*' | grep .
verdict $? "and no key is in it"

# What the figures must compute: problem 01's key and its mistake; the lines of bounds in 04, 06, 07, and how workbook/mask counts tiles.
mkdir "$scratch/tables"
cc="${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O1 -w -I. -Iworkbook $(pkg-config --cflags openblas 2>/dev/null)"
awk -v list=solutions/01/wrong.diff -v entry=O_not_rescaled -f workbook/loop/edit.awk solutions/01/tiled_attention.c >"$scratch/wrong.c"
for n in 04 06 07; do grep -hE '^ *const int (first|sink_end|full|end) = ' solutions/$n/flash_*.cu >"$scratch/lines_$n"; done
{
    $cc -DSOURCE='"solutions/01/tiled_attention.c"' tests/book/softmax.c -o "$scratch/softmax" $(pkg-config --libs openblas 2>/dev/null || echo -lopenblas) -lm &&
        $cc -DSOURCE="\"$scratch/wrong.c\"" tests/book/softmax.c -o "$scratch/softmax_wrong" $(pkg-config --libs openblas 2>/dev/null || echo -lopenblas) -lm &&
        $cc -DLINES_04="\"$scratch/lines_04\"" -DLINES_06="\"$scratch/lines_06\"" -DLINES_07="\"$scratch/lines_07\"" tests/book/mask.c workbook/mask/picture.c \
            workbook/case/named_mask.c workbook/problems.c reference/oracle.c workbook/validate.c -o "$scratch/mask" -lm
} >"$scratch/said" 2>&1
verdict $? "the programs that the figures are held against compile"
for program in softmax softmax_wrong mask; do "$scratch/$program" >"$scratch/tables/$program"; done
$book "$scratch/tables" plots ${PICTURES:-} || failed=1

# The other editions, 45 seconds of a processor together.
[ -d solutions ] || exit $failed
make_book instructors
verdict $? "the instructors' edition is made without a warning"
for list in solutions/*/wrong.diff; do
    number=$(basename "$(dirname "$list")")
    awk -v list="$list" -v tell=names -f workbook/loop/edit.awk | while read -r name; do
        grep -q "$name" "build/book/instructors/wrong/$number.html" || echo "$number: $name"
    done
done >"$said"
check "it shows each wrong solution" [ ! -s "$said" ]
check "and keys" [ -s build/book/instructors/files/solutions/08/variants/hopper.cu.html ]
rm -f build/book/workbook.pdf
make_book pdf
verdict $? "the PDF is made without a warning"
pages=$(grep -ac '/Type /Page$' build/book/workbook.pdf) # the tree's root is /Pages
check "it has a few hundred pages: $pages" [ "$pages" -gt 150 ]
exit $failed
