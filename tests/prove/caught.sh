#!/bin/sh
# caught.sh NN NAME - the suite of NN rejects the wrong solution NAME of solutions/NN/wrong.diff for its results. The
# test that has caught it before, as the list says, is tried alone first; the whole suite where that one passes or none
# is known.
set -u
. tests/prove/judge.sh
number=$1 worker=$out/wrong/$1/$2/$1_worker
before=$(awk -v list="solutions/$1/wrong.diff" -v entry="$2" -v tell=known -f workbook/loop/edit.awk | sed 's/,.*//')
caught=0
[ -z "$before" ] || { judge --first "$out/tests/${number}_test" "$worker" "$BACKEND" --filter "*/$before"; caught=$?; }
[ $caught = 1 ] || { judge --first "$out/tests/${number}_test" "$worker" "$BACKEND"; caught=$?; }
case $caught in
1) "$out/suite" --show "$record" failure | sed 's/	/: /; s/^/caught by /' ;;
0) echo "SURVIVED: the suite passes with this wrong solution"; exit 1 ;;
*) echo "NOT TRIED: the suite could not run"; exit 1 ;;
esac
