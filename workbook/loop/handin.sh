#!/bin/sh
# handin.sh BACKEND FILE NN... - tests what was started of these problems, packs what counts of it, of each one file,
# into FILE, and says what it packed. Exit status: 0 if it is packed, whatever the tests say, else 1: a file includes
# another one, say.
set -u
. workbook/loop/source.sh
backend=$1 to=$2
shift 2
files='' numbers=''
for number; do
    find_source problems "$number"
    [ -z "$file" ] || "build/$backend/wb" untouched "$file" || files="$files $file" numbers="$numbers $number"
done
[ -n "$files" ] || { echo "handin: no problem is started: every file is as shipped" >&2; exit 1; }
for file in $files; do # each is compiled where no other is
    for name in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^" ]*\)".*/\1/p' "$file"); do
        [ ! -f "${file%/*}/$name" ] || { echo "handin: nothing is packed: only one file per problem counts, so move" \
            "${file%/*}/$name into $file" >&2; exit 1; }
    done
done
# shellcheck disable=SC2086
REPAIR=${REPAIR:-0} SANITIZE=${SANITIZE:-0} "build/$backend/wb" test "$backend" problems $numbers
# shellcheck disable=SC2086
tar -czf "$to" $files || exit 1
echo
echo "handin: packed into $to, to be handed in as it is:"
for file in $files; do
    number=${file#problems/} number=${number%%/*}
    echo "  $file  $("build/$backend/wb" standing "$number")"
    [ "$(wc -c <"$file")" -le 262144 ] || echo "  $file has more than 256 KB, and will not be graded" >&2
done
for file in $(find problems -name '*.c' -o -name '*.cu' -o -name '*.h' -o -name '*.cuh'); do
    case " $files $(sed 's/^[^ ]* *//' workbook/loop/shipped.sha256 | tr '\n' ' ') " in
    *" $file "*) ;;
    *) echo "  not packed: only one file per problem counts: $file" ;;
    esac
done
