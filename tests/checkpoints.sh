#!/bin/sh
# checkpoints.sh - the table of points agrees with the suites and with the lessons.
set -u
out=build/${BACKEND:-cpu}
. tests/prove/frame.sh
for source in tests/[0-9][0-9]_*.c; do
    number=$(basename "$source" | cut -c1-2)
    "$out/suite" --list "$out/tests/${number}_test" | sort >"$scratch/suite"
    awk -F'|' '!/^#/ { print $3 }' "problems/$number/checkpoints.txt" | tr -s ' ' '\n' | sed 's/^if://; /^$/d' | sort >"$scratch/table"
    diff "$scratch/suite" "$scratch/table" >"$scratch/diff" || fail "$number: tests of the suite (<) and of the table (>), each once: $(grep '^[<>]' "$scratch/diff" | tr '\n' ' ')"
    # In what make test prints a name means a test or a checkpoint.
    awk '!/^#/ && NF { print tolower($1) }' "problems/$number/checkpoints.txt" | sort | comm -12 - "$scratch/suite" >"$scratch/both"
    [ ! -s "$scratch/both" ] || fail "$number: a checkpoint has the name of a test: $(tr '\n' ' ' <"$scratch/both")"
    "build/${BACKEND:-cpu}/score" lesson "$number" >"$scratch/section"
    sed -n '/^## Points$/,/^## [^P]/p' "problems/$number/README.md" | sed '$d' | sed '${/^$/d}' | diff - "$scratch/section" >"$scratch/diff" || {
        fail "problems/$number/README.md: section Points is not what score lesson $number prints:"
        cat "$scratch/diff"
    }
done
# The sums that texts tell are those of the tables.
"build/${BACKEND:-cpu}/score" possible >"$scratch/possible"
for group in required bonus; do
    sum=$(sed -n "s/^$group.//p" "$scratch/possible")
    for text in README.md problems/README.md; do
        grep -qE "(^|[^0-9])$sum([^0-9]|\$)" $text || fail "$text does not say that $sum points are $group"
    done
done
# What is needed exists, in the same problem, further up.
awk '!/^#/ && NF {
    n = split($3, need, ",")
    for (i = 1; i <= n; i++) if (need[i] != "-" && !((FILENAME, need[i]) in seen)) { print "FAIL  " FILENAME ": " $1 " needs " need[i] ", which does not stand above it"; bad = 1 }
    seen[FILENAME, $1] = 1
} END { exit bad }' problems/*/checkpoints.txt || failed=1
exit $failed
