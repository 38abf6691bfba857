#!/bin/sh
# train_ranks.sh - make train RANKS=n, on this machine's CPU: several ranks train as one does, to the rounding of sums in another order, and ranks that
# do not are noticed by the same comparison (train/alike.sh); the same bits twice; checkpoints of other numbers of ranks; no rank is left behind.
set -u
. tests/prove/frame.sh
out=build/cpu/train
export OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive MAKE="${MAKE:-make}"
unset STEPS SEED TEXT WRONG RESUME TRAIN RANKS PARALLEL WB_SEED RANK WORLD_SIZE
cat problems/0[1-9]/README.md | head -c 20480 >"$scratch/text" # little is held out, so that it takes little time
$MAKE --no-print-directory -j"${WB_JOBS:-2}" BACKEND=cpu WERROR=1 train-ranks build/cpu/solutions/07_worker build/cpu/solutions/09_worker \
    build/cpu/train/wrong_kernels/07_crashes/07_worker >"$said" 2>&1
verdict $? "train, and ranks that train otherwise, compile"
[ $failed -eq 0 ] || exit 1

small="text=$scratch/text layers=2 width=32 hidden=128 context=64 batch=4 length=0" # a layer's gradients do not fit the board of ranks_host.c at once
# shellcheck disable=SC2086
trains() { # PROGRAM RANKS FOLDER WORDS...: one step, and eight
    program=$1 ranks=$2 folder=$scratch/$3
    shift 3
    rm -rf "$folder" && mkdir "$folder"
    timeout 600 "$program" $small ranks="$ranks" steps=1 checkpoint="$folder/first" "$@" >"$said" 2>&1 &&
        timeout 600 "$program" $small ranks="$ranks" steps=8 samples=2 checkpoint="$folder/last" log="$folder/curve" "$@" >>"$said" 2>&1
}
alike() { train/alike.sh cpu 256 "$scratch/one" "$scratch/$1" >>"$said" 2>&1; }
trains $out/train 1 one
verdict $? "one rank trains"
for ranks in 2 4; do
    trains $out/train $ranks $ranks && alike "$ranks"
    verdict $? "$ranks ranks: $(tail -n 1 "$said")"
done
trains $out/train 4 again && cmp "$scratch/4/last" "$scratch/again/last" && cmp "$scratch/4/first" "$scratch/again/first"
verdict $? "4 ranks give the same bits twice"
names() { awk -v list="tests/train/$1.diff" -v tell=known -f workbook/loop/edit.awk | awk -v of="${2:-}" '$2 == of || (of == "" && $2 != "moves") { print $1 }'; } # LIST [KNOWN]
for edited in ranks_host model train; do
    for wrong in $(names $edited); do
        ! { trains "$out/wrong_ranks/$edited/$wrong/train" 4 wrong && alike wrong; } && grep -q '^train: the weights of rank\|^gradients off' "$said"
        verdict $? "that is not so of $wrong: $(tail -n 1 "$said")"
    done
done

# What runs on GPUs, on the CPU layer, which knows what may meet a message that nothing orders.
# shellcheck disable=SC2086
on_layer() { # PROGRAM RANKS FOLDER WORDS...
    program=$1 folder=$scratch/$3
    shorter="text=$scratch/text layers=2 width=32 hidden=32 context=64 batch=2 length=0 samples=1 ranks=$2"
    shift 3
    rm -rf "$folder" && mkdir "$folder"
    timeout 600 "$program" $shorter steps=1 checkpoint="$folder/first" "$@" >"$said" 2>&1 && timeout 600 "$program" $shorter steps=3 log="$folder/curve" "$@" >>"$said" 2>&1
}
alike_there() { train/alike.sh cuda 128 "$scratch/layer_1" "$scratch/$1" >>"$said" 2>&1; }
on_layer $out/on_layer 1 layer_1 && on_layer $out/on_layer 2 layer_2 && alike_there layer_2
verdict $? "2 ranks of the layer: $(tail -n 1 "$said")"
for wrong in $(names ranks_device); do
    ! { on_layer "$out/wrong_ranks/on_layer/$wrong/on_layer" 2 wrong && alike_there wrong; } && grep -q 'cudacpu: \|^gradients off' "$said"
    verdict $? "that is not so of $wrong: $(grep cudacpu: "$said" || tail -n 1 "$said")"
done

# Each sequence over all ranks: chunks of 16 tokens, of which the next one borrows 7 and the 2 sinks; and chunks that have just enough.
in_parts="text=$scratch/text layers=2 width=32 hidden=128 context=128 window=8 sinks=2 batch=2 length=0" whole=$small small=$in_parts
trains $out/train 1 one_long
verdict $? "one rank trains with longer sequences"
for ranks in 1 2 4; do
    trains $out/train $ranks context_$ranks parallel=context && train/alike.sh cpu 256 "$scratch/one_long" "$scratch/context_$ranks" >>"$said" 2>&1
    verdict $? "$ranks ranks share each sequence: $(tail -n 1 "$said")"
done
for wrong in $(names context); do
    ! { trains "$out/wrong_ranks/context/$wrong/train" 4 wrong parallel=context && train/alike.sh cpu 256 "$scratch/one_long" "$scratch/wrong" >>"$said" 2>&1; } && grep -q '^gradients off' "$said"
    verdict $? "that is not so of $wrong: $(tail -n 1 "$said")"
done
for shape in "context=36" "context=36 sinks=0" "context=36 window=1 sinks=9"; do
    small="$in_parts $shape"
    trains $out/train 1 whole && trains $out/train 2 split parallel=context && train/alike.sh cpu 72 "$scratch/whole" "$scratch/split" >>"$said" 2>&1
    verdict $? "2 ranks share sequences of $shape: $(tail -n 1 "$said")"
done
small=$in_parts
# on the layer, the second of whose two layers sees all: that is 17 and 18
seen_whole="window=8 sinks=2 head_dim=64 q_heads=2 kv_heads=1 full=2 batch=1"
ring="parallel=context ring=build/cpu/solutions/17.so ring_backward=build/cpu/solutions/18.so"
alike_split() { train/alike.sh cuda 64 "$scratch/layer_whole" "$scratch/$1" 2 >>"$said" 2>&1; }
on_layer $out/on_layer 1 layer_whole $seen_whole && on_layer $out/on_layer 2 layer_split $seen_whole $ring && alike_split layer_split
verdict $? "2 ranks of the layer share each sequence: $(tail -n 1 "$said")"
for wrong in $(names ranks_device moves); do
    ! { on_layer "$out/wrong_ranks/on_layer/$wrong/on_layer" 2 wrong $seen_whole $ring && alike_split wrong; } && grep -q 'cudacpu: ' "$said"
    verdict $? "that is not so of $wrong: $(grep -m 1 cudacpu: "$said" || tail -n 1 "$said")"
done
small=$whole

# Interrupted after four steps, resumed by as many ranks, and by others.
# shellcheck disable=SC2086
resumed() { # RANKS RANKS [WORDS]: these for the first four
    rm -rf "$scratch/parts" && mkdir "$scratch/parts" && cp "$scratch/one/first" "$scratch/parts"
    timeout 600 $out/train $small steps=8 samples=2 checkpoint="$scratch/parts/last" log="$scratch/parts/curve" ranks="$1" until=4 ${3:-} >"$said" 2>&1
    [ $? -eq 1 ] && timeout 600 $out/train $small steps=8 samples=2 checkpoint="$scratch/parts/last" log="$scratch/parts/curve" ranks="$2" >>"$said" 2>&1 &&
        grep -q "after step 4" "$said"
}
resumed 4 4 && cmp "$scratch/4/last" "$scratch/parts/last"
verdict $? "4 steps of 4 ranks and 4 more give the bits of 8"
for others in "4 1" "1 2"; do
    # shellcheck disable=SC2086
    resumed $others && alike parts
    verdict $? "4 steps and 4 more of other ranks, $others: $(tail -n 1 "$said")"
done
small=$in_parts
resumed 4 2 parallel=context && cp "$scratch/one_long/first" "$scratch/parts" && train/alike.sh cpu 256 "$scratch/one_long" "$scratch/parts" >>"$said" 2>&1
verdict $? "4 steps of 4 ranks that share each sequence, and 4 more of 2 with sequences of their own: $(tail -n 1 "$said")"
small=$whole

# What is refused, in one sentence.
refused() { # SENTENCE WORDS...
    sentence=$1
    shift
    # shellcheck disable=SC2086
    timeout 600 $out/train $small "$@" >"$said" 2>&1
    [ $? -eq 2 ] && [ "$(grep -c '^train: ' "$said")" -eq 1 ] && grep -q "$sentence" "$said"
    verdict $? "refused: $sentence"
}
refused "batch is a multiple of 3" ranks=3
refused "ranks=65: a whole number" ranks=65
refused "ranks=x: a whole number" ranks=x
refused "there are data and context" parallel=sequence
refused "context=66: .* a multiple of 4" parallel=context ranks=2 context=66
refused "has 8 tokens, and the next one borrows 9" parallel=context ranks=4 window=8 sinks=2
refused "17 and 18, with which BACKEND=cuda trains" parallel=context ranks=2 window=8 sinks=2 full=2 head_dim=64
head -c 5000 "$scratch/4/last" >"$scratch/short"
refused "is cut short" ranks=4 steps=8 checkpoint="$scratch/short"
export RANK=0 WORLD_SIZE=2
refused "without a GPU ranks are processes of one program" ranks=0
unset RANK WORLD_SIZE

# Ranks that die, and whoever started them.
running() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -cx "[t]ext=$scratch/text"; } # not itself
# It takes as long as it takes, and a minute of sleep at most.
soon() { for _ in $(seq 600); do ! "$@" || return 0; sleep 0.1; done; return 1; }
gone() { soon nobody_runs; }
nobody_runs() { [ "$(running)" -eq 0 ]; }
# shellcheck disable=SC2086
start() {
    $out/train $small ranks=4 steps=1000000 >"$said" 2>&1 &
    started=$!
    soon grep -q '^step  *1/' "$said" &&
        [ "$(cat /proc/$started/task/$started/children | wc -w)" -eq 4 ]
}
start && kill -KILL "$(cut -d' ' -f3 /proc/$started/task/$started/children)"
wait $started
[ $? -eq 137 ] && gone && grep -q '^train: rank 2 died of signal 9, and the others end$' "$said"
verdict $? "a rank that dies ends all, and is named"
start && kill -KILL $started
{ wait $started; } 2>/dev/null
gone
verdict $? "ranks end with whoever started them"
keys="backward=build/cpu/solutions/09_worker forward"
# shellcheck disable=SC2086
timeout 600 $out/train $small ranks=2 steps=3 $keys=$out/wrong_kernels/07_crashes/07_worker >"$said" 2>&1
[ $? -eq 1 ] && gone && grep -q 'step 1: the training ends here. 07 .*the worker died of signal 6' "$said"
verdict $? "a kernel that crashes ends all ranks, with its sentence"
runs=$scratch/runs # build/cpu/train is whoever's who trains meanwhile
steps_are() { cut -f 1 "$runs/solutions/curve.tsv" | paste -sd ' ' | grep -qx "step $1"; }
TRAIN="layers=1 width=32 hidden=32 context=64 length=0 samples=1" RANKS=2 STEPS=5 \
    train/train.sh cpu solutions "$runs" >"$said" 2>&1 && grep -q '2 ranks$' "$said" && grep -q ^PASS "$said" &&
    steps_are "1 2 3 4 5"
verdict $? "make train RANKS=2 IMPL=solutions: every gradient is right"
TRAIN="layers=1 width=32 hidden=32 context=160 length=20 samples=1" RANKS=2 PARALLEL=context STEPS=5 \
    train/train.sh cpu solutions "$runs" >"$said" 2>&1 && grep -q '2 ranks, which share each sequence$' "$said" &&
    grep -q ^PASS "$said" && steps_are "1 2 3 4 5"
verdict $? "make train RANKS=2 PARALLEL=context IMPL=solutions: the same"
exit $failed
