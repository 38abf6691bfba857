#!/bin/sh
# known.sh - run by make check-all: a mistake gets its own name or none: for wrong solutions (tests/prove/wrong.txt), and for the models of problem 02. Answer keys
# get none. ALL=1: for every wrong solution, and for the models of all problems.
set -u
export OMP_WAIT_POLICY=passive  # several are looked at at once
out=build/${BACKEND:-cpu}
diagnose=$out/diagnose
if [ "${1:-}" = --one ]; then # NN/WRONG WANT: is it named so? For an answer key, NN and nothing.
    n=${2%%/*} want=${3:--}
    worker=$out/wrong/$n/wrong/${2#*/}/${n}_worker
    [ "$n" != "$2" ] || worker=$out/solutions/${n}_worker
    said=$(WB_WORKER=$worker "$diagnose" -v "$n" 2>&1)
    status=$? got=$(echo "$said" | sed -n 's/^id //p')
    if [ "${got:--}" != "$want" ]; then
        echo "FAIL  $2: wanted $want, got ${got:--}"
    elif [ $status -gt 1 ]; then
        echo "FAIL  $2: $said"
    else
        echo "$([ "$want" = - ] && echo silent || echo named)  $2"
    fi
    exit 0
fi
list=$(sed -n "/ ?\$/d; s/^+ \([^ ]*\) [^ ]*/\1/p${ALL:+; s/^  \([^ ]*\) [^ ]*/\1/p}" tests/prove/wrong.txt)
[ -d solutions/01/wrong ] || { echo "skip  there are no wrong solutions here"; exit 0; }
workers=$(echo "$list" | sed "s|^\(..\)/\([^ ]*\).*|$out/wrong/\1/wrong/\2/\1_worker|")
numbers=$(ls problems | grep '^[0-9][0-9]$')
modelled=02
[ -z "${ALL:-}" ] || modelled=$numbers
# shellcheck disable=SC2086
${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" WERROR=1 BACKEND="${BACKEND:-cpu}" "$diagnose" $workers \
    $(for n in $numbers; do echo "$out/solutions/${n}_worker"; done) >/dev/null || exit 1
failed=0
{
    for n in $numbers; do echo "$n -"; done
    echo "$list"
} | xargs -P "${WB_JOBS:-2}" -n 2 "$0" --one >"$out/known.txt"
! grep '^FAIL' "$out/known.txt" || failed=1
[ "$(grep -c . "$out/known.txt")" -eq "$(printf '%s\n' "$numbers" "$list" | grep -c .)" ] || failed=1
for n in $modelled; do
    WB_WORKER=$out/solutions/${n}_worker "$diagnose" --models 10000 "$n" >"$out/tests/models_$n.log" || failed=1
    tail -n 1 "$out/tests/models_$n.log"
done
echo "$(grep -c '^named' "$out/known.txt") wrong solutions named, $(grep -c '^silent.*/' "$out/known.txt") rightly not named"
exit $failed
