#!/bin/sh
# table.sh BACKEND OUT NAME... - what training shows of a mistake. Of each name (of an entry, see wrong.sh; or naive,
# right, untouched) runs with the seeds 1, 2 and 3, and one step's gradients on trained weights: the checkpoint that
# make train IMPL=solutions has left. Adds rows to OUT: kernels, seed, held_out, or the step at which the training
# ended, and of the gradient that is furthest off (of a right kernel: nearest to its bound) problem, layer, gradient,
# error, bound; seed "trained" is that of the checkpoint. TRAIN="NAME=VALUE ..." shapes the runs.
set -u
backend=$1 table=$2
shift 2
out=build/$backend/train scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
export OPENBLAS_NUM_THREADS=1
kind=_worker
[ "$backend" = cpu ] || kind=.so
[ -s "$table" ] || printf 'kernels\tseed\theld_out\tproblem\tlayer\tgradient\terror\tbound\n' >"$table"
# shellcheck disable=SC2086
run() { # what could not begin has no row
    "$out/train" "$@" text=$out/lessons.txt "compare=$scratch/compare.tsv" ${TRAIN:-} >"$scratch/log"
    [ $? -lt 2 ] || { cat "$scratch/log"; exit 2; }
}
worst() {
    awk -F'\t' '
        NR > 1 { e = $4 ~ /nan/ ? 1e99 : $4 == 0 ? 0 : $4 / $5; if (NR == 2 || e > w) { w = e; row = $0 } }
        END { print row }' "$scratch/compare.tsv"
}
for name; do
    case $name in
    naive) ;;
    right) in_07=solutions in_09=solutions ;;
    untouched) in_07=problems in_09=problems ;;
    *)
        wrong=$(train/wrong.sh "$backend" "$name") || exit 2
        in_07=$(echo "$wrong" | sed -n 2p) in_09=$(echo "$wrong" | sed -n 3p)
        ;;
    esac
    set --
    [ "$name" = naive ] ||
        set -- "forward=build/$backend/$in_07/07$kind" "backward=build/$backend/$in_09/09$kind"
    [ $# -eq 0 ] ||
        ${MAKE:-make} --no-print-directory BACKEND="$backend" "${1#*=}" "${2#*=}" >"$scratch/log" 2>&1 ||
        { cat "$scratch/log"; exit 2; }
    for seed in 1 2 3; do
        rm -f "$scratch/curve.tsv" "$scratch/compare.tsv"
        run "$@" seed=$seed length=0 samples=1 "log=$scratch/curve.tsv"
        held=$(tail -n 1 "$scratch/curve.tsv" | cut -f 4)
        ended=$(sed -n 's/^step \([0-9]*\): the training ends here.*/ended at \1/p' "$scratch/log")
        printf '%s\t%s\t%s\t%s\n' "$name" $seed "${ended:-$held}" "$([ $# -gt 0 ] && worst || echo)" >>"$table"
    done
    [ $# -eq 0 ] && continue
    run "$@" "checkpoint=$out/solutions/checkpoint"
    printf '%s\ttrained\t-\t%s\n' "$name" "$(worst)" >>"$table"
done
