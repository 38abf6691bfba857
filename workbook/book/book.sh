#!/bin/sh
# book.sh PYTHON - make book: the lessons and what belongs to them as a site in build/book/html that opens from the
# disk. What builds it is installed once, into build/book/venv. EDITION=instructors: with the wrong solutions, and with
# links to the keys, in build/book/instructors.
set -eu
out=build/book here=workbook/book
fail() { echo "book: $*" >&2; exit 1; }

case ${EDITION:-students} in
students) keys=no site=$out/html ;;
instructors)
    keys=yes site=$out/instructors
    [ -d solutions ] || fail "this copy has no solutions, so it has no instructors' edition"
    ;;
*) fail "EDITION=$EDITION: there are students and instructors" ;;
esac

mkdir -p $out
if ! cmp -s $here/requirements.txt $out/venv/installed; then
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "it wants Python 3.11 or later, and $1 is not: say PYTHON=..."
    rm -rf $out/venv
    "$1" -m venv $out/venv >$out/log 2>&1 || fail "$1 has no venv (Debian: apt-get install python3-venv), see $out/log"
    echo "book: installing $(grep -c == $here/requirements.txt) packages into $out/venv"
    $out/venv/bin/pip install -q --disable-pip-version-check --no-deps -r $here/requirements.txt >$out/log 2>&1 ||
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
"$1" $here/pages.py $out/source $keys
WB_BOOK_KEYS=$keys $out/venv/bin/python -m sphinx -q -W --keep-going -E -c $here -d $out/doctrees $out/source $site
echo "book: $(find $site -name '*.html' | wc -l) pages. Open $site/index.html"
