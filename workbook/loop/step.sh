#!/bin/sh
# step.sh NN - the step to problem NN: the student's file of the problem that NN grows out of (`from` in
# workbook/problems.c) against NN as it was shipped, and how many lines of code change. KEYS=1: the two reference
# solutions instead, which give NN away. COMMENTS=1: the code first, and the comments behind it.
# step.sh NN diff - the student's file of NN against the reference solution, after a question that YES=1 answers.
# [-...-] is the student's, {+...+} the reference solution's.
set -u
number=$1 what=${2:-step}
case $number in [1-9]) number=0$number ;; esac
. workbook/loop/source.sh
refuse() { echo "$what-$number: $*" >&2; exit 1; }
source_of() { # IMPL NN
    find_source "$1" "$2"
    [ -n "$file" ] || refuse "there is no source file in $1/$2"
}
key_of() { # NN
    [ -d "solutions/$1" ] || refuse "there is no reference solution here (solutions/$1): a class copy has none"
    source_of solutions "$1"
}
differ() { # OPTION...: of git, for $old and $new
    if command -v git >/dev/null; then
        git diff --no-index --no-ext-diff "$@" "$old" "$new"
    else
        diff -u "$old" "$new"
    fi
    [ $? -le 1 ] || exit 1
}

if [ "$what" = diff ]; then
    source_of problems "$number"
    old=$file
    key_of "$number"
    new=$file
    if [ "${YES:-}" != 1 ]; then
        [ -t 0 ] || refuse "this shows the reference solution and cannot ask without a terminal; YES=1 confirms"
        state=$("build/${BACKEND:-cpu}/wb" standing "$number") ||
            echo "$number has not passed (its state: $state). make hint-$number reveals less."
        printf 'This shows the reference solution of %s, %s. Go on? y/N ' "$number" "$new"
        read -r answer
        case $answer in y | Y | yes) ;; *) echo "Not shown."; exit 0 ;; esac
    fi
    ! cmp -s "$old" "$new" || { echo "$old is identical to the reference solution"; exit 0; }
    differ --ignore-cr-at-eol --word-diff
    exit 0
fi

grows_from "$number" || refuse "$why"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

put() { # its source lies in scratch as well, under the name that the difference shows
    mkdir -p "$scratch/${file%/*}" && tr -d '\r' <"$file" >"$scratch/$file" || exit 1
}
if [ "${KEYS:-}" = 1 ]; then
    key_of "$number" && put
    new=$file
    key_of "$from" && put
    old=$file
else
    source_of problems "$from" && put
    old=$file
    new=shipped/$(sed -n "s|.*  problems/\($number/.*\)|\1|p" workbook/loop/shipped.sha256)
    mkdir -p "$scratch/shipped/$number" && workbook/loop/shipped.sh "$number" "$scratch/$new" || exit 1
fi

shown=$scratch/shown color=never pager=cat
if [ -t 1 ] && command -v git >/dev/null; then
    [ "$(git config --get-colorbool color.diff true)" != true ] || color=always
    pager=$(git var GIT_PAGER)
fi
root=$PWD
(
    cd "$scratch" || exit 1
    of_step() { differ --no-prefix --color=$color --color-moved >>"$shown"; }
    [ "${COMMENTS:-}" = 1 ] || { of_step; exit; }
    for part in code comments; do
        for source in "$old" "$new"; do
            mkdir -p "$part/${source%/*}" &&
                awk -v gaps=1 -v comments="${part#code}" -f "$root/workbook/loop/code.awk" "$source" >"$part/$source"
        done
        (cd $part && of_step) || exit 1
    done
) || exit 1
filled=
[ "${KEYS:-}" = 1 ] || filled=$(sed -n 's/^The step from .. changes \([0-9]*\) lines .*/ (\1 once gaps are filled)/p' \
    "problems/$number/README.md" 2>/dev/null)
echo "$(changed_lines "$scratch/$old" "$scratch/$new") lines of code change from $old to $new$filled." >>"$shown"
echo "Comments, blank lines and gap markers are not counted." >>"$shown"
LESS=${LESS-FRX} sh -c "$pager" <"$shown"
