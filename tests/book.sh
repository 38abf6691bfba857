#!/bin/sh
# book.sh - make book: no warning, no link that leads nowhere, no page wider than a screen, a search that finds; and
# what the figures that move compute and say (book/probe.js). Wants a browser (chromium, or WB_BROWSER), and
# python3-venv for what builds the book, which is fetched from PyPI; status 77 where there is none. `book.sh --stills`
# draws the figures' still pictures anew.
set -u
. tests/prove/frame.sh
trap 'exit 2' INT TERM
browser=${WB_BROWSER:-}
for candidate in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || ! command -v $candidate >/dev/null || browser=$candidate
done
[ -n "$browser" ] && python3 -c 'import ensurepip' 2>/dev/null ||
    { echo "there is no chromium (WB_BROWSER=PROGRAM names another), or no python3-venv"; exit 77; }

make_book() { # EDITION, what it is called
    ${MAKE:-make} --no-print-directory book EDITION="$1" >"$said" 2>&1
    verdict $? "$2 is made without a warning"
}
make_book students "the students' edition"
[ $failed -eq 0 ] || exit 1
find build/book/html -path '*solutions/[0-9]*' >"$said"
check "and it contains no reference solution" [ ! -s "$said" ]
steps() { # EDITION TIMES: so many pictures of a step in each lesson that has one
    for lesson in $(grep -l '^The step from ' problems/[0-9][0-9]/README.md); do
        page=build/book/$1/${lesson%.md}.html
        [ "$(grep -c '<summary>From .. to ' "$page")" -eq "$2" ] && grep -q '<span class="gi">' "$page" || echo "$page"
    done >"$said"
    check "each lesson shows its step $2 times" [ ! -s "$said" ]
}
steps html 1

# What the layer records of the keys of 17 and 18 on up to 8 ranks, and of a wrong solution of each, which the figure
# draws as well. OTHER: whether it is that; MORE rows than each chunk's.
record() { # NN FOLDER OTHER MORE
    ${MAKE:-make} --no-print-directory -s BACKEND=cpu "build/cpu/$2/$1_worker" >"$said" 2>&1 || return
    for R in 1 2 3 4 5 6 7 8; do
        for causal in 0 1; do
            N=$((6 * R + $4))
            "build/cpu/$2/$1_worker" --case "B=1,Hq=2,Hkv=1,Nq=$N,D=64,causal=$causal,ranks=$R" \
                --record "$scratch/rows" >"$said" 2>&1 || continue
            echo "{ setup: { back: $1 > 17, ranks: $R, causal: $causal > 0, N: $N, Hq: 2, Hkv: 1, D: 64, other: $3 },"
            echo "rows: [ $(sed 1d "$scratch/rows" | strings) ] },"
        done
    done
}
records() {
    record 17 solutions false 1
    record 17 wrong/17/contiguous_chunks true 0
    record 18 solutions false 1
    record 18 wrong/18/nothing_under_the_way_home true 0
}

strings() { sed 's/["\\]/\\&/g; s/.*/"&",/'; } # lines as JavaScript's
{
    echo "<!DOCTYPE html><meta charset=utf-8><body><script>"
    echo "const given = { site: 'file://$PWD/build/book/html', files: ["
    (cd build/book/html && find . -type f) | sed 's|^\./||' | strings
    echo "], records: ["
    [ ! -d solutions ] || records
    echo "], css: ["
    strings <build/book/html/_static/figures.css
    printf '%s\n' "''].join('\n') }</script><script src='file://$PWD/tests/book/probe.js'></script>"
} >"$scratch/probe.html"
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files \
    --host-resolver-rules='MAP * ~NOTFOUND' --user-data-dir="$scratch/profile" --enable-logging=stderr \
    --virtual-time-budget=600000 --window-size=1400,1000 --dump-dom "file://$scratch/probe.html" \
    >"$scratch/shown" 2>"$scratch/errors"
pictures="softmax_01.svg softmax_03.svg ring_17.svg ring_18.svg"
still() { sed -n "s/^still $1 //p" "$scratch/shown" | base64 -d; }
if [ "${1:-}" = --stills ]; then
    for picture in $pictures; do still $picture >plots/$picture; done
    exit
fi
sed -n 's/.*<pre>//; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g; /^ok /p; /^FAIL /p' "$scratch/shown"
! grep -q '^FAIL ' "$scratch/shown" || failed=1
grep -v 'dbus\|gpu\|^$' "$scratch/errors" >"$said"
check "the browser has looked at all of it" grep -qx done "$scratch/shown"
grep CONSOLE "$scratch/errors" >"$said"
check "no page complains" [ ! -s "$said" ]
for picture in $pictures; do
    still $picture | cmp - plots/$picture >"$said" 2>&1
    verdict $? "plots/$picture is what the figure draws (tests/book.sh --stills)"
done

# The other edition.
[ -d solutions ] || exit $failed
check "64 runs of rings are among what was looked at" grep -q 'the ring of 64 runs' "$scratch/shown"
make_book instructors "the instructors' edition"
for list in solutions/*/wrong.diff; do
    number=$(basename "$(dirname "$list")")
    awk -v list="$list" -v tell=names -f workbook/loop/edit.awk | while read -r name; do
        grep -q "$name" "build/book/instructors/wrong/$number.html" || echo "$number: $name"
    done
done >"$said"
check "it shows each wrong solution" [ ! -s "$said" ]
steps instructors 2
check "and keys" [ -s build/book/instructors/files/solutions/08/variants/hopper.cu.html ]
exit $failed
