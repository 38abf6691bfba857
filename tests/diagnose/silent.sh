#!/bin/sh
# silent.sh NN WORKER - of a right kernel diagnose says nothing: on the cases that it has itself, and on drawn ones, of
# any input and size. WORKER is a file below build/cpu.
set -u
n=$1 out=build/cpu tried=$(mktemp) failed=0
export WB_WORKER=$out/$2
trap 'rm -f "$tried"' EXIT
silent() { # ARGUMENTS: of a kernel in plain CUDA, of which nothing is seen, it says that
    said=$("$out/diagnose" "$@" 2>&1)
    case $said in "" | "step by step: no result. "*) return ;; esac
    echo "of a right kernel, $*: $said" | tr '\n' ' '
    echo
    failed=1
}
"$WB_WORKER" --cases "drawn/$(cksum <"$WB_WORKER" | cut -c 1-7)" >"$tried" || exit 1
silent "$n"
for given in $(sort -u "$tried"); do silent --only "$n" "$given"; done
[ $failed -ne 0 ] || echo "silent, also on $(sort -u "$tried" | grep -c .) other cases"
exit $failed
