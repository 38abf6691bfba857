#!/bin/sh
# silent.sh NN WORKER [suite] - of a right kernel diagnose says nothing: on the cases that it has itself, and on drawn
# ones, of any input and size; `suite`: on each case that its suite tries, too (where key.sh has left those, they are
# not tried again). WORKER is a file below build/cpu.
set -u
n=$1 out=build/cpu tried=$(mktemp) failed=0
export WB_WORKER=$out/$2
trap 'rm -f "$tried" "$tried.spent"' EXIT
silent() { # ARGUMENTS: of a kernel in plain CUDA, of which nothing is seen, it says that
    said=$("$out/diagnose" "$@" 2>&1)
    case $said in "" | "step by step: no result. "*) return ;; esac
    echo "of a right kernel, $*: $said" | tr '\n' ' '
    echo
    failed=1
}
if [ "${3:-}" = suite ]; then
    left=$out/proofs/key/$n.spent test=$out/tests/${n}_test
    [ "$left" -nt "$WB_WORKER" ] && [ "$left" -nt "$test" ] ||
        { left=$tried.spent; "$out/wb" suite --spent "$left" "$test" "$WB_WORKER" cpu >/dev/null 2>&1; }
    awk '$3 { print $3 }' "$left" >"$tried"
fi
"$WB_WORKER" --cases "drawn/$(cksum <"$WB_WORKER" | cut -c 1-7)" >>"$tried" || exit 1
silent "$n"
for given in $(sort -u "$tried"); do silent --only "$n" "$given"; done
[ $failed -ne 0 ] || echo "silent, also on $(sort -u "$tried" | grep -c .) other cases"
exit $failed
