#!/bin/sh
# reset.sh NN - puts the shipped skeleton of a problem back. The student's file is kept beside it, as NAME.1, the next
# time as NAME.2.
# reset.sh NN blank - puts the contract alone there (blank.awk), for the whole function to be written.
# reset.sh NN start - puts it there as it was shipped, with what is the student's own in the problem that it grows out
# of, once that has passed (travel.sh); if it compiles.
set -u
. workbook/loop/source.sh
number=$1 target=${2:-reset}-$1 what="as shipped"
case $number in [1-9]) number=0$number ;; esac
refuse() { echo "$target: $*. Nothing was changed" >&2; exit 1; }
path=$(sed -n "s|^[0-9a-f]*  \(problems/$number/.*\)|\1|p" workbook/loop/shipped.sha256)
if [ -z "$path" ]; then
    echo "$target: there is no problem $number" >&2
    exit 1
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
workbook/loop/shipped.sh "$number" "$scratch/skeleton" 2>"$scratch/why" || refuse "$(cat "$scratch/why")"
case ${2:-} in
blank)
    name=$(basename "${path%.*}") what="the contract alone"
    awk -v number="$number" -v name="$name" -f workbook/loop/blank.awk "$scratch/skeleton" >"$scratch/blank" &&
        mv "$scratch/blank" "$scratch/skeleton" || refuse "$name was not found in the shipped $path"
    ;;
start)
    grows_from "$number" || refuse "$why"
    out=build/${BACKEND:-cpu}
    state=$("$out/wb" standing "$from") ||
        refuse "$number starts from your $from, which has not passed (state: $state)"
    find_source problems "$from"
    tried=$out/tune/$number/start
    rm -rf "$tried" && mkdir -p "$tried" || exit 1
    workbook/loop/travel.sh "$number" "$file" "$tried/${path##*/}" >"$scratch/lost" || refuse "$(cat "$scratch/lost")"
    [ "$(changed_lines "$tried/${path##*/}" "$scratch/skeleton")" -gt 0 ] ||
        refuse "$number uses none of your code in $file"
    if ! $MAKE --no-print-directory -s -j"$JOBS" BACKEND="${BACKEND:-cpu}" "$tried/$number.so" \
        >"$tried/log" 2>&1; then
        LC_ALL=C awk -f workbook/loop/errors.awk "$tried/log" >&2
        refuse "$number does not compile with your code from $file"
    fi
    mv "$tried/${path##*/}" "$scratch/skeleton" && rm -rf "$tried"
    what="as shipped, with your code from $file; make step-$number shows the changes"
    ;;
esac
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
        refuse "cannot keep your file as $backup: $(cat "$scratch/why")"
    fi
    echo "$target: your file is kept as $backup"
fi
cat "$scratch/skeleton" >"$path" || exit 1
rm -f build/grade/"$number".* # what was said of the other file
echo "$target: $path is $what${backup:+. To undo: cp $backup $path}"
if [ -s "$scratch/lost" ]; then
    echo "$path lacks these lines of yours, because $number changes them:"
    sed 's/^/    /' "$scratch/lost"
fi
