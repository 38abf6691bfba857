#!/bin/sh
# known.sh - run by make check-all: a mistake gets its own name or none: for wrong solutions (known.txt), and for the models of problem 02. Answer keys
# get none. ALL=1: for every wrong solution, and for the models of all problems.
set -u
out=build/${BACKEND:-cpu}
diagnose=$out/tests/diagnose
list=$(sed -n "s/^+ //p${ALL:+; s/^  //p}" tests/mistakes/known.txt)
[ -d solutions/01/wrong ] || { echo "skip  there are no wrong solutions here"; exit 0; }
workers=$(echo "$list" | sed "s|^\(..\)/\([^ ]*\).*|$out/wrong/\1/wrong/\2/\1_worker|")
numbers=$(ls problems | grep '^[0-9][0-9]$')
modelled=02
[ -z "${ALL:-}" ] || modelled=$numbers
# shellcheck disable=SC2086
${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" WERROR=1 BACKEND="${BACKEND:-cpu}" "$diagnose" $workers \
    $(for n in $numbers; do echo "$out/solutions/${n}_worker"; done) >/dev/null || exit 1
failed=0 named=0 silent=0
for n in $numbers; do
    if said=$(WB_WORKER=$out/solutions/${n}_worker "$diagnose" "$n") || [ $? -ne 1 ]; then
        echo "FAIL  the answer key of $n: $said"
        failed=1
    fi
done
while read -r wrong want; do
    n=${wrong%%/*}
    said=$(WB_WORKER=$out/wrong/$n/wrong/${wrong#*/}/${n}_worker "$diagnose" -v "$n" 2>&1)
    got=$(echo "$said" | sed -n 's/^id //p')
    if [ "${got:--}" != "$want" ]; then
        echo "FAIL  $wrong: wanted $want, got ${got:--}"
        failed=1
    elif [ "$want" = - ]; then
        silent=$((silent + 1))
    else
        named=$((named + 1))
    fi
done <<LIST
$list
LIST
for n in $modelled; do
    WB_WORKER=$out/solutions/${n}_worker "$diagnose" --models 10000 "$n" >"$out/tests/models_$n.log" || failed=1
    tail -n 1 "$out/tests/models_$n.log"
done
echo "$named wrong solutions named, $silent rightly not named"
exit $failed
