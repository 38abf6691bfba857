#!/bin/sh
# checkpoints.sh - the table of points agrees with the suites, with problems.c and with the lessons.
set -u
failed=0
fail() { echo "FAIL  $*"; failed=1; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
for source in tests/[0-9][0-9]_*.c; do
    number=$(basename "$source" | cut -c1-2)
    sed -n 's/^Test([a-z_0-9]*, *\([A-Za-z_0-9]*\).*/\1/p' "$source" | sort >"$scratch/suite"
    awk -F'|' -v n="$number" '$1 ~ "^" n " " { print $3 }' workbook/checkpoints.txt | tr -s ' ' '\n' | sed 's/^if://; /^$/d' | sort >"$scratch/table"
    diff "$scratch/suite" "$scratch/table" >"$scratch/diff" || fail "$number: tests of the suite (<) and of the table (>), each once: $(grep '^[<>]' "$scratch/diff" | tr '\n' ' ')"
    sum=$(awk -v n="$number" '$1 == n { sum += $3 } END { print sum + 0 }' workbook/checkpoints.txt)
    grep -Eq "^ *\{${number#0},.* $sum, (true|false)\}" workbook/problems.c 2>/dev/null || fail "$number: its checkpoints sum up to $sum, problems.c says otherwise"
    sh workbook/lesson_points.sh "$number" >"$scratch/section"
    sed -n '/^## Points$/,/^## [^P]/p' "problems/$number/README.md" | sed '$d' | sed '${/^$/d}' | diff - "$scratch/section" >"$scratch/diff" || {
        fail "problems/$number/README.md: section Points is not what workbook/lesson_points.sh $number prints:"
        cat "$scratch/diff"
    }
done
# What is needed exists, in the same problem, further up.
awk '!/^#/ && NF {
    n = split($4, need, ",")
    for (i = 1; i <= n; i++) if (need[i] != "-" && !(($1, need[i]) in seen)) { print "FAIL  " $1 " " $2 " needs " need[i] ", which does not stand above it"; bad = 1 }
    seen[$1, $2] = 1
} END { exit bad }' workbook/checkpoints.txt || failed=1
exit $failed
