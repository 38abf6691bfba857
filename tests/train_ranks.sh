#!/bin/sh
# train_ranks.sh - make train RANKS=n, on this machine's CPU: several ranks train as one does, to the rounding of sums
# in another order, and ranks that do not are noticed by the same comparison (train/alike.sh); the same bits twice;
# checkpoints of other numbers of ranks; no rank is left behind.
set -u
. tests/prove/frame.sh
out=build/cpu/train
export OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive
unset STEPS SEED TEXT WRONG RESUME TRAIN RANKS PARALLEL
cat problems/0[1-9]/README.md | head -c 20480 >"$scratch/text" # little is held out, so that it takes little time
check "train, and ranks that train otherwise, compile" made BACKEND=cpu WERROR=1 train-ranks build/cpu/wb \
    build/cpu/solutions/07_worker build/cpu/solutions/09_worker $out/wrong_kernels/crashes/07_worker
[ $failed -eq 0 ] || exit 1

# The models: a layer's gradients do not fit the board of ranks_host.c at once. `shape` is the one that is trained.
text="text=$scratch/text layers=2 width=32 context=64 length=0"
short="$text hidden=128 batch=4"
long="$text hidden=128 context=128 window=8 sinks=2 batch=2"
shape=$short
go() { # PROGRAM WORDS...
    program=$1
    shift
    # shellcheck disable=SC2086
    build/cpu/wb within 600 "$program" $shape "$@" >>"$said" 2>&1
}
trains() { # PROGRAM RANKS FOLDER WORDS...: one step, and eight
    program=$1 ranks=$2 folder=$scratch/$3
    shift 3
    rm -rf "$folder" && mkdir "$folder" && : >"$said"
    go "$program" ranks="$ranks" steps=1 checkpoint="$folder/first" "$@" &&
        go "$program" ranks="$ranks" steps=8 samples=2 checkpoint="$folder/last" log="$folder/curve" "$@"
}
# TOKENS ONE MANY [LAYERS]: folders
alike() { train/alike.sh "${backend:-cpu}" "$1" "$scratch/$2" "$scratch/$3" ${4:+"$4"} >>"$said" 2>&1; }
last() { tail -n 1 "$said"; }
names() { # SOURCE: entries, and what else is known of them
    awk -v list=tests/train/wrong.diff -v tell=known -f workbook/loop/edit.awk |
        awk -v source="$1" '$2 == source { print $1, $3 }'
}

trains $out/train 1 one
verdict $? "one rank trains"
for ranks in 2 4; do
    trains $out/train $ranks $ranks && alike 256 one $ranks
    verdict $? "$ranks ranks: $(last)"
done
trains $out/train 4 again && cmp "$scratch/4/last" "$scratch/again/last" &&
    cmp "$scratch/4/first" "$scratch/again/first"
verdict $? "4 ranks are bitwise reproducible"
for edited in ranks_host model train; do
    for wrong in $(names $edited); do
        ! { trains "$out/wrong_ranks/$edited/$wrong/train" 4 wrong && alike 256 one wrong; } &&
            grep -q '^train: the weights of rank\|^relative error of gradients' "$said"
        verdict $? "wrong ranks are detected, $wrong: $(last)"
    done
done

# Each sequence over all ranks: chunks of 16 tokens, of which the next one borrows 7 and the 2 sinks; and chunks that
# have just enough.
shape=$long
trains $out/train 1 one_long
verdict $? "one rank trains with longer sequences"
for ranks in 1 2 4; do
    trains $out/train $ranks context_$ranks parallel=context && alike 256 one_long context_$ranks
    verdict $? "$ranks ranks split each sequence: $(last)"
done
for wrong in $(names context); do
    ! { trains "$out/wrong_ranks/context/$wrong/train" 4 wrong parallel=context && alike 256 one_long wrong; } &&
        grep -q '^relative error of gradients' "$said"
    verdict $? "wrong ranks are detected, $wrong: $(last)"
done
shape="$long context=36 window=1 sinks=9"
trains $out/train 1 whole && trains $out/train 2 split parallel=context && alike 72 whole split
verdict $? "2 ranks share sequences of 36 tokens, with more sinks than a chunk's borrowed keys: $(last)"

# What runs on GPUs, on the CPU layer, which knows what may meet a message that nothing orders.
backend=cuda
on_layer() { # PROGRAM RANKS FOLDER WORDS...
    program=$1 ranks=$2 folder=$scratch/$3
    shift 3
    rm -rf "$folder" && mkdir "$folder" && : >"$said"
    go "$program" ranks="$ranks" samples=1 steps=1 checkpoint="$folder/first" "$@" &&
        go "$program" ranks="$ranks" samples=1 steps=3 log="$folder/curve" "$@"
}
wrong_on_layer() { names ranks_device | awk -v moves="$1" '($2 == "moves") == moves { print $1 }'; }
not_so() { verdict $? "wrong ranks are detected, $1: $(grep -m 1 cudacpu: "$said" || last)"; }
shape="$text hidden=32 batch=2"
on_layer $out/on_layer 1 layer_1 && on_layer $out/on_layer 2 layer_2 && alike 128 layer_1 layer_2
verdict $? "2 ranks of the layer: $(last)"
for wrong in $(wrong_on_layer 0); do
    ! { on_layer "$out/wrong_ranks/ranks_device/$wrong/on_layer" 2 wrong && alike 128 layer_1 wrong; } &&
        grep -q 'cudacpu: \|^relative error of gradients' "$said"
    not_so "$wrong"
done
# The second of two layers sees all: that is 17 and 18.
shape="$text hidden=32 batch=1 window=8 sinks=2 head_dim=64 q_heads=2 kv_heads=1 full=2"
ring="ring=build/cpu/solutions/17.so ring_backward=build/cpu/solutions/18.so"
# shellcheck disable=SC2086
split() { on_layer "$1" 2 "$2" parallel=context $ring && alike 64 layer_whole "$2" 2; } # PROGRAM FOLDER
on_layer $out/on_layer 1 layer_whole && split $out/on_layer layer_split
verdict $? "2 ranks of the layer split each sequence: $(last)"
for wrong in $(wrong_on_layer 1); do
    ! split "$out/wrong_ranks/ranks_device/$wrong/on_layer" wrong && grep -q 'cudacpu: ' "$said"
    not_so "$wrong"
done
backend=cpu

# Interrupted after four steps, resumed by as many ranks, and by others.
resumed() { # RANKS RANKS ONE [WORDS]: these for the first four; ONE has the first step
    folder=$scratch/parts first=$1 then=$2 one=$3
    shift 3
    rm -rf "$folder" && mkdir "$folder" && cp "$scratch/$one/first" "$folder" && : >"$said"
    set -- steps=8 samples=2 checkpoint="$folder/last" log="$folder/curve" "$@"
    ! go $out/train ranks="$first" until=4 "$@" && go $out/train "$@" ranks="$then" parallel=data &&
        grep -q "after step 4" "$said"
}
shape=$short
resumed 4 4 one && cmp "$scratch/4/last" "$scratch/parts/last"
verdict $? "4 steps of 4 ranks and 4 more are bitwise identical to 8"
shape=$long
resumed 4 2 one_long parallel=context && alike 256 one_long parts
verdict $? "4 steps of 4 ranks that share each sequence, and 4 more of 2 with sequences of their own: $(last)"

# What is refused, in one sentence.
shape=$short
refused() { # SENTENCE WORDS...
    sentence=$1
    shift
    : >"$said"
    go $out/train "$@"
    [ $? -eq 2 ] && [ "$(grep -c '^train: ' "$said")" -eq 1 ] && grep -q "$sentence" "$said"
    verdict $? "refused: $sentence"
}
refused "batch must be a multiple of 3" ranks=3
refused "context=66: .* a multiple of 4" parallel=context ranks=2 context=66
refused "has 8 tokens, but the next one borrows 9" parallel=context ranks=4 window=8 sinks=2
refused "need problems 17 and 18, so BACKEND=cuda" parallel=context ranks=2 window=8 sinks=2 full=2 head_dim=64

# Ranks that die, and whoever started them. It takes as long as it takes, and ten minutes of sleep at most.
soon() { for _ in $(seq 6000); do ! "$@" || return 0; sleep 0.1; done; return 1; }
nobody_runs() { ! cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -qx "[t]ext=$scratch/text"; } # not itself
start() {
    # shellcheck disable=SC2086
    $out/train $shape ranks=4 steps=1000000 >"$said" 2>&1 &
    started=$!
    soon grep -q '^step  *1/' "$said" && [ "$(cat /proc/$started/task/$started/children | wc -w)" -eq 4 ]
}
start && kill -KILL "$(cut -d' ' -f3 /proc/$started/task/$started/children)"
wait $started
[ $? -eq 137 ] && soon nobody_runs && grep -q '^train: rank 2 died of signal 9; the other ranks end$' "$said"
verdict $? "a rank that dies ends all, and is named"
start && kill -KILL $started
{ wait $started; } 2>/dev/null
soon nobody_runs
verdict $? "ranks end with whoever started them"
: >"$said"
go $out/train ranks=2 steps=3 backward=build/cpu/solutions/09_worker forward=$out/wrong_kernels/crashes/07_worker
[ $? -eq 1 ] && soon nobody_runs && grep -q 'step 1: the training ends here. 07 .*the worker died of signal 6' "$said"
verdict $? "a kernel that crashes ends all ranks, with its message"

# As anybody starts it, in a folder of this script: others train in build/cpu/train meanwhile.
made() { # WHAT WORDS...
    what=$1
    shift
    TRAIN="layers=1 width=32 hidden=32 samples=1 $*" RANKS=2 STEPS=5 train/train.sh cpu solutions "$scratch/runs" \
        >"$said" 2>&1 && grep -q "$what\$" "$said" && grep -q ^PASS "$said" &&
        [ "$(cut -f 1 "$scratch/runs/solutions/curve.tsv" | paste -sd ' ')" = "step 1 2 3 4 5" ]
}
PARALLEL=context made '2 ranks, which split each sequence' context=160 length=20
verdict $? "make train RANKS=2 PARALLEL=context IMPL=solutions: the same"
exit $failed
