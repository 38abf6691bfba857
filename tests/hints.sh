#!/bin/sh
# hints.sh - every gap of every skeleton has three hints, no hint is for a gap that is not there, each gap's TODO has
# its name, each fits a terminal of 80 columns, and none contains a line of the reference solution, a statement of it,
# or what it assigns (where there is a solutions/).
set -u
. tests/prove/frame.sh
skeleton=$scratch/skeleton
for hints in problems/[0-9][0-9]/hints.txt; do
    number=$(echo "$hints" | cut -d/ -f2)
    workbook/loop/shipped.sh "$number" "$skeleton" 2>/dev/null || cat "problems/$number"/*.c* >"$skeleton"
    key=$(ls solutions/"$number"/*.cu solutions/"$number"/*.c 2>/dev/null | head -n 1)
    awk -v key="${key:-/dev/null}" '
        function complain(what) { print "FAIL  " FILENAME ": " what; bad = 1 }
        function bare(text) { gsub(/[ \t]/, "", text); return text }
        function keep(text) { if (length(text) >= 12 && text ~ /[-=+*%<>,\/]/) secret[text] = 1 }
        BEGIN {
            while ((getline line <key) > 0) {
                if (line ~ /^ *\/\/\}/) inside = 0
                if (inside) {
                    sub(/ *\/\/.*/, "", line)
                    line = bare(line)
                    keep(line)
                    n = split(line, piece, /[;{}]/)
                    for (i = 1; i <= n; i++) {
                        keep(piece[i])
                        if (match(piece[i], /[^=<>!]=[^=]/)) keep(substr(piece[i], RSTART + 2))
                    }
                }
                if (line ~ /^ *\/\/\{/) inside = 1
            }
        }
        FNR == NR {
            if (match($0, /TODO\([0-9]+\) [^:]*/)) {
                said = substr($0, RSTART, RLENGTH)
                sub(/.*\) /, "", said)
                if (said != name) complain("in the skeleton the gap \"" name "\" has TODO " said)
            }
            if ($0 !~ /^ *\/\/\{ /) next
            name = $0
            sub(/^ *\/\/\{ */, "", name); sub(/:.*/, "", name); sub(/ *$/, "", name)
            gap[name] = 1
            next
        }
        /^#/ { next }
        length > 77 { complain("line " FNR " is longer than 77 columns") }
        /^== / {
            here = substr($0, 4)
            if (here in level) complain("two sections \"" here "\"")
            if (!(here in gap)) complain("the skeleton has no gap \"" here "\"")
            level[here] = 0; blank = 1
            next
        }
        /^[ \t]*$/ { blank = 1; next }
        here == "" { complain("line " FNR " belongs to no gap"); next }
        {
            if (blank) level[here]++
            blank = 0
            text[here, level[here]] = text[here, level[here]] bare($0)
        }
        END {
            for (name in gap)
                if (!(name in level)) complain("no hints for the gap \"" name "\"")
                else if (level[name] != 3) complain("\"" name "\" has " level[name] " hints, not 3")
            for (place in text)
                for (line in secret)
                    if (index(text[place], line)) {
                        split(place, part, SUBSEP)
                        complain("\"" part[1] "\", level " part[2] ", contains " line " of the reference solution")
                    }
            for (name in gap) gaps++
            if (!bad) print "ok    " FILENAME ": " gaps (gaps == 1 ? " gap" : " gaps") ", three hints each"
            exit bad
        }' "$skeleton" "$hints" || failed=1
done
for folder in problems/[0-9][0-9]; do
    [ -f "$folder/hints.txt" ] || fail "$folder has no hints.txt"
done
exit $failed
