#!/bin/sh
# gaps.sh NN - the gaps of a problem, in the order in which problems/NN/hints.txt recommends to fill them. A line a gap:
# "untouched" if the text in it is the skeleton's, else "touched"; its line in the student's file, 0 if it is gone; its
# name.
set -u
number=$1
file=$(ls problems/"$number"/*.cu problems/"$number"/*.c 2>/dev/null | head -n 1)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
workbook/shipped.sh "$number" "$scratch/skeleton" 2>/dev/null || : >"$scratch/skeleton"

# Where there is no skeleton to compare with, a gap that still holds the line that skeletons put there counts as untouched.
awk -v hints="problems/$number/hints.txt" -v skeleton="$scratch/skeleton" '
    function read_gaps(path, text, line_of,    line, name, n) {
        while ((getline line <path) > 0) {
            n++
            if (line ~ /^ *\/\/\}/) name = ""
            if (name != "") text[name] = text[name] line "\n"
            if (line ~ /^ *\/\/\{ /) {
                name = line
                sub(/^ *\/\/\{ */, "", name); sub(/:.*/, "", name); sub(/ *$/, "", name)
                line_of[name] = n
            }
        }
    }
    BEGIN {
        read_gaps(skeleton, shipped, line_of_shipped)
        if (ARGC > 1) read_gaps(ARGV[1], mine, line_of)
        while ((getline line <hints) > 0) {
            if (line !~ /^== /) continue
            name = substr(line, 4)
            untouched = name in shipped ? mine[name] == shipped[name] : mine[name] ~ /TODO\(/
            printf "%s\t%d\t%s\n", untouched && name in line_of ? "untouched" : "touched", line_of[name], name
        }
    }' ${file:+"$file"}
