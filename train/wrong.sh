#!/bin/sh
# wrong.sh BACKEND NAME - the keys of 07 and 09 with a mistake in one or both: NAME is a patch of train/wrong, or of solutions/07/wrong or
# 09/wrong (07/NAME where both have one). Writes what is changed into build/BACKEND/train/wrong/NAME, for train.mk, and prints three lines:
# what is wrong, and the folders below build/BACKEND in which 07 and 09 are built.
# Exit status: 0, or 2 and a sentence.
set -u
say() { echo "train: WRONG=$name: $*" >&2; exit 2; }
name=$2
case $name in
*[!A-Za-z0-9_/]* | /* | */*/*) patch= ;;
*/*) patch=$(ls "solutions/${name%/*}/wrong/${name#*/}.patch" 2>/dev/null) ;;
*) patch=$(ls "train/wrong/$name.patch" "solutions/07/wrong/$name.patch" "solutions/09/wrong/$name.patch" 2>/dev/null) ;;
esac
[ -n "$patch" ] || say "there is no such patch in train/wrong, solutions/07/wrong or solutions/09/wrong"
[ "$(echo "$patch" | wc -l)" -eq 1 ] || say "there are two of this name; write 07/$name or 09/$name"
folder=train/wrong/$(echo "$name" | tr / _)
mkdir -p "build/$1/$folder" && fresh=$(mktemp -d "build/$1/$folder/fresh.XXXXXX") || exit 2
trap 'rm -rf "$fresh"' EXIT
cp solutions/07/flash_sinks.cu solutions/09/flash_sinks_backward.cu "$fresh/"
patch -s -d "$fresh" -p1 --no-backup-if-mismatch -F 0 <"$patch" >"$fresh/log" 2>&1 || say "$patch does not fit the keys: $(cat "$fresh/log")"
head -n 1 "$patch"
for key in solutions/07/flash_sinks.cu solutions/09/flash_sinks_backward.cu; do
    file=$(basename $key) to=$folder
    if cmp -s "$fresh/$file" $key; then
        to=solutions
        rm -f "build/$1/$folder/$file"
    elif ! cmp -s "$fresh/$file" "build/$1/$folder/$file"; then # else it need not be compiled again
        mv "$fresh/$file" "build/$1/$folder/$file"
    fi
    echo "$to"
done
