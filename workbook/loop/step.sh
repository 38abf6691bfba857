#!/bin/sh
# step.sh NN - the step to problem NN: the student's file of the problem that NN grows out of (`from` in
# workbook/problems.c) against NN as it was shipped. KEYS=1: the two answer keys instead, which give NN away.
# COMMENTS=1: the code first, and the comments behind it.
set -u
number=$1
. workbook/loop/source.sh
refuse() { echo "step-$number: $*" >&2; exit 1; }
from=$(from_of "$number")
[ -n "$from" ] || refuse "there is no problem $number that grows out of another"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

put() { # IMPL NN: its source lies in scratch as well, under the name that the difference shows
    find_source "$1" "$2"
    [ -n "$file" ] || refuse "there is no source file in $1/$2"
    mkdir -p "$scratch/$1/$2" && cp "$file" "$scratch/$file" || exit 1
}
if [ "${KEYS:-}" = 1 ]; then
    [ -d "solutions/$number" ] ||
        refuse "there is no answer key here (solutions/$number): a class gets the workbook without"
    put solutions "$from"
    old=$file
    put solutions "$number"
    new=$file
else
    put problems "$from"
    old=$file
    new=shipped/$(sed -n "s|.*  problems/\($number/.*\)|\1|p" workbook/loop/shipped.sha256)
    mkdir -p "$scratch/shipped/$number" && workbook/loop/shipped.sh "$number" "$scratch/$new" || exit 1
fi

differ() {
    if command -v git >/dev/null; then
        git diff --no-index --no-ext-diff --no-prefix --color-moved "$old" "$new"
    else
        diff -u "$old" "$new"
    fi
    [ $? -le 1 ] || exit 1
}
code=$PWD/workbook/loop/code.awk
cd "$scratch" || exit 1
if [ "${COMMENTS:-}" != 1 ]; then
    differ
    exit
fi
for part in code comments; do
    mkdir $part
    for source in "$old" "$new"; do
        mkdir -p "$part/${source%/*}" && awk -v gaps=1 -v comments="${part#code}" -f "$code" "$source" >"$part/$source"
    done
    (cd $part && differ)
done
