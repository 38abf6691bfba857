#!/bin/sh
# caught.sh NN NAME - the suite of NN rejects the wrong solution NAME of solutions/NN/wrong.diff for its results. The
# test that has caught it before, as the list says, is tried alone first; the whole suite where that one passes or none
# is known. Checkpoints that it keeps, as the list says, are won: their tests pass.
set -u
. tests/prove/judge.sh
number=$1 worker=$out/wrong/$1/$2/$1_worker
told() { awk -v list="solutions/$number/wrong.diff" -v entry="$name" -v tell="$1" -f workbook/loop/edit.awk; }
name=$2 before=$(told known | sed 's/,.*//') keeps=$(told keeps)
caught=0
[ -z "$before" ] || { judge --first "$out/tests/${number}_test" "$worker" "$BACKEND" --filter "*/$before"; caught=$?; }
[ $caught = 1 ] || { judge --first "$out/tests/${number}_test" "$worker" "$BACKEND"; caught=$?; }
case $caught in
1)
    "$out/wb" show "$record" message | sed "1s/^/caught by $("$out/wb" show "$record" FAIL | head -n 1): /; q" ;;
0) echo "SURVIVED: the suite accepts this wrong solution"; exit 1 ;;
*) echo "NOT TRIED: the suite could not run"; exit 1 ;;
esac
[ -n "$keeps" ] || exit 0
tests=$(awk -F '|' -v keeps=" $keeps " '/^#/ { next } split($1, word, " ") { name = word[1] }
    index(keeps, " " name " ") { print $3 }' "problems/$number/checkpoints.txt" | sed 's/if://g' | xargs | tr ' ' '|')
judge "$out/tests/${number}_test" "$worker" "$BACKEND" --filter "*/@($tests)" ||
    { echo "it loses more points than it should; it keeps $keeps"; exit 1; }
echo "and keeps $keeps"
