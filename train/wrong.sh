#!/bin/sh
# wrong.sh BACKEND NAME - the keys of 07 and 09 with a mistake in one or both: NAME is an entry of train/wrong/*.diff,
# or of solutions/07/wrong.diff or 09/wrong.diff (07/NAME where both have one). Writes what is changed into
# build/BACKEND/train/wrong/NAME, for train.mk, and prints three lines: what is wrong, and the folders below
# build/BACKEND in which 07 and 09 are built. BACKEND -: the first of these lines alone. Exit status: 0, or 2 and a
# sentence.
set -u
name=$2 entry=${2#*/}
say() { echo "train: WRONG=$name: $*" >&2; exit 2; }
has() { [ -f "$1" ] && awk -v list="$1" -v tell=names -f workbook/loop/edit.awk | grep -qx "$entry"; } # LIST
found=0 in_07= in_09=
found() { found=$((found + 1)); [ -z "$1" ] || in_07=$1; [ -z "$2" ] || in_09=$2; } # LIST_OF_07 LIST_OF_09
case $name in
*[!A-Za-z0-9_/]* | /* | */*/* | [!0]*/* | 0[!79]*) ;;
*)
    if [ "$name" = "$entry" ]; then
        a= b=
        ! has train/wrong/07.diff || a=train/wrong/07.diff
        ! has train/wrong/09.diff || b=train/wrong/09.diff
        [ -z "$a$b" ] || found "$a" "$b"
    fi
    case $name in 09/*) ;; *) ! has solutions/07/wrong.diff || found solutions/07/wrong.diff '' ;; esac
    case $name in 07/*) ;; *) ! has solutions/09/wrong.diff || found '' solutions/09/wrong.diff ;; esac
    ;;
esac
[ $found -gt 0 ] || say "there is no such entry in train/wrong/*.diff, solutions/07/wrong.diff or 09/wrong.diff"
[ $found -eq 1 ] || say "there are two of this name; write 07/$name or 09/$name"
awk -v list="${in_07:-$in_09}" -v entry="$entry" -v tell=sentence -f workbook/loop/edit.awk
[ "$1" != - ] || exit 0
folder=train/wrong/$(echo "$name" | tr / _)
mkdir -p "build/$1/$folder" && fresh=$(mktemp "build/$1/$folder/fresh.XXXXXX") || exit 2
trap 'rm -f "$fresh"' EXIT
for key in solutions/07/flash_sinks.cu solutions/09/flash_sinks_backward.cu; do
    file=build/$1/$folder/$(basename $key) list=$in_07
    [ $key = solutions/07/flash_sinks.cu ] || list=$in_09
    if [ -z "$list" ]; then
        rm -f "$file"
        echo solutions
    else
        awk -v list="$list" -v entry="$entry" -f workbook/loop/edit.awk $key >"$fresh" || exit 2
        cmp -s "$fresh" "$file" || cp "$fresh" "$file" # else it need not be compiled again
        echo "$folder"
    fi
done
