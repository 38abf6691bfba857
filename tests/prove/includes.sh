#!/bin/sh
# includes.sh - every #include "..." of the workbook is one that workbook/rooms.txt allows. What students and attackers write (tests/class,
# tests/hostile, tests/honest, tests/mistakes) is not looked at, for it is tested as it is.
set -u
rooms=workbook/rooms.txt failed=0
room_of() { # PATH
    case $1 in
    problems/* | solutions/*) echo problems ;;
    workbook/*/*) echo "$1" | cut -d/ -f2 ;;
    workbook/*) echo root ;;
    *) echo "${1%%/*}" ;;
    esac
}
found() { # FILE WHAT: the path that the compiler finds
    for path in "$(dirname "$1")/$2" "workbook/$2" "$2" "tests/$2"; do
        [ ! -f "$path" ] || { realpath --relative-to=. "$path" 2>/dev/null || echo "$path"; return; }
    done
}
# The table itself: a room names rooms above it alone, and none is forgotten.
awk -F ': *' '/^#/ { next } {
    n = split($2, names, " ")
    for (i = 1; i <= n; i++) if (names[i] !~ /[.]/ && !(names[i] in above)) { print "FAIL  " FILENAME ": " $1 " names " names[i] ", which does not stand above it"; bad = 1 }
    above[$1] = 1
} END { exit bad }' $rooms || failed=1
for folder in workbook/*/; do
    grep -q "^$(basename "$folder"):" $rooms || { echo "FAIL  $rooms has no line for $folder"; failed=1; }
done

list=$(mktemp) || exit 2
trap 'rm -f "$list"' EXIT
grep -rnE '^[ \t]*#[ \t]*include[ \t]*"' problems/*/*.c* $(ls -d solutions 2>/dev/null) workbook reference tests train --include='*.c' --include='*.h' --include='*.cu' --include='*.cuh' --include='*.cpp' |
    grep -vE '^tests/(class|hostile|honest|mistakes)/' | sed -E 's/:[0-9]+:[^"]*"([^"]*)".*/ \1/' | sort -u >"$list"
while read -r file what; do
    path=$(found "$file" "$what")
    from=$(room_of "$file") to=$(room_of "$path")
    [ "$from" != "$to" ] || [ -z "$path" ] || continue
    case " $(sed -n "s/^$from: *//p" $rooms) " in
    *" $to "* | *" $(basename "$what") "*) [ -z "$path" ] || continue ;;
    esac
    echo "FAIL  $file, of $from, includes \"$what\", ${path:-which is not there}${path:+ of $to}: $rooms does not allow it"
    failed=1
done <"$list"
[ $failed -ne 0 ] || echo "ok    $(grep -c . "$list") includes, each within what $rooms allows"
exit $failed
