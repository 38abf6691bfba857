#!/bin/sh
# demo.sh BACKEND NN... - one row a problem: its answer key against its naive baseline, on this machine; then the charts.
set -u
backend=$1
shift
out=build/$backend
echo "FlashAttention workbook: the answer keys against naive baselines, on this machine ($backend backend)"
echo
first=--heading
for number; do
    "$out/bench" "$number" --impl "key=$out/solutions/$number.so" --naive --demo $first || exit 1
    first=
done
echo
mkdir -p "$out/results"
for number; do
    name=$(basename "$(ls solutions/"$number"/*.c* | head -n 1)" | sed 's/\.[^.]*$//')
    "$out/bench" "$number" --impl "key=$out/solutions/$number.so" --naive --sweep --out "$out/results/${number}_$name.tsv" || exit 1
    plots/plot.sh "$number" "$backend" || exit 1
done
plots/plot.sh roofline "$backend" || exit 1
plots/train.sh plots/data/cpu/train.tsv build/plots/train_recorded || exit 1
echo
echo "A language model that was trained with the keys of 07 and 09, as recorded: build/plots/train_recorded.svg. Again, in 3 minutes: make train IMPL=solutions"
echo "Next: make test-01 (it says how to start), or problems/01/README.md"
