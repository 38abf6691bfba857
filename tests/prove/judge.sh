# shellcheck shell=sh
# judge.sh - sourced by proofs that run a suite: judge [OPTION...] TEST WORKER [OPTION...], with the record in $record;
# $limit goes before it. Status: the suite's. What had too little of a busy machine (3, 75) is judged again.
: "${BACKEND:=cpu}" "${ROW:=build/$BACKEND/one}"
out=build/$BACKEND record=$ROW.results limit=
judge() {
    for again in 1 2 3 4 5 6 7 8 9; do
        # shellcheck disable=SC2086
        WB_RESULTS=$record $limit "$out/suite" "$@"
        judged=$?
        [ $judged -eq 3 ] || [ $judged -eq 75 ] || return $judged
        echo "judged again, $again: the machine was too busy"
    done
    return $judged
}
counts() { "$out/suite" --show "$record" counts; }
# Between the two a worker's suite runs: each line of its source runs in some case, and is decided both ways, but for
# those that coverage.txt knows.
count_lines() { export WB_COVERAGE="$ROW.counted" && rm -rf "$WB_COVERAGE" && mkdir "$WB_COVERAGE"; }
all_ran() { # WORKER SOURCE
    notes=${1%_worker}_counted.gcno
    [ -f "$notes" ] && cp "$notes" "$WB_COVERAGE/notes" || return 0
    function=$(basename "$(ls tests/"$(basename "$1" | cut -c 1-2)"_*.c)" .c)
    workbook/loop/coverage.sh "$WB_COVERAGE" "$2" "${function#??_}" >"$WB_COVERAGE/told"
    ! grep 'what ran' "$WB_COVERAGE/told" || return 1
    tr -c '0-9-' '\n' <"$WB_COVERAGE/told" | awk -F- -v known=tests/prove/coverage.txt -v source="$2" '
        BEGIN {
            number = substr(source, index(source, "/") + 1, 2)
            while ((getline line < known) > 0)
                if (split(line, part, "\t") == 3 && (part[1] == "*" || index(part[1], number))) piece[part[2]]
            for (n = 1; (getline text[n] < source) > 0; n++) {}
        }
        /[0-9]/ {
            for (n = $1 + 0; n <= ($2 == "" ? $1 : $2) + 0; n++) {
                excused = 0
                for (p in piece) excused += index(text[n], p) > 0
                if (!excused) { print source ":" n ": in no case, or one way only: " text[n]; bad = 1 }
            }
        }
        END { exit bad }'
}
