#!/bin/sh
# book.sh PYTHON - make book: the lessons and what belongs to them as a site in build/book/html that opens from the
# disk. What builds it is installed once, into build/book/venv.
set -eu
out=build/book here=workbook/book site=build/book/html
fail() { echo "book: $*" >&2; exit 1; }

mkdir -p $out
if ! cmp -s $here/requirements.txt $out/venv/installed; then
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "$1 is not Python 3.11 or later: PYTHON=... names another"
    packages=$(grep -c == $here/requirements.txt)
    echo "book: two minutes the first time, half a minute later; pip installs $packages packages in $out/venv"
    rm -rf $out/venv
    "$1" -m venv $out/venv >$out/log 2>&1 || fail "$1 has no venv (Debian: apt-get install python3-venv), see $out/log"
    { $out/venv/bin/pip install --disable-pip-version-check --no-deps -r $here/requirements.txt 2>&1 || echo failed; } |
        tee $out/log | awk -v all="$packages" '/^Collecting/ && ++n % 8 == 0 { print "book: " n " of " all; fflush() }'
    ! grep -qx failed $out/log ||
        fail "pip could not install $here/requirements.txt: it needs a network connection, once; see $out/log"
    cp $here/requirements.txt $out/venv/installed
fi

# A copy, so that pages that are made for the book are not beside those that are written.
rm -rf $out/source
mkdir $out/source
for part in *.md examples plots problems reference solutions tests train workbook; do
    [ ! -e $part ] || cp -Rp $part $out/source/
done
while read -r _ file; do # as it was shipped, whatever you have written there
    workbook/loop/shipped.sh "$(basename "${file%/*}")" $out/shipped 2>/dev/null &&
        mv $out/shipped "$out/source/$file" || :
done <workbook/loop/shipped.sha256
rm -rf $site
rm -f $out/failed
{ $out/venv/bin/python -m sphinx -W --keep-going -E --no-color -c $here -d $out/doctrees $out/source \
    $site || touch $out/failed; } | awk -v RS='[\r\n]' '
    match($0, /^(reading sources|writing output)\.\.\. *\[ *[0-9]+%/) {
        split(substr($0, RSTART, RLENGTH), at, /\.\.\. *\[ */)
        if (int(at[2] / 25) != last) { last = int(at[2] / 25); print "book: " at[1] ", " 25 * last " %"; fflush() }
    }'
[ ! -e $out/failed ] || exit 1
echo "book: $(find $site -name '*.html' | wc -l) pages. Open $site/index.html"
