#!/bin/sh
# record.sh OUT [PART...] - what is recorded of make train on a GPU. OUT gets the tables.
#   small     the CPU's model, and resuming it
#   large     76 million parameters, with keys and variants
#   table     table.sh: what training shows
#   ranks     on several GPUs (no part of all): the CPU's model by 1, 2, 4, ... ranks, alike; tokens a second of the
#             large one, in turns
#   context   likewise: one sequence over 1, 2, 4, ... ranks, alike; time and memory of long ones (LENGTHS="131072 ...")
# shellcheck disable=SC2086 # words
set -u
cd "$(dirname "$0")/.." || exit 2
. workbook/loop/source.sh
result=$1
shift
mkdir -p "$result"
export OPENBLAS_NUM_THREADS=1 WB_TIMEOUT="${WB_TIMEOUT:-60}"
out=build/cuda/train failed=0 variants=build/cuda/variants
keys="forward=build/cuda/solutions/07.so backward=build/cuda/solutions/09.so"
fast="forward=$variants/07/variants/hopper/07.so backward=$variants/09/variants/hopper/09.so"
large="layers=12 width=768 q_heads=12 kv_heads=4 head_dim=64 hidden=2048 window=128 sinks=4 context=1024 batch=16"
large="$large rate=6e-4 samples=1 length=300"
ok() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; failed=1; fi
}
small() {
    head_lines cuda "train steps=2000, and with naive attention on the host" >"$result/train.tsv"
    printf 'run\tstep\tseconds\tloss\theld_out\n' >>"$result/train.tsv"
    lessons="text=$out/lessons.txt $keys"
    $out/train $lessons checkpoint="$result/whole" log="$result/curve" compare="$result/compare_small.tsv"
    ok $? "the CPU's model, with the reference solutions"
    sed '1d; s/^/solutions	/' "$result/curve" >>"$result/train.tsv"
    $out/train $lessons checkpoint="$result/parts" length=0 until=800 >/dev/null
    $out/train $lessons checkpoint="$result/parts" length=0 >/dev/null && cmp "$result/whole" "$result/parts"
    ok $? "800 steps and 1200 more from the checkpoint are bitwise identical to 2000"
    mkdir -p $out/solutions && mv "$result/whole" $out/solutions/checkpoint && rm -f "$result/parts"
}
large() {
    text=$result/text
    any_text "$text"
    for kernels in keys fast; do
        [ $kernels = keys ] && with=$keys || with=$fast
        $out/train "text=$text" $large steps="${STEPS:-1000}" $with log="$result/large_$kernels.tsv" \
            compare="$result/compare_large_$kernels.tsv"
        ok $? "76 million parameters, $kernels"
    done
    rm -f "$text"
}
table() { # small models keep a GPU busy only together
    rm -rf "$result/rows" && mkdir "$result/rows"
    awk '!/^#/ && $1 != "kernels" { print $1 }' plots/data/h200/train_wrong.tsv | sort -u | xargs -P 6 -I NAME \
        sh -c 'train/table.sh cuda "$1/rows/$(echo "$2" | tr / _)" "$2"' table "$result" NAME
    ok $? "the table"
    head_lines cuda "table.sh, 2000 steps of 512 bytes, seeds 1 2 3" |
        cat - "$result/rows/right" >"$result/train_wrong.tsv"
    rm "$result/rows/right"
    for rows in "$result"/rows/*; do sed 1d "$rows"; done >>"$result/train_wrong.tsv"
    rm -rf "$result/rows"
    cat "$result/train_wrong.tsv"
}
# The large model's text, of any kind, for speed.
any_text() {
    find /usr/lib/python3* /usr/local/lib/python3* -name '*.py' 2>/dev/null | sort | head -n 8000 |
        xargs cat 2>/dev/null | head -c 64000000 >"$1"
}
# counts: of ranks, a GPU each.
several() {
    export NCCL_NVLS_ENABLE=0 # NVLink multicast off
    gpus=$(nvidia-smi -L | grep -c '^GPU') counts=1 most=1
    while [ $((2 * most)) -le "$gpus" ]; do most=$((2 * most)) && counts="$counts $most"; done
}
# TABLE FIELDS SHARE TOKENS WORDS...: trains `steps` steps, which are no whole run: nothing is sampled or compared.
# Adds a row: FIELDS; of the steps behind a SHARE of them ms of one and tokens a second; memory, where there is a
# column for it; loss.
measured() {
    table=$result/$1 fields=$2 share=$3 tokens=$4
    shift 4
    unset memory
    rm -f "$result/curve"
    $out/train text="$result/text" $keys "$@" steps=$((steps + 1)) until=$steps log="$result/curve" \
        >"$result/log" 2>&1
    ! grep -q gigabytes "$table" || memory=$(sed -n 's/ GB of arrays a rank$//p' "$result/log")
    awk -v steps=$steps -v share="$share" -v tokens="$tokens" -v fields="$fields" -v memory="${memory+$memory\t}" '
        NR > 1 && $1 <= steps * share { step = $1; at = $2 }
        END {
            if ($1 != steps) exit 1
            s = ($2 - at) / ($1 - step)
            printf "%s\t%.3f\t%.0f\t%s%s\n", fields, 1000 * s, tokens / s, memory, $3
        }' "$result/curve" >>"$table" || { cat "$result/log" && false; }
}
# A run, in the folder of a number of ranks, which says nothing unless it fails.
run() { $out/train "$@" >"$result/log" 2>&1 || { cat "$result/log" && false; }; }
fresh() { folder=$result/$1 && rm -rf "$folder" && mkdir "$folder"; }
ranks() {
    several
    steps=${STEPS:-400}
    short="text=$out/lessons.txt $keys batch=8 length=0 samples=2"
    for count in $counts; do
        fresh ranks_$count
        run $short ranks=$count checkpoint="$folder/first" steps=1 && run $short ranks=$count \
            checkpoint="$folder/last" steps=20 log="$folder/curve" compare="$folder/compare" &&
            train/alike.sh cuda 2048 "$result/ranks_1" "$folder"
        ok $? "$count ranks train like one, with correct gradients"
        run $short ranks=$count checkpoint="$folder/again" steps=20 && cmp "$folder/last" "$folder/again"
        ok $? "$count ranks are bitwise reproducible"
        $out/train $short ranks=1 steps=20 until=10 log="$folder/curve" checkpoint="$folder/parts" >/dev/null
        run $short ranks=$count checkpoint="$folder/parts" steps=20 log="$folder/curve" &&
            train/alike.sh cuda 2048 "$result/ranks_1" "$folder"
        ok $? "10 steps of one rank and 10 more of $count"
    done
    rm -rf "$result"/ranks_*
    any_text "$result/text"
    head_lines cuda "train/record.sh OUT ranks, STEPS=$steps, the last three quarters of them" \
        >"$result/train_ranks.tsv"
    printf 'ranks\tbatch\tturn\ttokens\tms\ttokens_per_second\tloss\n' >>"$result/train_ranks.tsv"
    for turn in 1 2 3; do # with a batch for one GPU and one for all
        for batch in $(printf '%s\n' 16 $((16 * most)) | sort -nu); do
            tokens=$((1024 * batch))
            for count in $counts; do
                measured train_ranks.tsv "$count\t$batch\t$turn\t$tokens" 0.25 $tokens $large batch=$batch ranks=$count
                ok $? "$batch sequences a step, $count ranks: $(tail -n 1 "$result/train_ranks.tsv")"
            done
        done
    done
    sed '/^[#r]/d' "$result/train_ranks.tsv" | sort -k 6n | awk '
        { at = $2 " " $1; rate[at, ++turns[at]] = $6 }
        function median(at) { return rate[at, int((turns[at] + 1) / 2)] }
        END {
            for (at in turns) {
                split(at, a, " ")
                printf "batch %d, %d ranks: %d tokens/s, %.3f of one\n", a[1], a[2], median(at),
                    median(at) / median(a[1] " 1")
            }
        }' | sort -k 2n -k 3n
    rm -f "$result/text" "$result/log"
}
context() {
    several
    export WB_TIMEOUT=300
    split="parallel=context ring=build/cuda/lib/libworkbook.so ring_backward=build/cuda/lib/libworkbook.so"
    # Alike, with attention in loops.
    short="text=$out/lessons.txt batch=2 context=1024 window=4 length=0 samples=2"
    for count in 0 $counts; do # 0: one rank, nothing split
        fresh context_$count
        [ $count -eq 0 ] && words="ranks=1" || words="ranks=$count $split"
        run $short $words steps=1 checkpoint="$folder/first" &&
            run $short $words steps=20 log="$folder/curve" checkpoint="$folder/last" &&
            train/alike.sh cuda 2048 "$result/context_0" "$folder" 2
        ok $? "$count ranks split each sequence, and train like one"
    done
    # And with kernels, whose gradients are compared with loops; the second layer sees all. The same bits twice.
    short="text=$out/lessons.txt $keys batch=1 context=4096 window=128 head_dim=64 full=2 length=0 samples=1 steps=20"
    for count in $counts; do
        folder=$result/context_$count
        for again in inside again; do
            run $short $split ranks=$count checkpoint="$folder/$again" log="$folder/curve"
        done
        grep -q ^PASS "$result/log" && cmp "$folder/inside" "$folder/again"
        ok $? "17 and 18 inside, $count ranks: correct gradients, bitwise reproducible: $(tail -n 1 "$folder/curve")"
    done
    rm -rf "$result"/context_*
    any_text "$result/text"
    # 6 layers of width 512: 115 KB of arrays a token, so a million tokens fit one H200.
    long="batch=1 layers=6 width=512 q_heads=8 kv_heads=2 head_dim=64 hidden=1024 window=1024 sinks=4"
    long="$long rate=6e-4 length=0 samples=1"
    [ -s "$result/train_context.tsv" ] || {
        head_lines cuda "train/record.sh OUT context; $long; ms of a step, the last half of so many"
        printf 'tokens\tfull\tranks\tsteps\tms\ttokens_per_second\tgigabytes\tloss\n'
    } >"$result/train_context.tsv"
    for length in ${LENGTHS:-131072 524288 1048576}; do
        for full in 0 3; do
            steps=$((full ? 4 : 8388608 / length)) # a layer that sees all takes a million tokens some seconds
            [ $steps -ge 4 ] || steps=4
            for count in $counts; do
                measured train_context.tsv "$length\t$full\t$count\t$steps" 0.5 "$length" \
                    $long $split context="$length" full=$full ranks=$count
                ok $? "one sequence of $length, full=$full, $count ranks: $(tail -n 1 "$result/train_context.tsv")"
            done
        done
    done
    train/tables.sh "$result/train_context.tsv"
    rm -f "$result/text" "$result/log"
}
# shellcheck disable=SC2046
$MAKE --no-print-directory -j"$(nproc)" BACKEND=cuda $out/train build/cuda/lib/libworkbook.so \
    $(for n in 07 09; do echo build/cuda/solutions/$n.so $variants/$n/variants/hopper/$n.so; done) || exit 2
cat problems/[0-9][0-9]/README.md >$out/lessons.txt
# As make does it: Python's NCCL, where the system has none.
WB_NCCL=${WB_NCCL:-$(sed -n 's/^PYTHON_NCCL := //p' build/tools.mk)}
[ -z "$WB_NCCL" ] || export WB_NCCL
for part in ${*:-small large table}; do # `table` needs the checkpoint that `small` leaves
    echo "== $part"
    $part
done
rm -f "$result"/curve "$result"/whole "$result"/parts
exit $failed
