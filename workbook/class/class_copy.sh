#!/bin/sh
# class_copy.sh DEST - exports the workbook for a class into the new folder DEST: what a student needs, without the
# reference solutions, other solutions and wrong code, what only those who carry the workbook on need, and the history
# (left_out). What a page says between <!-- whole: --> and <!-- :whole --> is left out; what stands in a comment,
# <!-- class:, holds of the copy. problems/ is as it was shipped, whatever you have written there, and
# workbook/loop/shipped/ keeps another copy of it for make reset-NN. UPTO=NN: without the problems after NN. Exit
# status: 0, or 1 with a sentence.
set -u
fail() { echo "class-copy: $*" >&2; exit 1; }
[ $# -eq 1 ] && [ -n "$1" ] || fail "name the new folder: make class-copy DEST=../workbook-for-the-class"
dest=$1
case $dest in /*) ;; *) dest=$PWD/$dest ;; esac
if [ -e "$dest" ] && ! { [ -d "$dest" ] && [ -z "$(ls -A "$dest")" ]; }; then
    fail "$dest exists and would be overwritten: name a new folder"
fi
upto=${UPTO:-99}
case $upto in [1-9]) upto=0$upto ;; esac
[ "$upto" = 99 ] || [ -d "problems/$upto" ] ||
    fail "there is no problem $UPTO: UPTO=12 makes a copy that ends with problem 12"
[ ! -e .git ] || git ls-files >/dev/null || fail "git does not read the history here, see above"
mkdir -p "$dest" || exit 1

earlier() { # WHAT: of lines those that have no number behind this expression, or that of a problem not after UPTO
    awk -v upto="$upto" -v what="$1[0-9]+" '
        { number = match($0, what) ? substr($0, RSTART, RLENGTH) : 0; sub(/.*[^0-9]/, "", number) }
        number + 0 <= upto + 0'
}

files() { # of the workbook, without what was built; what git does not know yet only where the workbook keeps its own
    if git ls-files --error-unmatch Makefile >/dev/null 2>&1; then
        git ls-files
        git ls-files -o --exclude-standard workbook tests reference train
    else
        find . -path ./build -prune -o -path ./.git -prune -o -type f -print | sed 's|^\./||'
    fi
}
left_out='^(solutions|examples|\.ci|\.github|build|shared|VERSION|pyproject\.toml|tests/README\.md)(/|$)'
left_out="$left_out|^(CONTRIBUTING|CHANGELOG|SECURITY)\.md\$|^workbook/(README|compatibility|class/threats)\.md\$"
left_out="$left_out|^tests/[^/]+/|^train/wrong/|^problems/[0-9]+/[^/]*\.(c|cu)\$"
files | grep -vE "$left_out" | earlier '^(problems|tests)/' |
    while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done | tar -cf - -T - | tar -xf - -C "$dest" ||
    fail "the copy failed"

while read -r _ file; do
    number=$(basename "${file%/*}")
    [ "$number" -le "$upto" ] || continue
    mkdir -p "$dest/${file%/*}" "$dest/workbook/loop/shipped/$number"
    workbook/loop/shipped.sh "$number" "$dest/$file" || fail "there is no skeleton of problem $number"
    cp -p "$dest/$file" "$dest/workbook/loop/shipped/$number/"
done <workbook/loop/shipped.sha256
earlier ' problems/' <workbook/loop/shipped.sha256 >"$dest/workbook/loop/shipped.sha256"
earlier '^ *[{]' <workbook/problems.c >"$dest/workbook/problems.c"

# Of a copy that ends early two pages have a row for each problem.
[ "$upto" = 99 ] || for page in README.md problems/README.md; do
    earlier '^[|] [[]?' <"$dest/$page" |
        sed "s|^This is a class's copy[.].*|& It ends with problem $upto; this page speaks of later ones, too.|
            s|# Score: 0/[0-9].*|# Score: 0/...|" >"$dest/.new" && cat "$dest/.new" >"$dest/$page"
done

# A link to what is not in the copy becomes its words; without a dot or a slash it is code: [&](float).
find "$dest" -name '*.md' | while IFS= read -r text; do
    sed '/^ *<!-- whole: -->$/,/^ *<!-- :whole -->$/d; /^<!-- class:$/,/^-->$/{//d;}' "$text" | cat -s >"$dest/.new"
    grep -o ']([^() ]*)' "$dest/.new" | tr -d '])(' | sort -u | while IFS= read -r link; do
        case $link in '#'* | *:*) continue ;; *[./]*) ;; *) continue ;; esac
        [ -e "${text%/*}/${link%%#*}" ] || printf 's|\\[\\([^][]*\\)](%s)|\\1|g\n' "$link"
    done >"$dest/.links"
    sed -z -f "$dest/.links" "$dest/.new" >"$text" || fail "the links of $text could not be adapted"
done
rm -f "$dest/.new" "$dest/.links"

[ -n "${QUIET:-}" ] || echo "class-copy: $dest. Try it: cd '$dest' && make test"
