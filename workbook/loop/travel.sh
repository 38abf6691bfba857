#!/bin/sh
# travel.sh NN MINE TO - writes to TO problem NN as it was shipped, but with what is the student's own in MINE, the file
# of the problem that NN grows out of: what was written in those gaps that travels.txt names, and what was changed
# outside of gaps, where NN has not changed it as well. NN's gaps are as shipped. Prints the student's lines that have
# gone for what NN changes there. Exit status: 0, or 1 and a sentence.
set -u
number=$1 mine=$2 to=$3
command -v git >/dev/null || { echo "git, which merges your earlier code into this file, is not installed"; exit 1; }
. workbook/loop/source.sh
from=$(from_of "$number")
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
workbook/loop/shipped.sh "$from" "$scratch/from" && workbook/loop/shipped.sh "$number" "$scratch/shipped" || exit 1
find_source problems "$from"
old=$name
find_source problems "$number"
take() { # FILE GAPS: with the function's new name
    awk -v which=take -v gaps="$2" -f workbook/loop/travel.awk "$scratch/from" "$1" |
        sed "s/\([^A-Za-z0-9_]\)$old\([^A-Za-z0-9_]\)/\1$name\2/g"
}
marks() { grep '^ *//[{}]' "$1"; }
tr -d '\r' <"$mine" >"$scratch/own" || exit 1 # an editor of Windows may have saved it
[ "$(marks "$scratch/own")" = "$(marks "$scratch/from")" ] ||
    { echo "$mine no longer has the gaps of the shipped $from"; exit 1; }
take "$scratch/from" '' >"$scratch/base"
take "$scratch/own" "$(sed -n "s/^$number //p" workbook/loop/travels.txt)" >"$scratch/mine"
git merge-file -p "$scratch/mine" "$scratch/base" "$scratch/shipped" 2>"$scratch/why" >"$scratch/merged"
[ $? -le 127 ] || { cat "$scratch/why"; exit 1; }
awk -v which=choose -v lost="$scratch/lost" -f workbook/loop/travel.awk "$scratch/base" "$scratch/merged" >"$to"
[ "$(marks "$to")" = "$(marks "$scratch/shipped")" ] ||
    { echo "your changes in $mine overlap a gap of $number"; exit 1; }
[ ! -f "$scratch/lost" ] || cat "$scratch/lost"
