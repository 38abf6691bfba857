#!/bin/sh
# lessons.sh - what the lessons take from the code is as in the code: the gaps in the order of the hints and their lines, the number of tests, points,
# recorded figures, tile sizes, the drawings of masks, every name in backticks and every make command.
set -u
. tests/prove/frame.sh

# FILE: a line each for the gaps of its skeleton, "name <tab> lines", of the first size that its TODO estimates.
estimates() {
    awk '/^ *\/\/\{ / { name = $0; sub(/^ *\/\/\{ */, "", name); sub(/:.*/, "", name); sub(/ *$/, "", name); next }
         name != "" && match($0, /\((about )?[0-9]+ line/) { text = substr($0, RSTART, RLENGTH); gsub(/[^0-9]/, "", text); print name "\t" text }
         /^ *\/\/\}/ { name = "" }' "$1"
}

# What stands in blocks of a text, indented or between fences; what stands outside of them.
blocks() { awk '/^```/ { inside = !inside; next } inside || sub(/^    /, "")' "$1"; }
prose() { awk '/^```/ { inside = !inside; next } !inside && !/^    /' "$1"; }

for lesson in problems/[0-9][0-9]/README.md; do
    number=$(echo "$lesson" | cut -d/ -f2)
    skeleton=$scratch/skeleton
    workbook/loop/shipped.sh "$number" "$skeleton" 2>/dev/null || cat "problems/$number"/*.c* >"$skeleton"

    # The table of gaps: one order, that of the hints; a row may have several gaps, whose lines add up.
    sed -n 's/^== //p' "problems/$number/hints.txt" >"$scratch/hints"
    estimates "$skeleton" >"$scratch/todo"
    awk -F '\t' -v lesson="$lesson" -v list="$scratch/listed" '
        FILENAME ~ /todo$/ { lines[$1] = $2; next }
        /^\| gap \|/ { n = split($0, head, / *\| */); for (i = 1; i <= n; i++) if (head[i] == "lines") column = i; inside = 1; next }
        !/^\|/ { inside = 0 }
        !inside || /^\|---/ { next }
        {
            split($0, cell, / *\| */)
            gsub(/`/, "", cell[2])
            n = split(cell[2], name, /, */)
            sum = 0
            for (i = 1; i <= n; i++) { print name[i] >list; sum += lines[name[i]] }
            said = cell[column]
            sub(/[^0-9].*/, "", said)
            if (said + 0 != sum) { print "FAIL  " lesson ": " cell[2] " has " said " lines here and " sum " in the skeleton"; bad = 1 }
        }
        END { exit bad }' "$scratch/todo" "$lesson" || failed=1
    diff "$scratch/listed" "$scratch/hints" >"$scratch/diff" || fail "$lesson lists other gaps, or in another order (<), than hints.txt (>): $(grep '^[<>]' "$scratch/diff" | tr '\n' ' ')"
    rm -f "$scratch/listed"

    said=$(sed -n 's/.*is green: \([0-9]*\) tests.*/\1/p' "$lesson")
    tests=$(cat "tests/${number}"_*.c | grep -cE '^(Test|PAGED|RING)\(')
    [ -z "$said" ] || [ "$said" = "$tests" ] || fail "$lesson: $said tests, and the suite has $tests"

    # Points: "the checkpoints `a`, `b` and `c` are won, 100 points", "all checkpoints but `d` are won, 85 points".
    grep -v '^#' "problems/$number/checkpoints.txt" | awk 'NF { print $1, $2 }' >"$scratch/points"
    awk -v lesson="$lesson" '
        FILENAME ~ /points$/ { split($0, field, " "); points[field[1]] = field[2]; total += field[2]; next }
        { text = text " " $0 }
        END {
            while (match(text, /checkpoints [^.]* are won, [0-9]+ points/)) {
                sentence = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH)
                n = split(sentence, part, "`")
                sum = 0
                for (i = 2; i <= n; i += 2) sum += points[part[i]]
                if (sentence ~ /^checkpoints but/) sum = total - sum
                said = part[n]
                gsub(/[^0-9]/, "", said)
                if (said + 0 != sum) { print "FAIL  " lesson ": " sentence ": they are " sum; bad = 1 }
            }
            exit bad
        }' "$scratch/points" "$lesson" || failed=1

    # Names with an underscore: of a test, a function, a file.
    prose "$lesson" | grep -o '`[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*\(()\)\{0,1\}`' | tr -d '`()' | sort -u >"$scratch/names"
    while read -r name; do
        grep -rqw "$name" "problems/$number"/*.c* "problems/$number/checkpoints.txt" "$skeleton" tests/*.c tests/*.h workbook solutions/[0-9][0-9]/*.c* solutions/[0-9][0-9]/variants plots 2>/dev/null ||
            fail "$lesson: nothing is called $name"
    done <"$scratch/names"
done

# Commands: make targets in backticks, and in lines of code.
for text in *.md problems/*.md problems/*/*.md plots/*.md workbook/*.md workbook/*/README.md solutions/README.md reference/README.md train/README.md; do
    [ -f "$text" ] || continue
    { grep -o '`make [^`]*`' "$text" | tr -d '`'; blocks "$text" | grep '^make '; } | sed 's/^ *make //; s/  .*//' | tr ' ' '\n' |
        sed 's/[;,.].*//' | grep '^[a-z][-a-z]*\(-NN\|-[0-9][0-9]\)\{0,1\}$' | sort -u >"$scratch/targets"
    while read -r target; do
        stem=$(echo "$target" | sed 's/-[0-9][0-9]$/-%/; s/-NN$/-%/')
        grep -q "^$stem:" Makefile || fail "$text: make has no target $target"
    done <"$scratch/targets"
done

# Code over which its file is named (workbook/book/README.md) is what stands there.
for text in problems/*.md problems/*/*.md; do
    sed -n 's/^<!-- code: \([^ ,]*\), from \(.*\), \(to\|before\) \(.*\) -->$/\1\t\2\t\3\t\4/p' "$text" >"$scratch/code"
    while IFS="$(printf '\t')" read -r name from word to; do
        case $name in *solutions/*) fail "$text shows a key, $name" ;; esac
        file=$(dirname "$text")/$name
        workbook/loop/shipped.sh "$(basename "$(dirname "$file")")" "$scratch/file" 2>/dev/null || cp "$file" "$scratch/file"
        awk -v from="$from" -v to="$to" -v word="$word" '
            !inside && index($0, from) { inside = 1 }
            inside && index($0, to) && word == "before" { exit }
            inside { print }
            inside && index($0, to) { exit }' "$scratch/file" | awk '
            NR == 1 { match($0, /^ */); indent = RLENGTH } { print substr($0, indent + 1) }' >"$scratch/real"
        awk -v head="<!-- code: $name, from $from, $word $to -->" '
            shown && /^```$/ { exit } shown { print } under && /^```/ { shown = 1 } { under = $0 == head }' "$text" |
            diff - "$scratch/real" >"$scratch/diff" || { fail "$text: code (<) other than in $file (>):"; cat "$scratch/diff"; }
    done <"$scratch/code"
done

# The drawings of the masks are those of make mask-NN, a character a key.
out=build/${BACKEND:-cpu}
${MAKE:-make} --no-print-directory -s BACKEND="${BACKEND:-cpu}" "$out/mask" >"$scratch/log" 2>&1 || { fail "$out/mask does not build"; cat "$scratch/log"; }
drawing() { # NN FIELD=VALUE...
    number=$1
    shift
    "$out/mask" "$number" "$@" --svg "$scratch/svg" | sed -n 's/^ *query *\([0-9]*\) /\1|/p' | awk -F '|' '{ for (i = 2; i <= NF; i++) $i = substr($i, 1, 1) substr($i, 3, 1) substr($i, 5, 1); print }' >"$scratch/drawn"
    sed -n 's/^ *\([0-9]*\) | \(.*\)/\1|\2/p' "problems/$number/README.md" | grep '^[0-9]*|.*|.*|.*|' | awk -F '|' '
        { line = $1; for (i = 2; i <= 5; i++) { cell = i == 2 ? " " $i : $i; line = line " " substr(cell, 2, 1) substr(cell, 4, 1) substr(cell, 6, 1) } print line }' |
        diff - "$scratch/drawn" >"$scratch/diff" || { fail "problems/$number/README.md: its drawing (<) and that of mask $number $*:"; cat "$scratch/diff"; }
    [ ! -f "plots/mask_$number.svg" ] || [ "$number" = 15 ] || cmp "$scratch/svg" "plots/mask_$number.svg" || fail "plots/mask_$number.svg is not what mask $number $* draws"
}
drawing 04 N=12 BR=4 BC=3
drawing 06 N=12 W=5 BR=4 BC=3
drawing 07 N=12 W=5 sinks=2 BR=4 BC=3
drawing 09 N=12 W=3 sinks=1 BR=3 BC=3
drawing 15 mask=tree/7 N=12 BR=4 BC=3
# A tile that reaches behind the last key is masked there, in 03 by `tail`; one that reaches behind the last query is not.
"$out/mask" 03 N=12 | grep -q '^2 tiles of 8 queries x 8 keys are full, 2 masked, 0 skipped of 4$' || fail "mask 03 N=12: the tiles of the last keys are not masked"
! "$out/mask" 13 >"$scratch/log" 2>&1 && grep -q '^mask: problem 13 has no mask to draw' "$scratch/log" || fail "mask 13: $(cat "$scratch/log")"
"$out/mask" 15 --svg "$scratch/svg" >/dev/null
cmp "$scratch/svg" plots/mask_15.svg || fail "plots/mask_15.svg is not what mask 15 draws"

# Links lead to files that there are, and to headings that these have, as GitHub names them; in a class's copy, too.
links() { # FOLDER
    (cd "$1" && find . -name build -prune -o -name .git -prune -o -name '*.md' -print) | while read -r text; do
        grep -o '](\([^) ]*\))' "$1/$text" | sed "s|^](|$text |; s/)\$//" | grep -v ' [a-z]*:'
    done >"$scratch/links"
    [ "$(grep -c . "$scratch/links")" -gt 50 ] || fail "hardly a link was found in $1"
    while read -r text link; do
        file=$1/$(dirname "$text")/${link%%#*}
        case $link in "#"*) file=$1/$text ;; esac
        [ -e "$file" ] || { fail "$1/$text: there is no $link"; continue; }
        case $link in *"#"*) ;; *) continue ;; esac
        sed -n 's/^##* //p' "$file" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | grep -qxF -e "${link#*#}" || fail "$1/$text: $link: no heading is called so"
    done <"$scratch/links"
}
links .
[ -d solutions ] || exit $failed
QUIET=1 workbook/class/class_copy.sh "$scratch/class" || fail "there is no class's copy"
links "$scratch/class"

# What a class's copy names is in it: files, folders and targets of make. What a fence or the first pages tell to type works there without keys;
# elsewhere problems/README.md answers for solutions/, tests/sanitize/ and what make refuses.
git ls-files 2>/dev/null | grep . >"$scratch/whole" || find . -type f | sed 's|^\./||' | grep -v '^build/' >"$scratch/whole"
refused=$(sed -n '/^OF_KEYS := /,/[^\\]$/p' workbook/settings.mk | sed 's/^OF_KEYS := //' | tr -d '\\\n')
targets=$(sed -n 's/^\([a-z][a-z_%.-]*\):.*/\1/p' "$scratch/class/Makefile" | tr '\n' ' ')
grep -q 'no folder `solutions/` and no `tests/sanitize/`' problems/README.md || fail "problems/README.md does not say what a class's copy has not"
(cd "$scratch/class" && find . -name '*.md' | sed 's|^\./||') | while read -r text; do
    (cd "$scratch/class" && find . -type f) | awk -v text="$text" -v targets="$targets" -v refused="$refused" '
        BEGIN {
            split(targets, part, " "); for (i in part) target[part[i]]
            split(refused, part, " "); for (i in part) no[part[i]]
            first = text ~ /^(README|AGENTS|problems\/README)[.]md$/  # what a student reads first
        }
        FILENAME == "-" { sub(/.*\//, ""); here[$0]; next }
        FILENAME ~ /whole$/ { top = $0; if (sub(/\/.*/, "", top)) folder[top]; sub(/.*\//, ""); if (!($0 in here) && $0 != "run.sh") gone[$0] = top; next } # a bundle has a run.sh
        /^<!--/, /-->/ { next } # which may have several lines
        /of the repository/ { next }
        /^ *```/ { fence = !fence; next }
        { typed = fence || /^    [^ |*-]/; line = $0; gsub(/\]\([^)]*\)/, "]", line); gsub(/https?:[^ )]*/, "", line) }
        {
            for (rest = line; match(rest, /make [a-z][a-z0-9_.]*(-[a-zA-Z0-9_]+)?/); ) {
                before = substr(rest, 1, RSTART - 1)
                word = substr(rest, RSTART + 5, RLENGTH - 5)
                rest = substr(rest, RSTART + RLENGTH)
                if (!typed && before !~ /`$/) continue  # a verb
                sub(/[.]$/, "", word)
                any = word; if (!(any in target)) sub(/-[^-]*$/, "-%", any)
                if (!(any in target)) print "target " word
                else if (any in no && (typed || first) && line !~ /if you have|such as/) print "refused " word
            }
            if (line ~ /IMPL=solutions|WRONG=/ && typed && line !~ /if you have/ && before_line !~ /if you have/) print "refused " line
            before_line = line
            for (rest = line; match(rest, /[A-Za-z0-9_.*-]+(\/[A-Za-z0-9_.*-]*)+|[A-Za-z0-9_-]+[.][a-z]+/); ) {
                before = substr(rest, 1, RSTART - 1)
                word = substr(rest, RSTART, RLENGTH)
                rest = substr(rest, RSTART + RLENGTH)
                sub(/[.]$/, "", word)
                top = word; sub(/\/.*/, "", top)
                if (before ~ /[\/<>$~]$/ || !(top in folder || word in gone)) continue
                if ((word ~ /^(solutions|tests\/sanitize)(\/|$)/ && !typed || gone[word] == "solutions") && (!first || line ~ /no folder|do not open/)) continue
                gsub(/NN/, "[0-9][0-9]", word); gsub(/NAME|name/, "*", word)
                print "file " word
            }
        }' - "$scratch/whole" "$scratch/class/$text" | sort -u | while read -r what word; do
        case $what in
        file) (cd "$scratch/class" && ls -d $word >/dev/null 2>&1) || echo "FAIL  a class's copy: $text names $word, which is not in it" ;;
        target) echo "FAIL  a class's copy: $text names make $word, and there is none" ;;
        *) echo "FAIL  a class's copy: $text has one type what needs keys: $word" ;;
        esac
    done
done >"$scratch/named"
[ ! -s "$scratch/named" ] || { cat "$scratch/named"; failed=1; }

# What lessons say that make run-NN prints, of the key, where bfloat16 changes a number of the example.
prints() { # NN CASE NUMBER...
    number=$1
    ${MAKE:-make} --no-print-directory -s BACKEND="${BACKEND:-cpu}" "$out/solutions/${number}_worker" >"$scratch/log" 2>&1 || cat "$scratch/log"
    "$out/solutions/${number}_worker" --case "$2" | tr -s ' ' '\n' | awk '{ printf "%.4f\n", $1 }' >"$scratch/printed"
    shift 2
    for said; do
        grep -qxF -e "$said" "$scratch/printed" && grep -qF -e "$said" "problems/$number/README.md" ||
            fail "problems/$number/README.md: $said is not in the text, or not what make run-$number prints"
    done
}
example=D=16,scale=0.70710678,input=worked_2
prints 03 Nq=1,Nk=3,D=16,scale=1,input=worked_1 0.4434 0.5586 1.6057
prints 04 Nq=6,$example 0.4473 0.5508 0.9221
prints 08 Nq=2,$example 0.1738
prints 09 Nq=3,W=1,sinks=1,$example 0.6250
prints 11 Nq=1,W=3,$example,logits=0.69314718 0.4414 1.2765
prints 13 Nq=1,Nk=6,$example 0.5078 0.4922 2.1957
prints 14 Nq=1,Nk=6,$example 0.5078 0.4922 2.1959
prints 15 Nq=7,mask=tree/7,$example 0.6250 0.3770
prints 12 Nq=3,W=2,$example,logits=0.5 0.1055 -0.2751

# Recorded figures.
plots/tables.sh --check >"$scratch/diff" 2>&1 || fail "tables other than what is recorded: make tables. $(grep '^[-+]|' "$scratch/diff" | head -4)$(grep -v '^[-+ @]' "$scratch/diff" | head -4)"

# What a model computes.
awk -f plots/ring_model.awk >"$scratch/model"
grep -xF -f "$scratch/model" problems/17/README.md | diff - "$scratch/model" >"$scratch/diff" || fail "problems/17/README.md: its table and what plots/ring_model.awk computes (>): $(grep '^[<>]' "$scratch/diff" | head -3)"

# Tile sizes.
awk '/constexpr int WARPS = / { match($0, /WARPS = [0-9]+/); warps = substr($0, RSTART + 8, RLENGTH - 8) }
     { for (line = $0; match(line, /launch<[0-9]+, [0-9]+, [0-9]+/); line = substr(line, RSTART + RLENGTH)) {
         split(substr(line, RSTART + 7, RLENGTH - 7), size, ", ")
         print "| " size[1] (seen[size[1]]++ ? ", where shared memory is short" : "") " | " size[2] * warps " | " size[3] " | " size[2] " |"
     } }' solutions/04/*.cu >"$scratch/sizes"
sed -n '/^| D | BR | BC | rows of a warp |/,/^$/p' problems/04/README.md | sed '1,2d; /^$/d' | diff - "$scratch/sizes" >"$scratch/diff" ||
    fail "problems/04/README.md: tiles other than those of the key (>): $(grep '^[<>]' "$scratch/diff" | tr '\n' ' ')"
keys=$(sed -n 's/.*launch<\([0-9]*\), \([0-9]*\), [0-9]*, \([0-9]*\), .*/\1 \2 \3/p' solutions/09/*.cu | awk '{ print $1 ":" $2 * $3 }' | tr '\n' ' ')
said=$(tr '\n' ' ' <problems/09/README.md | sed -n 's/.*BK, the keys of a block, is \([0-9]*\) at D = 16 and \([0-9]*\) otherwise.*/16:\1 32:\2 64:\2 128:\2 /p')
[ "$said" = "$keys" ] || fail "problems/09/README.md: keys of a block (D:BK) $said; in the key $keys"
exit $failed
