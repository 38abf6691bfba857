#!/bin/sh
# step.sh NN - the step to problem NN: the student's file of the problem that NN grows out of (`from` in
# workbook/problems.c) against NN as it was shipped, and how many lines of code change. KEYS=1: the two reference
# solutions instead, which give NN away. COMMENTS=1: the code first, and the comments behind it.
set -u
number=$1
case $number in [1-9]) number=0$number ;; esac
. workbook/loop/source.sh
refuse() { echo "step-$number: $*" >&2; exit 1; }
grows_from "$number" || refuse "$why"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

put() { # IMPL NN: its source lies in scratch as well, under the name that the difference shows
    find_source "$1" "$2"
    [ -n "$file" ] || refuse "there is no source file in $1/$2"
    mkdir -p "$scratch/$1/$2" && tr -d '\r' <"$file" >"$scratch/$file" || exit 1
}
if [ "${KEYS:-}" = 1 ]; then
    [ -d "solutions/$number" ] ||
        refuse "there is no reference solution here (solutions/$number): a class copy has none"
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

shown=$scratch/shown color=never pager=cat
if [ -t 1 ] && command -v git >/dev/null; then
    [ "$(git config --get-colorbool color.diff true)" != true ] || color=always
    pager=$(git var GIT_PAGER)
fi
differ() {
    if command -v git >/dev/null; then
        git diff --no-index --no-ext-diff --no-prefix --color=$color --color-moved "$old" "$new" >>"$shown"
    else
        diff -u "$old" "$new" >>"$shown"
    fi
    [ $? -le 1 ] || exit 1
}
root=$PWD
(
    cd "$scratch" || exit 1
    [ "${COMMENTS:-}" = 1 ] || { differ; exit; }
    for part in code comments; do
        for source in "$old" "$new"; do
            mkdir -p "$part/${source%/*}" &&
                awk -v gaps=1 -v comments="${part#code}" -f "$root/workbook/loop/code.awk" "$source" >"$part/$source"
        done
        (cd $part && differ) || exit 1
    done
) || exit 1
filled=
[ "${KEYS:-}" = 1 ] || filled=$(sed -n 's/^The step from .. changes \([0-9]*\) lines .*/ (\1 once gaps are filled)/p' \
    "problems/$number/README.md" 2>/dev/null)
echo "$(changed_lines "$scratch/$old" "$scratch/$new") lines of code change from $old to $new$filled." >>"$shown"
echo "Comments, blank lines and gap markers are not counted." >>"$shown"
LESS=${LESS-FRX} sh -c "$pager" <"$shown"
