#!/bin/sh
# rebuild.sh - what a .cu includes is part of it: edited, it is compiled anew, and once. Of a .cu on the CPU backend make's own means see nothing,
# for the compiler is given what cuda_to_cpp.awk makes of both. Tried in a copy: a variant that includes another, a student's own helper, and the
# check build of it.
set -u
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failed=0 edits=0
cp -R Makefile problems solutions workbook tests train reference "$scratch" && cd "$scratch" || exit 2
build() { ${MAKE:-make} --no-print-directory BACKEND=cpu IMPL=problems "$@"; }
expect() { # WHAT EDITED OBJECT: made, up to date, and out of date again after an edit of what it includes
    build "$3" >log 2>&1 || { echo "FAIL  $1: $(tail -n 3 log)"; failed=1; return; }
    build -q "$3" >log 2>&1 || { echo "FAIL  $1 is made anew though nothing has changed"; failed=1; }
    before=$(cksum <"$3")
    edits=$((edits + 1))
    echo "__global__ void edit_$edits(int *x) { *x = 7; }" >>"$2"
    touch -d '+2 seconds' "$2" # whatever the file system's clock counts in
    build "$3" >log 2>&1 || { echo "FAIL  $1: $(tail -n 3 log)"; failed=1; return; }
    [ "$before" != "$(cksum <"$3")" ] || { echo "FAIL  $1: $2 was edited, and $3 is as it was"; failed=1; return; }
    echo "ok    $1 is made anew when $2 changes"
}
sed -i '/^#include "workbook.h"/a #include "helper.cu"' problems/03/flash_forward.cu
echo '#include "deeper.cu"' >problems/03/helper.cu
echo '__global__ void helper(int *x) { *x = 1; }' >problems/03/deeper.cu
expect "a student's kernel" problems/03/helper.cu build/cpu/problems/03.o
expect "its check build" problems/03/deeper.cu build/cpu/check/problems/03.o
if [ -d solutions/11 ]; then
    expect "a variant" solutions/07/variants/hopper.cu build/cpu/variants/11/variants/hopper_window/11.o
fi
[ $failed -eq 0 ]
