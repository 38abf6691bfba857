#!/bin/sh
# measure.sh - how often the right mistake is named: whole wrong kernels, by authors who knew neither the models (reference/mistakes*.c) nor
# the wrong solutions. expected.txt has, of each, the mistake's name, "none" where no model fits, and which set it belongs to.
# Exit status: 0 if of the kernels at least 80 in 100 get their name and at most 5 in 100 a wrong one; SET=2 measures one set alone.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=build/${BACKEND:-cpu}
list=$(grep -v '^#' tests/mistakes/expected.txt | awk -v set="${SET:-}" 'NF && (set == "" || $3 == set)')
# shellcheck disable=SC2046
${MAKE:-make} --no-print-directory -k -j"${WB_JOBS:-2}" WERROR=1 BACKEND=cpu "$out/tests/diagnose" \
    $(echo "$list" | sed "s|^\(..\)_\([^ .]*\)[^ ]* .*|$out/mistakes/\1_\2/\1_worker|") >"$out/mistakes.log" 2>&1 || { tail -n 20 "$out/mistakes.log"; exit 1; }
echo "$list" | while read -r file want set; do
    name=${file%.*}
    got=$(WB_HUNG= WB_WORKER=$out/mistakes/$name/${name%%_*}_worker "$out/tests/diagnose" -v "${name%%_*}" 2>/dev/null | sed -n 's/^id //p')
    verdict=silent
    [ -z "$got" ] || { [ "$got" = "$want" ] && verdict=right || verdict=WRONG; }
    printf '%-7s %-36s %-26s %s\n' $verdict "$name" "$want" "${got:--}"
done | tee "$out/mistakes.txt"
awk '{ n++; count[$1]++ } END {
    printf "of %d kernels %d are named rightly, %d not at all, %d wrongly\n", n, count["right"], count["silent"], count["WRONG"]
    exit !(n && count["right"] >= 0.8 * n && count["WRONG"] <= 0.05 * n)
}' "$out/mistakes.txt"
