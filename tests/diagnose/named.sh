#!/bin/sh
# named.sh NN WRONG - diagnose gives the wrong solution WRONG of solutions/NN/wrong.diff the name that stands behind the
# first comma in brackets there, "..." for the rest of a long one, or none where that is -; without a comma nothing is
# asked. What it shows to look at are gaps of the problem's file.
set -u
n=$1 wrong=$2 out=build/cpu
worker=$out/wrong/$n/$wrong/${n}_worker
known=$(awk -v list="solutions/$n/wrong.diff" -v entry="$wrong" -v tell=known -f workbook/loop/edit.awk) || exit 1
case $known in
*", -") want= ;;
*", "*) want=${known#*, } ;;
*) echo "nothing is asked of it"; exit 0 ;;
esac
said=$(WB_WORKER=$worker "$out/diagnose" -v "$n" 2>&1)
status=$? got=$(echo "$said" | sed -n 's/^id //p')
strange=$(echo "$said" | sed -n "s/^gaps //p" | tr "|" "\n" | while read -r gap; do
    grep -q "//{ $gap\(:.*\)\{0,1\}\$" problems/"$n"/*.c* || echo "$gap"
done)
case $want in
*...) [ "${got#"${want%...}"}" != "$got" ] ;;
*) [ "$got" = "$want" ] ;;
esac
if [ $? -ne 0 ]; then
    echo "wanted ${want:-no name}, got ${got:-none}"
elif [ $status -gt 1 ] || [ -n "$strange" ]; then
    echo "$said"
else
    echo "${want:+named }${want:-rightly not named}"
    exit 0
fi
exit 1
