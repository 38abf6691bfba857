#!/bin/sh
# steps.sh - prints the table of steps: how many lines of code change from the key of the problem that another grows out
# of (`from` in problems.c) to its own, comments and blank lines apart. The map of problems/README.md and a sentence in
# each lesson are as this table, problems.c and README.md's table of problems have it. solutions/README.md says which
# file is what. `steps.sh --write` makes them so. And `make start-NN` after the key of the problem before begins with
# the code that NN was shipped with.
set -u
. tests/prove/frame.sh
. workbook/loop/source.sh

for n in $(cd problems && echo [0-9][0-9]); do
    from=$(from_of "$n") key=
    if [ -n "$from" ]; then
        find_source solutions "$from"
        key=$file
        find_source solutions "$n"
        from="$from $(changed_lines "$key" "$file")"
    fi
    echo "$n $from"
done >"$scratch/steps"
sed 's/\(.*\) \(.*\) \(.*\)/      \2 to \1: \3 lines/' "$scratch/steps"
check "steps are counted" [ "$(awk 'NF == 3 && $3 > 0' "$scratch/steps" | wc -l)" -gt 10 ]

# The map: which problem grows out of which, as a drawing, and a row for each.
awk -v row='^[|] [[][0-9][0-9][]][(]problems/' '
    FILENAME ~ /steps$/ { from[$1] = $2; lines[$1] = $3; after[$2] = after[$2] " " $1; next }
    $0 ~ row { number = substr($0, 4, 2); split($0, cell, / *[|] */); points[number] = cell[3]; new[number] = cell[5] }
    function draw(number, indent,    kid, n, i) { # behind what stands in its line already
        printf "%s", number
        n = split(after[number], kid, " ")
        if (!n) print ""
        for (i = 1; i <= n; i++) {
            printf "%s", i == 1 ? (n == 1 ? " ─── " : " ─┬─ ") : indent "    " (i == n ? "└─ " : "├─ ")
            draw(kid[i], indent "    " (i < n ? "│  " : "   "))
        }
    }
    END {
        print "```text"
        n = split(after[""], root, " ")
        for (i = 1; i <= n; i++) draw(root[i], "")
        print "```\n\n| problem | from | points | changed lines | what is new |\n|---|---|---|---|---|"
        for (i = 1; i < 100; i++) {
            number = sprintf("%02d", i)
            if (number in from)
                printf "| [%s](%s/README.md) | %s | %s | %s | %s |\n", number, number, from[number], points[number],
                    lines[number], new[number]
        }
    }' "$scratch/steps" README.md >"$scratch/map"
filled() { # NAME TEXT: with FILE NAME of $scratch between <!-- NAME: ... and <!-- :NAME -->
    awk -v end="<!-- :$1 -->" -v begin="<!-- $1: " 'FNR == NR { filling = filling $0 "\n"; next }
        $0 == end { skipped = 0 }
        !skipped { print }
        index($0, begin) == 1 { skipped = 1; printf "%s", filling }' "$scratch/$1" "$2" >"$scratch/README.md"
}
filled map problems/README.md
check "problems/README.md has a place for the map" grep -q '^| \[03\].* 01 ' "$scratch/README.md"

hold() { # TEXT NEW: what it should be
    [ "$write" != --write ] || cmp -s "$1" "$2" || cat "$2" >"$1"
    diff "$1" "$2" >"$said"
    verdict $? "$1 says what the steps are (tests/steps.sh --write)"
}
write=${1:-}
hold problems/README.md "$scratch/README.md"
while read -r n from lines; do
    [ -n "$from" ] || continue
    sentence="The step from $from changes $lines lines of code; \`make step-$n\` shows them."
    sed "s/^The step from .* lines of code; .*/$sentence/" "problems/$n/README.md" >"$scratch/lesson"
    grep -qxF "$sentence" "$scratch/lesson" || fail "problems/$n/README.md lacks: $sentence"
    hold "problems/$n/README.md" "$scratch/lesson"
done <"$scratch/steps"

# Which file is what: of each key and each variant its first sentence, and for which functions the library may take it.
sed -n 's/^[A-Z_]*([a-z_0-9]*, \([a-z_0-9]*\), "\([^"]*\)",.*/\2 \1/p' solutions/kernels.h >"$scratch/taken"
for n in solutions/[0-9]*; do printf '%s\n' "$n"/*.c* "$n"/variants/*.cu; done | awk '
    FNR == NR { taken[$1] = taken[$1] (taken[$1] == "" ? "" : ", ") "`" $2 "`"; next }
    {
        text = ""
        while ((getline line <$0) > 0 && line ~ /^[/][/] /) text = text substr(line, 3)
        close($0)
        sub(/^ [a-z0-9_]*[.]cu - /, "", text)
        sub(/^ /, "", text)
        sub(/ et al[.]/, " and others", text)
        if (match(text, /[.:;] /)) text = substr(text, 1, RSTART - 1)
        sub(/[.]$/, "", text)
        if (text == "") next
        source = substr($0, 11)
        sub(/[.]cu?$/, "", source)
        name = substr($0, 11)
        if (!lines++) print "| file | what it is | the library may select it for |\n|---|---|---|"
        printf "| [%s](%s)%s | %s | %s |\n", name, name, name ~ /variants/ ? "" : ", the reference solution", text,
            taken[source]
    }' "$scratch/taken" - >"$scratch/files"
filled files solutions/README.md
check "solutions/README.md has a place for its files" grep -q '[)], the reference solution' "$scratch/README.md"
hold solutions/README.md "$scratch/README.md"

# A line "// mine" in each gap of that key: those of the gaps in travels.txt arrive.
while read -r n from lines; do
    [ -n "$from" ] || continue
    find_source solutions "$from"
    sed 's|^ *//[{] .*|&\n// mine|' "$file" >"$scratch/mine"
    workbook/loop/shipped.sh "$n" "$scratch/shipped" && workbook/loop/travel.sh "$n" "$scratch/mine" "$scratch/begun" &&
        for file in shipped begun; do awk -f workbook/loop/code.awk "$scratch/$file" >"$scratch/$file.code"; done &&
        diff "$scratch/shipped.code" "$scratch/begun.code" >"$said" &&
        travels=$(sed -n "s/^$n //p" workbook/loop/travels.txt | tr ';' '\n' | wc -l) &&
        [ "$(grep -c '^// mine$' "$scratch/begun")" -eq "$travels" ]
    verdict $? "start-$n has the code of $n, and what workbook/loop/travels.txt says of $from"
done <"$scratch/steps"
exit $failed
