#!/bin/sh
# rebuild.sh - what a .cu includes is part of it: edited, it is compiled anew, and once. Of a .cu on the CPU
# backend make's own means see nothing, for the compiler is given what cuda_to_cpp.awk makes of both. Tried in a
# copy: a student's own helper, and the check build of it.
set -u
. tests/prove/frame.sh
mkdir "$scratch/copy"
cp -R Makefile problems solutions workbook tests train reference "$scratch/copy" && cd "$scratch/copy" || exit 2
build() { ${MAKE:-make} --no-print-directory BACKEND=cpu IMPL=problems "$@" >"$said" 2>&1; }
edits=0
expect() { # WHAT EDITED OBJECT: made, up to date, and out of date again after an edit of what it includes
    check "$1 is made" build "$3"
    check "$1 is not rebuilt while nothing changes" build -q "$3"
    before=$(cksum <"$3")
    edits=$((edits + 1))
    until touch clock && [ -n "$(find clock -newer "$3")" ]; do :; done # the file system's clock has gone on
    echo "__global__ void edit_$edits(int *x) { *x = 7; }" >>"$2"
    build "$3" && [ "$before" != "$(cksum <"$3")" ]
    verdict $? "$1 is rebuilt when $2 changes"
}
sed -i '/^#include "workbook.h"/a #include "helper.cu"' problems/03/flash_forward.cu
echo '#include "deeper.cu"' >problems/03/helper.cu
echo '__global__ void helper(int *x) { *x = 1; }' >problems/03/deeper.cu
expect "a student's kernel" problems/03/helper.cu build/cpu/problems/03.o
expect "its check build" problems/03/deeper.cu build/cpu/check/problems/03.o
exit $failed
