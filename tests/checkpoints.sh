#!/bin/sh
# checkpoints.sh [NN...] - the table of points agrees with the suites and with the lessons. With numbers: of these
# problems alone.
set -u
. tests/prove/frame.sh
out=build/${BACKEND:-cpu}
[ $# -gt 0 ] || set -- $(cd problems && echo [0-9][0-9])
# shellcheck disable=SC2046
${MAKE:-make} --no-print-directory -s BACKEND="${BACKEND:-cpu}" "$out/wb" \
    $(printf "$out/tests/%s_test " "$@") >"$said" 2>&1
verdict $? "suites are built"
for number; do
    points=problems/$number/checkpoints.txt lesson=problems/$number/README.md
    "$out/wb" list "$out/tests/${number}_test" | sort >"$scratch/suite"
    awk -F'|' '!/^#/ { print $3 }' "$points" | tr -s ' ' '\n' | sed 's/^if://; /^$/d' | sort >"$scratch/table"
    awk '/^[^# ]/ { print tolower($1) }' "$points" | sort >"$scratch/names"
    {
        [ -s "$scratch/suite" ] || echo "no tests are listed"
        diff "$scratch/suite" "$scratch/table"
        # In what make test prints a name means a test or a checkpoint.
        comm -12 "$scratch/names" "$scratch/suite" | sed 's/^/a checkpoint has the name of a test: /'
    } >"$said"
    [ ! -s "$said" ]
    verdict $? "$number: the tests of the suite (<) are those of the table (>), each once"
    "$out/wb" lesson "$number" >"$scratch/section"
    { [ -s "$scratch/section" ] || echo nothing; } >"$said"
    sed -n '/^## Points$/,/^## [^P]/p' "$lesson" | sed '$d' | sed '${/^$/d}' | diff - "$scratch/section" >>"$said"
    [ ! -s "$said" ]
    verdict $? "$number: the lesson's section Points is what score lesson $number prints"
done
# What is needed stands in the same problem, further up.
awk '/^[^# ]/ {
    n = split($3, need, ",")
    for (i = 1; i <= n; i++)
        if (need[i] != "-" && !((FILENAME, need[i]) in seen)) { print FILENAME ": " $1 " needs " need[i]; bad = 1 }
    seen[FILENAME, $1] = 1
} END { exit bad || NR == 0 }' problems/*/checkpoints.txt >"$said"
verdict $? "a checkpoint's prerequisites are listed before it"
exit $failed
