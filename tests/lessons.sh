#!/bin/sh
# lessons.sh [NN...] - what the texts take from the code is as in the code: gaps and their lines, the number of
# tests, points, names in backticks, make's targets, links, code that is shown, drawings of masks, numbers of the
# examples, recorded figures. And what a class's copy tells a student to type works in it.
# With numbers: these lessons alone, beside the code.
set -u
. tests/prove/frame.sh
export LC_ALL=C
out=build/${BACKEND:-cpu}
none() { [ ! -s "$said" ]; verdict $? "$1"; : >"$said"; } # WHAT: nothing was said against it
# NUMBER LEAST WHAT: these proofs look at something
seen() { [ "$1" -ge "$2" ] || fail "only $1 $3 were found, of at least $2"; }

# Of each lesson what it says of its gaps, tests, points, and names with an underscore: of a test, a function, a file.
cat tests/*.c tests/*.h solutions/[0-9][0-9]/*.c* solutions/[0-9][0-9]/variants/* plots/*.* 2>/dev/null >"$scratch/code"
find workbook -type f -exec cat {} + >>"$scratch/code"
tr -cs 'A-Za-z0-9_' '\n' <"$scratch/code" | sort -u >"$scratch/words"
whole=$#
[ $# -gt 0 ] || set -- $(cd problems && echo [0-9][0-9])
for number; do
    lesson=problems/$number/README.md skeleton=$scratch/skeleton
    workbook/loop/shipped.sh "$number" "$skeleton" 2>/dev/null || cat "problems/$number"/*.c* >"$skeleton"
    cat "problems/$number"/*.c* "problems/$number/checkpoints.txt" "$skeleton" |
        tr -cs 'A-Za-z0-9_' '\n' >"$scratch/own"
    awk -v lesson="$lesson" '
        function complain(what) { print lesson ": " what }
        of == "words" { word[$0]; next }
        of == "skeleton" {
            if (match($0, /^ *\/\/\{ */)) { gap = substr($0, RLENGTH + 1); sub(/:.*/, "", gap); sub(/ *$/, "", gap) }
            if (/^ *\/\/\}/) gap = ""
            if (gap != "" && match($0, /\((about )?[0-9]+ line/)) {
                about = substr($0, RSTART, RLENGTH)
                gsub(/[^0-9]/, "", about)
                lines[gap] = about
            }
            next
        }
        of == "hints" { if (sub(/^== /, "")) hinted = hinted " " $0 ";"; next }
        of == "points" {
            if (/^#/ || !NF) next
            points[$1] = $2
            total += $2
            split($0, cell, "|")
            tests += split(cell[3], name_of, " ")
            next
        }

        { text = text " " $0 }
        match($0, /is green: [0-9]+ tests/) && substr($0, RSTART + 10) + 0 != tests {
            complain("the suite has " tests " tests")
        }
        /^```/ { fence = !fence }
        !fence && !/^    / {
            for (rest = $0; match(rest, /`[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*(\(\))?`/); ) {
                name = substr(rest, RSTART, RLENGTH)
                rest = substr(rest, RSTART + RLENGTH)
                gsub(/[`()]/, "", name)
                if (!(name in word)) complain("nothing is called " name)
            }
        }
        # The table of gaps: one order, that of the hints; a row may have several gaps, whose lines add up.
        /^\| gap \|/ {
            n = split($0, cell, / *\| */)
            for (i = 1; i <= n; i++) if (cell[i] == "lines") column = i
            table = 1
            next
        }
        !/^\|/ { table = 0 }
        table && !/^\|---/ {
            split($0, cell, / *\| */)
            gsub(/`/, "", cell[2])
            n = split(cell[2], name_of, /, */)
            sum = 0
            for (i = 1; i <= n; i++) { listed = listed " " name_of[i] ";"; sum += lines[name_of[i]] }
            if (cell[column] + 0 != sum) complain(cell[2] " has " cell[column] " lines here, not " sum)
        }
        END {
            if (listed != hinted || listed == "") complain("lists the gaps" listed " and hints.txt has" hinted)
            # "the checkpoints `a`, `b` and `c` are won, 100 points", "all checkpoints but `d` are won, 85 points"
            while (match(text, /checkpoints [^.]* are won, [0-9]+ points/)) {
                sentence = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH)
                n = split(sentence, part, "`")
                sum = 0
                for (i = 2; i <= n; i += 2) sum += points[part[i]]
                if (sentence ~ /^checkpoints but/) sum = total - sum
                gsub(/[^0-9]/, "", part[n])
                if (part[n] + 0 != sum) complain(sentence ": they are " sum)
            }
        }' of=words "$scratch/words" "$scratch/own" of=skeleton "$skeleton" \
        of=hints "problems/$number/hints.txt" of=points "problems/$number/checkpoints.txt" of=lesson "$lesson" \
            >>"$said" 2>&1
    rm -f "$skeleton"
done
none "gaps, tests, points and names in the lessons agree with the code"
seen "$(wc -l <"$scratch/words")" 5000 "words of code"

# What make is told in backticks and in lines of code is a target; and what a class's copy tells a student to type needs
# no reference solutions.
sed -n 's/^\([a-z][a-z0-9_%. -]*\):.*/\1/p' Makefile | tr ' ' '\n' | sort -u >"$scratch/targets"
seen "$(wc -l <"$scratch/targets")" 40 "targets"
names() { # FOLDER
    # shellcheck disable=SC2046
    (cd "$1" && awk '
        function complain(what) { if (!((FILENAME, what) in told)) print FILENAME " " what; told[FILENAME, what] }
        FILENAME ~ /targets$/ { target[$0]; next }
        FILENAME ~ /refused$/ { no[$0]; copy = 1; next }
        FNR == 1 { fence = 0; before_line = "" }
        /^<!--/, /-->/ { next } # which may have several lines
        /of the repository/ { next }
        /^ *```/ { fence = !fence; next }
        {
            typed = fence || /^    [^ |*-]/
            for (rest = $0; match(rest, /make( [a-z][a-z0-9_.]*(-[a-zA-Z0-9_]+)?)+/); ) {
                before = substr(rest, 1, RSTART - 1)
                n = split(substr(rest, RSTART + 5, RLENGTH - 5), goal, " ")
                rest = substr(rest, RSTART + RLENGTH)
                if (!typed && before !~ /`$/) continue # a verb
                if (before !~ /(^ *|`)$/) n = 1 # what follows is a sentence
                n -= rest ~ /^=/
                for (i = 1; i <= n; i++) {
                    sub(/[.]$/, "", goal[i])
                    any = goal[i]
                    if (!(any in target)) sub(/-[^-]*$/, "-%", any)
                    if (!(any in target)) complain("names make " goal[i] ", and there is none")
                    else if (any in no && typed && $0 !~ /if you have|such as/)
                        complain("tells the reader to type make " goal[i] ", which needs keys")
                }
            }
            if (copy && typed && /IMPL=solutions|WRONG=/ && before_line $0 !~ /if you have/)
                complain("tells the reader to type what needs reference solutions: " $0)
            before_line = $0
        }' "$scratch/targets" "$scratch/refused" $(find . \( -name build -o -name .git -o -name shared \) -prune -o \
            -name '*.md' ! -name CHANGELOG.md -print)) >"$said" 2>&1
}
: >"$scratch/refused"
names .
none "every make target in a text exists"

# Links lead to files that there are, and to headings that these have, as GitHub names them.
links() { # FOLDER
    # shellcheck disable=SC2046
    (cd "$1" && find . \( -name build -o -name .git -o -name shared \) -prune -o -print |
        sed 's|^\./||' >"$scratch/there" &&
        awk '
        FILENAME ~ /there$/ { there[$0]; next }
        FNR == 1 { folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = "" }
        /^#+ / {
            slug = tolower($0)
            sub(/^#+ /, "", slug)
            gsub(/ /, "-", slug)
            gsub(/[^a-z0-9_-]/, "", slug)
            heading[FILENAME "#" slug]
        }
        {
            for (rest = $0; match(rest, /\]\([^) ]*\)/); rest = substr(rest, RSTART + RLENGTH)) {
                link = substr(rest, RSTART + 2, RLENGTH - 3)
                if (link ~ /^[a-z]*:/) continue
                text[++n] = FILENAME
                raw[n] = link
                path[n] = (link ~ /^#/ ? FILENAME : folder) link
            }
        }
        END {
            if (n < 50) print "hardly any link was found"
            for (i = 1; i <= n; i++) {
                at = path[i]
                while (sub(/[^\/#]+\/\.\.\//, "", at) || sub(/\/\.\//, "/", at)) continue
                sub(/^\.\//, "", at)
                file = at
                sub(/#.*/, "", file)
                sub(/\/?(\.\.)?$/, "", file)
                if (file != "" && !(file in there)) print text[i] ": there is no " raw[i]
                else if (at ~ /#/ && !(at in heading)) print text[i] ": " raw[i] ": there is no such heading"
            }
        }' "$scratch/there" $(grep "[.]md$" "$scratch/there")) >"$said" 2>&1
    none "links lead somewhere${2:-}"
}
links .

[ "$whole" -eq 0 ] || exit $failed

# Code over which its file is named (workbook/book/README.md) is what stands there.
grep -n '^<!-- code: ' problems/*.md problems/*/*.md | grep -v 'solutions/' >"$scratch/shown"
sed -nE 's/^([^:]*):[0-9]*:(<!-- code: ([^ ,]*), from (.*), (to|before) (.*) -->)$/\1\t\2\t\3\t\4\t\5\t\6/p' \
    "$scratch/shown" >"$scratch/codes"
while IFS="$(printf '\t')" read -r text head name from word to; do
    file=$(dirname "$text")/$name
    workbook/loop/shipped.sh "$(basename "$(dirname "$file")")" "$scratch/file" 2>/dev/null ||
        cp "$file" "$scratch/file"
    awk -v from="$from" -v to="$to" -v word="$word" '
        !inside && index($0, from) { inside = 1; match($0, /^ */); indent = RLENGTH }
        inside && index($0, to) && word == "before" { exit }
        inside { print substr($0, indent + 1) }
        inside && index($0, to) { exit }' "$scratch/file" >"$scratch/real"
    awk -v head="$head" 'shown && /^```$/ { exit } shown { print } under && /^```/ { shown = 1 }
        { under = $0 == head }' "$text" | diff - "$scratch/real" >"$scratch/diff" && [ -s "$scratch/real" ] ||
        { echo "$text: $head, and in $file (>):"; cat "$scratch/diff"; } >>"$said"
done <"$scratch/codes"
none "quoted code agrees with its file"
seen "$(wc -l <"$scratch/codes")" "$(cat problems/*.md problems/*/*.md | grep -c '<!-- code: ')" \
    "pieces of code, none of a reference solution,"

# The drawings of the masks are those of make mask-NN, a character a key.
# shellcheck disable=SC2046
$MAKE --no-print-directory -s BACKEND="${BACKEND:-cpu}" "$out/mask" \
    $(printf "$out/solutions/%s_worker " 03 04 08 09 11 12 13 14 15) >"$scratch/log" 2>&1 ||
        cat "$scratch/log" >>"$said"
drawing() { # NN FIELD=VALUE...
    number=$1
    shift
    "$out/mask" "$number" "$@" --table "$scratch/table" | sed -n 's/^ *query *\([0-9]*\) /\1|/p' | awk -F '|' '
        { for (i = 2; i <= NF; i++) $i = substr($i, 1, 1) substr($i, 3, 1) substr($i, 5, 1); print }' >"$scratch/drawn"
    sed -n 's/^ *\([0-9]*\) | \(.*\)/\1|\2/p' "problems/$number/README.md" | grep '^[0-9]*|.*|.*|.*|' | awk -F '|' '
        {
            line = $1
            for (i = 2; i <= 5; i++) {
                cell = i == 2 ? " " $i : $i
                line = line " " substr(cell, 2, 1) substr(cell, 4, 1) substr(cell, 6, 1)
            }
            print line
        }' |
        diff - "$scratch/drawn" >"$scratch/diff" && [ -s "$scratch/drawn" ] ||
        { echo "problems/$number/README.md: (<) and mask $number $* (>):"; cat "$scratch/diff"; } >>"$said"
    picture=plots/mask_$number.svg
    [ ! -f "$picture" ] || [ "$number" = 15 ] ||
        same_picture plots/mask.gp "$scratch/table" "$picture" >>"$said" 2>&1
}
drawing 04 N=12 BR=4 BC=3
drawing 06 N=12 W=5 BR=4 BC=3
drawing 07 N=12 W=5 sinks=2 BR=4 BC=3
drawing 09 N=12 W=3 sinks=1 BR=3 BC=3
drawing 15 mask=tree/7 N=12 BR=4 BC=3
"$out/mask" 15 --table "$scratch/table" >/dev/null &&
    same_picture plots/mask.gp "$scratch/table" plots/mask_15.svg >>"$said" 2>&1
# A tile that reaches behind the last key is masked there, in 03 by `tail`; one that reaches behind the last query
# is not.
"$out/mask" 03 N=12 | grep -q '^2 tiles of 8 queries x 8 keys are full, 2 masked, 0 skipped of 4$' ||
    echo "mask 03 N=12: the tiles of the last keys are not masked" >>"$said"
"$out/mask" 13 >"$scratch/log" 2>&1 || grep -q '^mask: problem 13 has no mask to draw' "$scratch/log" ||
    cat "$scratch/log" >>"$said"
none "drawings of masks agree with make mask-NN"

# Numbers of the examples are those that make run-NN prints of the key, where bfloat16 changes one.
prints() { # NN CASE NUMBER...
    number=$1
    "$out/solutions/${number}_worker" --case "$2" 2>&1 | tr -s ' ' '\n' |
        awk '{ printf "%.4f\n", $1 }' >"$scratch/printed"
    shift 2
    for told; do
        grep -qxF -e "$told" "$scratch/printed" && grep -qF -e "$told" "problems/$number/README.md" ||
            echo "problems/$number/README.md: $told" >>"$said"
    done
}
example=D=16,scale=0.70710678,input=worked_2
prints 03 Nq=1,Nk=3,D=16,scale=1,input=worked_1 0.4434 0.5586 1.6057
prints 04 Nq=6,$example 0.4473 0.5508 0.9221
prints 08 Nq=2,$example 0.1738
prints 09 Nq=3,W=1,sinks=1,$example 0.6250
prints 11 Nq=1,W=3,$example,logits=0.69314718 0.4414 1.2765
prints 12 Nq=3,W=2,$example,logits=0.5 0.1055 -0.2751
prints 13 Nq=1,Nk=6,$example 0.5078 0.4922 2.1957
prints 14 Nq=1,Nk=6,$example 0.5078 0.4922 2.1959
prints 15 Nq=7,mask=tree/7,$example 0.6250 0.3770
none "the numbers of the examples are those that make run-NN prints"

# Recorded figures; what a model computes.
plots/tables.sh --check >"$scratch/diff" 2>&1 || { grep '^[-+]' "$scratch/diff" |
    head -n 8; echo "run: make tables"; } >"$said"
none "tables agree with the records"
awk -f plots/ring_model.awk >"$scratch/model"
{
    [ -s "$scratch/model" ] || echo "plots/ring_model.awk prints nothing"
    grep -xF -f "$scratch/model" problems/17/methods.md | diff - "$scratch/model"
} >"$said" 2>&1
none "the table of problems/17/methods.md is that of plots/ring_model.awk"

QUIET=1 workbook/class/class_copy.sh "$scratch/class" >"$said" 2>&1
verdict $? "a class copy can be made"
links "$scratch/class" ", in a class's copy too"

sed -n '/^OF_KEYS := /,/[^\\]$/p' workbook/settings.mk | tr -s ' \\' '\n' | grep '^[a-z]' >"$scratch/refused"
seen "$(wc -l <"$scratch/refused")" 10 "targets that need reference solutions"
names "$scratch/class"
none "a class copy tells nobody to type what needs reference solutions"
exit $failed
