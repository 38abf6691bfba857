#!/bin/sh
# bench.sh BACKEND IMPL NN... - times your function, the answer key and the naive baseline side by side; the table goes to
# build/BACKEND/results/NN_name.tsv, which plot-NN draws.
set -u
backend=$1 impl=$2
shift 2
out=build/$backend
mkdir -p "$out/results"
for number; do
    echo "FlashAttention workbook: bench of problem $number, $backend backend. Next: make plot-$number"
    $MAKE --no-print-directory "libraries-$number" BACKEND="$backend" IMPL="$impl" >"$out/$number.log" 2>&1 ||
        { cat "$out/$number.log"; exit 1; }
    name=$(basename "$(ls problems/"$number"/*.c* | head -n 1)" | sed 's/\.[^.]*$//')
    set --
    if [ "$impl" = problems ] && workbook/untouched.sh "$(ls problems/"$number"/*.c*)"; then
        echo "  yours is not started: the answer key and the naive baseline alone"
    elif [ "$impl" != solutions ]; then set -- --impl "yours=$out/$impl/$number.so"
    fi
    if [ -f "$out/solutions/$number.so" ]; then set -- "$@" --impl "key=$out/solutions/$number.so"; fi
    "$out/bench" "$number" "$@" --naive --sweep --out "$out/results/${number}_$name.tsv" || exit 1
    echo "written: $out/results/${number}_$name.tsv"
done
