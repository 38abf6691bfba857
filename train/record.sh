#!/bin/sh
# record.sh OUT [PART...] - what is recorded of make train on a GPU, in a bundle (bundle.sh). OUT gets all that is printed, and the tables.
#   layers   the GPU's layers against the host's; layers that are wrong must be told apart          small   the CPU's model, and resuming it
#   large    76 million parameters, with keys and variants, beside PyTorch                         table   table.sh: what training shows
set -u
cd "$(dirname "$0")/.." || exit 2
result=$1
shift
mkdir -p "$result"
export LD_LIBRARY_PATH="$PWD/lib:${CUDA_HOME:-/usr/local/cuda}/lib64:${LD_LIBRARY_PATH:-}" OPENBLAS_NUM_THREADS=1 WB_TIMEOUT="${WB_TIMEOUT:-60}"
out=build/cuda/train failed=0
keys="forward=build/cuda/solutions/07.so backward=build/cuda/solutions/09.so"
packed="forward=build/cuda/variants/07/variants/packed_heads/07.so backward=build/cuda/variants/09/variants/packed_heads/09.so"
large="layers=12 width=768 q_heads=12 kv_heads=4 head_dim=64 hidden=2048 window=128 sinks=4 context=1024 batch=16 rate=6e-4 samples=1 length=300"
head_lines() {
    printf '# gpu: %s\n# driver: %s\n# date: %s UTC\n# commit: %s\n# backend: cuda\n# command: %s\n' \
        "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)" "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" \
        "$(date -u '+%Y-%m-%d %H:%M')" "$(cat commit)" "$1"
}
ok() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; failed=1; fi
}
layers() {
    $out/layers_host write "$result/host" && $out/layers_device compare "$result/host"
    ok $? "both halves of the layers agree"
    for wrong in $out/wrong_layers/*/; do
        "$wrong/layers_host" write "$result/host"
        $out/layers_device compare "$result/host" >"$result/log"
        [ $? -eq 1 ]
        ok $? "$(basename "$wrong") is told apart: $(grep WRONG "$result/log" | head -n 1)"
    done
    rm -f "$result/host" "$result/log"
}
small() {
    { head_lines "train steps=2000, and with naive attention on the host"; printf 'run\tstep\tseconds\tloss\theld_out\n'; } >"$result/train.tsv"
    # shellcheck disable=SC2086
    $out/train text=$out/lessons.txt $keys checkpoint="$result/whole" log="$result/curve" compare="$result/compare_small.tsv"
    ok $? "the CPU's model, with the keys"
    sed '1d; s/^/solutions	/' "$result/curve" >>"$result/train.tsv"
    # shellcheck disable=SC2086
    $out/train text=$out/lessons.txt $keys checkpoint="$result/parts" length=0 until=800 >/dev/null
    # shellcheck disable=SC2086
    $out/train text=$out/lessons.txt $keys checkpoint="$result/parts" length=0 >/dev/null && cmp "$result/whole" "$result/parts"
    ok $? "800 steps and 1200 more from the checkpoint give the same bits as 2000"
    mkdir -p $out/solutions && mv "$result/whole" $out/solutions/checkpoint && rm -f "$result/parts"
}
large() {
    text=$result/text # of any kind, for speed
    find /usr/lib/python3* /usr/local/lib/python3* -name '*.py' 2>/dev/null | sort | head -n 8000 | xargs cat 2>/dev/null | head -c 64000000 >"$text"
    for kernels in keys packed; do
        [ $kernels = keys ] && with=$keys || with=$packed
        # shellcheck disable=SC2086
        $out/train "text=$text" $large steps="${STEPS:-1000}" $with log="$result/large_$kernels.tsv" compare="$result/compare_large_$kernels.tsv"
        ok $? "76 million parameters, $kernels"
    done
    ${PYTHON:-python3} reference/train_peer.py >"$result/train_peer.tsv"
    ok $? "PyTorch"
    cat "$result/train_peer.tsv"
    rm -f "$text"
}
table() { # small models keep a GPU busy only together
    rm -rf "$result/rows" && mkdir "$result/rows"
    printf '%s\n' naive right untouched $(cat $out/names) | xargs -P 6 -I NAME sh -c 'train/table.sh cuda "$1/rows/$(echo "$2" | tr / _)" "$2"' table "$result" NAME
    ok $? "the table"
    { head_lines "table.sh, 2000 steps of 512 bytes, seeds 1 2 3"; cat "$result/rows/right"; for rows in "$result"/rows/*; do [ "${rows##*/}" = right ] || sed 1d "$rows"; done; } >"$result/train_wrong.tsv"
    rm -rf "$result/rows"
    cat "$result/train_wrong.tsv"
}
for part in ${*:-layers small large table}; do # `table` needs the checkpoint that `small` leaves
    echo "== $part"
    $part
done
(cd "$result" && tar -rf tables.tar ./*.tsv && rm -f ./*.tsv curve whole parts) # several calls add up
exit $failed
