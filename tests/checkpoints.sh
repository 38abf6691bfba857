#!/bin/sh
# checkpoints.sh [NN...] - the table of points agrees with the suites and with the lessons; every gap of every skeleton
# has three hints, no hint is for a gap that is not there, each gap's TODO has its name, each fits a terminal of 80
# columns, and none contains a line of the reference solution, a statement of it, or what it assigns (where there is a
# solutions/). With numbers: of these problems alone.
set -u
. tests/prove/frame.sh
out=build/${BACKEND:-cpu}
[ $# -gt 0 ] || set -- $(cd problems && echo [0-9][0-9])
# shellcheck disable=SC2046
check "suites are built" made "$out/wb" $(printf "$out/tests/%s_test " "$@")
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
    check "$number: the tests of the suite (<) are those of the table (>), each once" [ ! -s "$said" ]
    "$out/wb" lesson "$number" >"$scratch/section"
    { [ -s "$scratch/section" ] || echo nothing; } >"$said"
    sed -n '/^## Points$/,/^## [^P]/p' "$lesson" | sed '$d' | sed '${/^$/d}' | diff - "$scratch/section" >>"$said"
    check "$number: the lesson's section Points is what score lesson $number prints" [ ! -s "$said" ]
    hints=problems/$number/hints.txt skeleton=$scratch/skeleton
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
# What is needed stands in the same problem, further up.
awk '/^[^# ]/ {
    n = split($3, need, ",")
    for (i = 1; i <= n; i++)
        if (need[i] != "-" && !((FILENAME, need[i]) in seen)) { print FILENAME ": " $1 " needs " need[i]; bad = 1 }
    seen[FILENAME, $1] = 1
} END { exit bad || NR == 0 }' problems/*/checkpoints.txt >"$said"
verdict $? "a checkpoint's prerequisites are listed before it"
exit $failed
