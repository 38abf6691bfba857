#!/bin/sh
# new_problem.sh N NAME FROM - makes problem N, function NAME, as a working copy of problem FROM (workbook/README.md).
# Exit status: 0, or 1 after a sentence, and then nothing was changed.
set -u
export LC_ALL=C
refuse() { echo "new-problem: $*" >&2; exit 1; }
[ $# -eq 3 ] || refuse "say which: make new-problem N=20 NAME=flash_copy FROM=03"
name=$2
ls solutions/[0-9][0-9]/*.c* >/dev/null 2>&1 ||
    refuse "this copy of the workbook has no reference solutions, and a problem needs one"

two_digits() { case $1 in [1-9]) echo "0$1" ;; 0[1-9] | [1-9][0-9]) echo "$1" ;; esac; }
number=$(two_digits "$1") from=$(two_digits "$3")
[ -n "$number" ] || refuse "N='$1' is not a number from 01 to 99"
[ -n "$from" ] || refuse "FROM='$3' is not a number from 01 to 99"
for there in problems/"$number" solutions/"$number" tests/"$number"_* plots/"$number"_* plots/mask_"$number".svg; do
    [ ! -e "$there" ] || refuse "there is a problem $number already: $there"
done
! grep -q "^ *{${number#0}, " workbook/problems.c || refuse "there is a problem $number already, in workbook/problems.c"
key=$(ls solutions/"$from"/*.c* 2>/dev/null | head -n 1)
suite=$(ls tests/"$from"_*.c 2>/dev/null | head -n 1)
row=$(grep "^ *{${from#0}, " workbook/problems.c)
[ -n "$key" ] && [ -n "$suite" ] && [ -n "$row" ] || refuse "there is no problem $from to copy"
old=$(basename "${key%.*}")

case $name in
'' | [!a-z]* | *[!a-z0-9_]*) refuse "NAME='$name' is not a function name: a to z, 0 to 9 and _" ;;
esac
[ ${#name} -le 40 ] || refuse "NAME='$name' is longer than 40 characters"
! grep -rqw --include='*.[ch]*' --include='*.cu*' "$name" workbook reference tests solutions ||
    refuse "the workbook uses the name $name already"
for language in c c++; do # a word of the language, or a function of its library
    { printf '#include <%s.h>\n' math stdio stdlib string unistd; echo "int $name;"; } |
        "${CC:-cc}" -x $language -fsyntax-only - 2>/dev/null || refuse "NAME=$name has a meaning in C or C++"
done

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP

# The number and the name as words: not within 2503.05246, 2026-11-03, 1e-03, nor flash_gqa within flash_gqa_backward.
words() { echo "$1" | tr _ ' '; }
edge='[^A-Za-z0-9_]'
copied() {
    sed -E "s/([0-9]e?-)$from/\1\a/g
        s/(^|[^A-Za-z0-9.])$from ($(words "$old"))/\1$number $(words "$name")/g
        s/(^|[^A-Za-z0-9.])$from($|[^A-Za-z0-9])/\1$number\2/g; s/(^|[^A-Za-z0-9.])$from($|[^A-Za-z0-9])/\1$number\2/g
        s/([0-9]e?-)\a/\1$from/g
        s/(^|$edge|[0-9]_)$old(_kernel|_speed|_time|_memory)?(\$|$edge)/\1$name\2\3/g
        s/(^|$edge|[0-9]_)$old(_kernel|_speed|_time|_memory)?(\$|$edge)/\1$name\2\3/g"
}

new() { # FILE: where a file of the old problem goes
    to=$scratch/$(echo "$1" | copied)
    mkdir -p "$(dirname "$to")"
    copied <"$1" >"$to"
}
workbook/loop/shipped.sh "$from" "$scratch/skeleton" || exit 1
for file in problems/"$from"/README.md problems/"$from"/hints.txt problems/"$from"/checkpoints.txt "$key" "$suite" \
    solutions/"$from"/wrong.diff plots/mask_"$from".svg; do
    [ ! -f "$file" ] || new "$file"
done
mkdir -p "$scratch/plots"
{ cat plots/problems.gp && awk -v from="$from" '/^# -+ / { on = $3 == from } on' plots/problems.gp | copied; } \
    >"$scratch/plots/problems.gp"
# What was recorded of the old problem is not the new one's: its lesson has none of these tables (plots/tables.awk), and
# what stays the old one's keeps its name there: variants, charts, records.
lesson=$scratch/problems/$number/README.md
awk '/^<!-- recorded: / { table = 1 } table && /^$/ { table = 0 } !table && !/^Recorded on / { print }' "$lesson" |
    sed -E "s|solutions/$number/variants|solutions/$from/variants|g; s#plots/(timeline|softmax)_$number#plots/\1_$from#g
        s|^The step from .*|The step from $from changes names alone, not code; \`make step-$number\` shows them.|
        s#[(]([a-z]+[.]md)#(../$from/\1#g
        s#(plots/(data/[a-z0-9]*/)?)${number}_$name([a-z_0-9]*[.](svg|tsv))#\1${from}_$old\3#g
        s#(plots/(data/[a-z0-9]*/)?)${number}_([a-z_0-9]*[.](svg|tsv))#\1${from}_\3#g" | cat -s >"$lesson.new" &&
    mv "$lesson.new" "$lesson"
skeleton=problems/$number/$name.${key##*.}
copied <"$scratch/skeleton" >"$scratch/$skeleton"
rm "$scratch/skeleton"
# The lines in files of all problems.
mkdir -p "$scratch/workbook/loop"
group=
[ "$number" -le 9 ] || group='s/WB_[A-Z]*\(, [0-9]*}\)/WB_BEYOND\1/'
row=$(echo "$row" | sed "s/{${from#0}, \"$old\"/{${number#0}, \"$name\"/; s/[0-9]*},\$/${from#0}},/; $group")
awk -v row="$row" -v number="${number#0}" '
    !done && (/^};/ || /^ *[{][0-9]/ && substr($1, 2) + 0 > number + 0) && seen { print row; done = 1 }
    /^ *[{][0-9]/ { seen = 1 }
    { print }' workbook/problems.c >"$scratch/workbook/problems.c"
prototype=$(awk -v old="$old" '
    index($0, "wb_status " old "(") == 1 { inside = 1 }
    inside { print }
    inside && /;/ { exit }' workbook/workbook.h | copied)
[ -n "$prototype" ] || refuse "workbook/workbook.h declares no $old"
awk -v text="// $number: a copy of $from.
$prototype
" '/^\/\/ -+ the one shared validator$/ { print text } { print }' workbook/workbook.h >"$scratch/workbook/workbook.h"
row=$(grep "^| \[$from\]" README.md | copied |
    sed -E "s/^(\|[^|]*\| *[0-9]+)[^|]*/\1, beyond /; s/ \|$/, a copy of $from |/")
awk -v row="$row" '
    /^\| \[[0-9][0-9]\]/ { inside = 1 }
    inside && !/^\|/ { print row; inside = 0 }
    { print }' README.md >"$scratch/README.md"

if command -v clang-format >/dev/null; then
    for style in .clang-format problems/.clang-format solutions/.clang-format; do cp $style "$scratch/$style"; done
    (cd "$scratch" && find . -name '*.[ch]' -o -name '*.cu' | xargs clang-format -i) || exit 1
    (cd "$scratch" && rm .clang-format problems/.clang-format solutions/.clang-format)
else
    echo "new-problem: clang-format is not installed, so some lines may be badly wrapped"
fi
list=$scratch/solutions/$number/wrong.diff
entries=$([ ! -f "$list" ] || awk -v list="$list" -v tell=names -f workbook/loop/edit.awk)
for entry in $entries; do # one that quotes a line that is wrapped otherwise now fits no more
    awk -v list="$list" -v entry="$entry" -f workbook/loop/edit.awk "$scratch/solutions/$number/$name.${key##*.}" \
        >"$scratch/said" 2>&1 && continue
    echo "new-problem: wrong.diff of $number lacks $entry, whose lines are formatted otherwise"
    awk -v entry="$entry" '/^@@ ./ { on = $2 == entry || $2 == entry ":" } !on' "$list" >"$scratch/said" &&
        cp "$scratch/said" "$list"
done
rm -f "$scratch/said"
(cd "$scratch" && sha256sum "$skeleton") | cat workbook/loop/shipped.sha256 - | sort -k 2 \
    >"$scratch/workbook/loop/shipped.sha256"

# Nothing was changed until here.
cp -R "$scratch/." . || exit 1
# reset-NN, check-format and class-copy go by what git knows.
if git ls-files --error-unmatch Makefile >/dev/null 2>&1; then
    git add "problems/$number" "solutions/$number" tests/"$number"_* $(ls plots/mask_"$number".svg 2>/dev/null)
fi
echo "new-problem: $number $name, a copy of $from. It works: make test-$number IMPL=solutions." \
    "What to do next: workbook/README.md"
