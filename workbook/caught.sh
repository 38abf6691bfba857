#!/bin/sh
# caught.sh TEST WORKER this suite.sh BACKEND VERDICT - runs a suite on a wrong solution. Writes the verdict file, one line, if the
# suite rejects it for its results; fails if it passes, or if anything but the wrong solution went wrong.
test=$1 worker=$2 suite=$4 backend=$5 verdict=$6
rm -f "$verdict"
name=$(dirname "$verdict" | sed 's|.*/wrong/\([0-9]*\)/wrong/|\1 |')
report=$(WB_TIMEOUT=${WB_TIMEOUT:-20} "$suite" "$test" "$worker" "$backend" --first 2>&1)
case $? in
1) ;;
0) echo "SURVIVED  $name: the suite passes with this wrong solution" >&2; exit 1 ;;
*) echo "NOT TRIED $name: the suite could not run" >&2; echo "$report" >&2; exit 1 ;;
esac
printf 'caught    %-36s by %-24s %s\n' "$name" \
    "$(echo "$report" | sed -n 's/^  FAIL  //p' | head -n 1)" \
    "$(echo "$report" | sed -n '/^  FAIL  /{n;s/^ *//p;q}')" >"$verdict"
cat "$verdict"
