#!/bin/sh
# reset.sh NN - puts the shipped skeleton of a problem back. The student's file is kept beside it, as NAME.1, the next
# time as NAME.2.
# reset.sh NN blank - puts the contract alone there (blank.awk), for the whole function to be written.
set -u
number=$1 target=${2:-reset}-$1 what="as shipped"
path=$(sed -n "s|^[0-9a-f]*  \(problems/$number/.*\)|\1|p" workbook/loop/shipped.sha256)
if [ -z "$path" ]; then
    echo "$target: there is no problem $number" >&2
    exit 1
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
if ! workbook/loop/shipped.sh "$number" "$scratch/skeleton" 2>"$scratch/why"; then
    echo "$target: $(cat "$scratch/why"). Nothing was changed" >&2
    exit 1
fi
if [ $# -gt 1 ]; then
    name=$(basename "${path%.*}") what="the contract alone"
    awk -v number="$number" -v name="$name" -f workbook/loop/blank.awk "$scratch/skeleton" >"$scratch/blank" &&
        mv "$scratch/blank" "$scratch/skeleton" || {
        echo "$target: $name was not found in the shipped $path. Nothing was changed" >&2
        exit 1
    }
fi
if cmp -s "$path" "$scratch/skeleton"; then
    echo "$target: nothing to do, $path is $what"
    exit 0
fi

backup=
if [ -e "$path" ]; then
    last=$(ls "$path".[0-9]* 2>/dev/null | sed 's/.*\.//' | grep -x '[1-9][0-9]*' | sort -n | tail -n 1)
    backup=$path.$((${last:-0} + 1))
    # -C: an earlier backup is never overwritten, not even by two of us at a time.
    if ! (set -C && cat "$path" >"$backup") 2>"$scratch/why" || ! cmp -s "$path" "$backup"; then
        echo "$target: cannot keep your file as $backup: $(cat "$scratch/why"). Nothing was changed" >&2
        exit 1
    fi
    echo "$target: your file is kept as $backup"
fi
cat "$scratch/skeleton" >"$path" || exit 1
rm -f build/grade/"$number".* # what was said of the other file
echo "$target: $path is $what${backup:+. To undo: cp $backup $path}"
