# frame.sh - what scripts of tests/ begin with, sourced in the workbook's root: a folder of their own, gone at the end,
# and a line for each thing that is looked at. After a failure comes what `show` prints. A script that has a function
# of these names changes what the others do.
export MAKE="${MAKE:-make}"
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
said=$scratch/said failed=0
show() { [ ! -f "$said" ] || sed 's/^/      /' "$said"; }
verdict() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; show; failed=1; fi
}
check() { # WHAT CONDITION...
    what=$1
    shift
    "$@"
    verdict $? "$what"
}
made() { # TARGET...
    $MAKE --no-print-directory -s -j"${JOBS:-2}" BACKEND="${BACKEND:-cpu}" "$@" >"$said" 2>&1
}
# What a picture of gnuplot's shows, whatever its version: its words, and the colors of all that is filled.
shown_in() { sed 's/<[^>]*>//g' "$1" | grep '[^ ]' | grep -vi gnuplot; tr '<' '\n' <"$1" | grep -o "fill *= *'[^']*'"; }
same_picture() { # SCRIPT DATA SVG
    gnuplot -e "data='$2'; out='$scratch/picture.svg'" "$1" && shown_in "$scratch/picture.svg" >"$scratch/shown" &&
        shown_in "$3" | diff - "$scratch/shown"
}
fail() { echo "FAIL  $*"; failed=1; }
# As it was built: another flag, and all is built anew.
! grep -qs -e -Werror "build/${BACKEND:-cpu}/flags.mk" || export WERROR=1
