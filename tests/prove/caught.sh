#!/bin/sh
# caught.sh SUITE TEST WORKER BACKEND VERDICT - runs a suite on a wrong solution. Writes the verdict file, one line, if the suite rejects
# it for its results; fails if it passes, or if anything but the wrong solution went wrong. The test that has caught it before
# (wrong.diff) is tried alone first; the whole suite where that one passes or none is known.
suite=$1 test=$2 worker=$3 backend=$4 verdict=$5
rm -f "$verdict"
folder=${verdict%/*}
number=${folder%/*} record=$folder/record
name="${number##*/} ${folder##*/}"
run() { report=$(WB_RESULTS=$record "$suite" --first "$test" "$worker" "$backend" "$@" 2>&1); }
before=$(awk -v list="solutions/${name% *}/wrong.diff" -v entry="${name#* }" -v tell=known -f workbook/loop/edit.awk | sed 's/,.*//')
caught=
[ -z "$before" ] || { run --filter "*/$before"; caught=$?; }
[ "$caught" = 1 ] || { run; caught=$?; }
case $caught in
1) ;;
0) echo "SURVIVED  $name: the suite passes with this wrong solution" >&2; exit 1 ;;
*) echo "NOT TRIED $name: the suite could not run" >&2; echo "$report" >&2; exit 1 ;;
esac
said=$("$suite" --show "$record" failure)
printf 'caught    %-36s by %-24s %s\n' "$name" "${said%%	*}" "${said#*	}" >"$verdict"
cat "$verdict"
