#!/bin/sh
# handin.sh BACKEND FILE NN... - tests what was started of these problems, packs what counts of it, of each one file,
# into FILE, and says what it packed. Exit status: 0 if it is packed, whatever the tests say, else 1, as where a file needs
# one that is not packed.
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
others=$(find problems -name '*.c' -o -name '*.cu' -o -name '*.h' -o -name '*.cuh' | while read -r file; do
    case " $files $(sed 's/^[^ ]* *//' workbook/loop/shipped.sha256 | tr '\n' ' ') " in
    *" $file "*) ;;
    *) echo "$file" ;;
    esac
done)
for other in $others; do
    # shellcheck disable=SC2086
    user=$(grep -l "^ *# *include *[\"<]\(.*/\)\{0,1\}${other##*/}[\">]" $files)
    [ -z "$user" ] ||
        { echo "handin: nothing is packed: only one file per problem counts, so move $other into" $user >&2; exit 1; }
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
for other in $others; do echo "  not packed: only one file per problem counts: $other"; done
