#!/bin/sh
# measure.sh - how often the right mistake is named, of those planted in keys (planted.diff; known: the ids that are right for it, "unpinned" for a true
# sentence that does not pin it down). Right: the gap that the mistake is in is among those to look at, and the id is one of these.
# Exit status: 0 if at least 80 in 100 get their name, and at most 2 in 100 a wrong one.
set -u
export OMP_WAIT_POLICY=passive  # several are looked at at once
cd "$(dirname "$0")/../.." || exit 1
out=build/cpu
if [ "${1:-}" = --one ]; then # NAME WANT: prints what is said of it
    n=${2%%_*} source=$(ls solutions/"${2%%_*}"/*.c*)
    said=$(WB_SPENT= WB_WORKER=$out/mistakes/$2/${n}_worker "$out/diagnose" -v "$n" 2>/dev/null)
    got=$(echo "$said" | sed -n 's/^id //p') look=$(echo "$said" | sed -n 's/^look at: \(.*\); .*/\1/p')
    # The gaps of the changed lines.
    gap=$(diff "$source" "$out/mistakes/$2/edited" | awk -F '[,acd]' '/^[0-9]/ { last = $0 ~ /^[0-9]+,/ ? $2 : $1; for (line = $1; line <= last; line++) print line }' |
        awk 'NR == FNR { changed[$1]; next } /^ *\/\/\{ / { gap = $0; sub(/^ *\/\/\{ */, "", gap); sub(/ *:.*/, "", gap) }
            FNR in changed && !said[gap]++ { printf "%s%s", among++ ? "|" : "", gap }' - "$source")
    verdict=silent
    if [ -n "$look" ]; then
        verdict=WRONG
        ! echo "$look" | sed 's/, /\n/g' | grep -qxE "$gap" || verdict=right
    fi
    [ -z "$got" ] || case ",$3," in
    *",$got,"*) [ $verdict != right ] || [ "$got" != unpinned ] || verdict=gap ;;
    *) verdict=WRONG ;;
    esac
    printf '%-7s %-32s %-30s %-30s %s\n' $verdict "$2" "$3" "${got:--}" "$gap: ${look:--}"
    exit 0
fi
planted=tests/mistakes/planted.diff
list=$(awk -v list=$planted -v tell=known -f workbook/loop/edit.awk)
# shellcheck disable=SC2046
${MAKE:-make} --no-print-directory -k -j"${WB_JOBS:-2}" WERROR=1 BACKEND=cpu "$out/diagnose" \
    $(echo "$list" | sed "s|^\(..\)\([^ ]*\) .*|$out/mistakes/\1\2/\1_worker|") >"$out/mistakes.log" 2>&1 || { tail -n 20 "$out/mistakes.log"; exit 1; }
echo "$list" | xargs -P "${WB_JOBS:-2}" -n 2 "$0" --one | tee "$out/mistakes.txt"
awk -v all="$(echo "$list" | grep -c .)" '{ n++; count[$1]++ } END {
    printf "of %d mistakes %d are named rightly, %d by their gap alone, %d not at all, %d wrongly\n", n, count["right"], count["gap"], count["silent"], count["WRONG"]
    exit !(n && n == all && count["right"] >= 0.8 * n && count["WRONG"] <= 0.02 * n)
}' "$out/mistakes.txt"
