# shellcheck shell=sh
# source.sh - for scripts that run in the workbook's root. find_source FOLDER NN sets `name`, the problem's, and `file`,
# FOLDER/NN/name.cu or name.c; an empty one if there is none. What else lies there, an attempt for example, is nobody's
# source. ring_of NN prints which program starts the ranks of a problem that wants several processes, and nothing for
# the others. from_of NN prints the number of the problem that NN grows out of (workbook/problems.c), if there is one.
: "${MAKE:=make}" "${WB_JOBS:=2}" # make says both; a script may be run by hand
find_source() {
    for name in tests/"$2"_*.c; do :; done
    name=${name#tests/"$2"_} name=${name%.c}
    for file in "$1/$2/$name.cu" "$1/$2/$name.c" ''; do [ ! -f "$file" ] || return 0; done
}
ring_of() {
    case $1 in
    17) echo ring ;;
    18) echo ring_backward ;;
    esac
}
from_of() {
    from=
    case $1 in [0-9][0-9]) from=$(sed -n "s/^    {${1#0}, .*, \([1-9][0-9]*\)},$/\1/p" workbook/problems.c) ;; esac
    [ -z "$from" ] || printf '%02d\n' "$from"
}
