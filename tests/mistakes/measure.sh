#!/bin/sh
# measure.sh - how often the right mistake is named: whole wrong kernels, by authors who knew neither the models (workbook/diagnose/mistakes*.c) nor
# the wrong solutions; those that differ little from the key are patches of it. expected.txt has, of each, the mistake's name, or "none" where no model fits.
# Exit status: 0 if of the kernels at least 80 in 100 get their name and at most 5 in 100 a wrong one.
set -u
export OMP_WAIT_POLICY=passive  # several are looked at at once
cd "$(dirname "$0")/../.." || exit 1
out=build/${BACKEND:-cpu}
if [ "${1:-}" = --one ]; then # FILE WANT: prints what is said of it
    name=${2%.*} want=$3
    got=$(WB_HUNG= WB_WORKER=$out/mistakes/$name/${name%%_*}_worker "$out/diagnose" -v "${name%%_*}" 2>/dev/null | sed -n 's/^id //p')
    verdict=silent
    [ -z "$got" ] || { [ "$got" = "$want" ] && verdict=right || verdict=WRONG; }
    printf '%-7s %-36s %-26s %s\n' $verdict "$name" "$want" "${got:--}"
    exit 0
fi
list=$(grep -v '^#' tests/mistakes/expected.txt)
# shellcheck disable=SC2046
${MAKE:-make} --no-print-directory -k -j"${WB_JOBS:-2}" WERROR=1 BACKEND=cpu "$out/diagnose" \
    $(echo "$list" | sed "s|^\(..\)_\([^ .]*\)[^ ]* .*|$out/mistakes/\1_\2/\1_worker|") >"$out/mistakes.log" 2>&1 || { tail -n 20 "$out/mistakes.log"; exit 1; }
echo "$list" | xargs -P "${WB_JOBS:-2}" -n 2 "$0" --one | tee "$out/mistakes.txt"
awk -v all="$(echo "$list" | grep -c .)" '{ n++; count[$1]++ } END {
    printf "of %d kernels %d are named rightly, %d not at all, %d wrongly\n", n, count["right"], count["silent"], count["WRONG"]
    exit !(n && n == all && count["right"] >= 0.8 * n && count["WRONG"] <= 0.05 * n)
}' "$out/mistakes.txt"
