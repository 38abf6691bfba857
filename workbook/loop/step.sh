#!/bin/sh
# step.sh NN - the step to problem NN: the student's file of the problem that NN grows out of (`from` in
# workbook/problems.c) against NN as it was shipped. KEYS=1: the two answer keys instead, which give NN away.
set -u
number=$1
. workbook/loop/source.sh
from=$(sed -n "s/^    {${number#0}, .*, \([0-9]*\)},$/\1/p" workbook/problems.c)
if [ "${from:-0}" = 0 ]; then
    echo "step-$number: there is no problem $number that grows out of another" >&2
    exit 1
fi
from=$(printf %02d "$from")
if [ "${KEYS:-}" = 1 ]; then
    find_source solutions "$from"
    old=$file
    find_source solutions "$number"
    new=$file
else
    find_source problems "$from"
    old=$file
    find_source problems "$number"
    scratch=$(mktemp -d) || exit 1
    trap 'rm -rf "$scratch"' EXIT
    new=$scratch/${file##*/}
    workbook/loop/shipped.sh "$number" "$new" || exit 1
fi
if [ -z "$old" ] || [ -z "$new" ]; then
    echo "step-$number: a source of $from or $number is missing here; a class has no answer keys" >&2
    exit 1
fi
git diff --no-index --no-ext-diff --color-moved "$old" "$new"
[ $? -le 1 ]
