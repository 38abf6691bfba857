#!/bin/sh
# diff.sh NN - the student's file against the reference solution, after a question that YES=1 answers. [-...-] is the
# student's, {+...+} the key's.
set -u
number=$1
. workbook/loop/source.sh
find_source solutions "$number"
key=$file
find_source problems "$number"
if [ -z "$file" ]; then
    echo "diff-$number: there is no source file in problems/$number" >&2
    exit 1
elif [ -z "$key" ]; then
    echo "diff-$number: there is no reference solution here (solutions/$number): a class copy has none" >&2
    exit 1
fi

if [ "${YES:-}" != 1 ]; then
    if [ ! -t 0 ]; then
        echo "diff-$number: this shows the reference solution and cannot ask without a terminal; YES=1 confirms" >&2
        exit 1
    fi
    state=$("build/${BACKEND:-cpu}/wb" standing "$number") ||
        echo "$number has not passed (its state: $state). make hint-$number reveals less."
    printf 'This shows the reference solution of %s, %s. Go on? y/N ' "$number" "$key"
    read -r answer
    case $answer in y | Y | yes) ;; *) echo "Not shown."; exit 0 ;; esac
fi

if cmp -s "$file" "$key"; then
    echo "$file is identical to the reference solution"
elif command -v git >/dev/null; then
    git diff --no-index --no-ext-diff --ignore-cr-at-eol --word-diff "$file" "$key"
else
    diff -u "$file" "$key"
fi
[ $? -le 1 ]
