#!/bin/sh
# book.sh - make book: no warning, no link that leads nowhere, no page wider than a screen, a search that finds; and
# what the figures that move compute and say (book/probe.js). Wants a browser (chromium), and
# python3-venv for what builds the book, which is fetched from PyPI; status 77 where there is none. `book.sh --stills`
# draws the figures' still pictures anew.
set -u
. tests/prove/frame.sh
trap 'exit 2' INT TERM
browser=
for candidate in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || ! command -v $candidate >/dev/null || browser=$candidate
done
[ -n "$browser" ] && python3 -c 'import ensurepip' 2>/dev/null ||
    { echo "there is no chromium, or no python3-venv"; exit 77; }

$MAKE --no-print-directory book >"$said" 2>&1
verdict $? "the book is made without a warning"
[ $failed -eq 0 ] || exit 1
find build/book/html -path '*solutions/[0-9]*' >"$said"
check "and it contains no reference solution" [ ! -s "$said" ]
for lesson in $(grep -l '^The step from ' problems/[0-9][0-9]/README.md); do
    page=build/book/html/${lesson%.md}.html
    [ "$(grep -c '<summary>From .. to ' "$page")" -eq 1 ] && grep -q '<span class="gi">' "$page" || echo "$page"
done >"$said"
check "each lesson shows its step" [ ! -s "$said" ]

strings() { sed 's/["\\]/\\&/g; s/.*/"&",/'; } # lines as JavaScript's
{
    echo "<!DOCTYPE html><meta charset=utf-8><body><script>"
    echo "const given = { site: 'file://$PWD/build/book/html', files: ["
    (cd build/book/html && find . -type f) | sed 's|^\./||' | strings
    echo "], css: ["
    strings <build/book/html/_static/figures.css
    printf '%s\n' "''].join('\n') }</script><script src='file://$PWD/tests/book/probe.js'></script>"
} >"$scratch/probe.html"
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files \
    --host-resolver-rules='MAP * ~NOTFOUND' --user-data-dir="$scratch/profile" --enable-logging=stderr \
    --virtual-time-budget=600000 --window-size=1400,1000 --dump-dom "file://$scratch/probe.html" \
    >"$scratch/shown" 2>"$scratch/errors"
pictures="softmax_01.svg softmax_03.svg ring_17.svg ring_18.svg fragments_19.svg"
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
exit $failed
