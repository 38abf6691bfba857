#!/bin/sh
# train.sh - make train (train/): gradients of all layers, and layers that the check must reject; a short run with the
# answer keys; runs that are interrupted, with checkpoints that are no good; kernels that die, hang or give NaN; two
# wrong ones whose gradient must be named. Exit status: 0, or 1 and what failed.
set -u
cd "$(dirname "$0")/.." || exit 1
out=build/cpu/train failed=0
export OPENBLAS_NUM_THREADS=1 MAKE="${MAKE:-make}"
unset STEPS SEED TEXT WRONG RESUME TRAIN RANKS PARALLEL WB_SEED
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log runs=$scratch/runs # build/cpu/train is whoever's who trains meanwhile
ok() { # WHAT STATUS
    if [ "$2" -eq 0 ]; then echo "ok    $1"; else
        echo "FAIL  $1"
        sed 's/^/      /' "$log"
        failed=1
    fi
}
builds() { $MAKE --no-print-directory -j"${WB_JOBS:-2}" WERROR=1 "$@" >"$log" 2>&1; }
builds BACKEND=cpu train-test || { ok "train compiles" 1; exit 1; }

"$out/check" >"$log" 2>&1
ok "gradients of all layers and of the model agree with finite differences" $?
for name in $(awk -v list=tests/train/layers.diff -v tell=names -f workbook/loop/edit.awk); do
    "$out/wrong_layers/$name/check" >"$log" 2>&1
    [ $? -eq 1 ] && grep -q '^WRONG' "$log"
    ok "the check rejects $name" $?
done

# Short runs, as anybody would start them. What they say of gradients is a table: problem, layer, gradient, error,
# bound.
right='NR > 1 && !($4 <= $5) { bad = 1 } END { exit bad || NR != 17 }'
narrow="width=32 hidden=32 context=64" # learns as well, and takes little time
STEPS=50 TRAIN="$narrow length=40 samples=2" train/train.sh cpu solutions "$runs" >"$log" 2>&1 &&
    awk -F'\t' "$right" "$runs/solutions/compare.tsv" &&
    awk -F'\t' '$1 == "solutions" { if (!n++) first = $4; last = $4 } END { exit !(n == 50 && last < first - 1) }' \
        "$runs/solutions/train.tsv"
ok "make train IMPL=solutions STEPS=50: the loss falls, every gradient is right" $?
STEPS=50 TRAIN="$narrow length=40 samples=2" train/train.sh cpu solutions "$runs" >"$log" 2>"$scratch/errors" &
run=$!
# The program, once it has kernels, is ended as the clock of a GPU's ends it (attention_device.c).
while kill -0 $run 2>/dev/null; do
    for child in $(cat /proc/$run/task/$run/children 2>/dev/null); do
        ! tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null | grep -q '/train text.* forward' || kill -ALRM "$child"
    done
    sleep 0.1
done
wait $run
[ $? -eq 1 ] && grep -q '^The training ends here: no step in 20 s' "$log" && cat "$scratch/errors" >>"$log" &&
    ! grep -qi 'alarm' "$scratch/errors"
ok "a training that the clock ends says so, and the shell says nothing" $?
# a class's copy has no keys
mkdir "$scratch/class" && ln -s "$PWD/problems" "$PWD/workbook" "$PWD/train" "$scratch/class"
(cd "$scratch/class" && train/train.sh cpu problems) >"$log" 2>&1
[ $? -eq 2 ] && grep -q 'IMPL=naive trains without kernels$' "$log"
ok "skeletons are not trained with, and no answer keys are advised where there are none" $?
named() { # WRONG WHICH WHAT: of the last layer, the gradients that are off
    WRONG=$1 STEPS=20 TRAIN="$narrow length=0 samples=1" train/train.sh cpu solutions "$runs" >"$log" 2>&1
    [ $? -eq 1 ] && awk -F'\t' '$2 == 1 && !($4 <= $5) { off = off $1 $3 } END { print off }' \
        "$runs/wrong/$(echo "$1" | tr / _)/compare.tsv" | grep -qx "$2" && grep -q "^FAIL .*$3" "$log"
    ok "make train WRONG=$1 fails, and names its gradient" $?
}
named no_scale_in_dK 09dWk 'With 09, dWk of layer 1 is off .*: look at dK[.]'
named 07/no_sinks '.*07dWo' 'With 07, dWo of layer 1 is off .*look at O'
for list in train/wrong/*.diff; do
    number=$(basename "$list" .diff)
    for name in $(awk -v list="$list" -v tell=names -f workbook/loop/edit.awk); do
        awk -v list="$list" -v entry="$name" -f workbook/loop/edit.awk solutions/"$number"/*.cu 2>&1 >/dev/null >"$log"
        ok "$name of $list fits the key" $?
    done
done

# Small models, by the program itself.
cat problems/[0-9][0-9]/README.md >"$scratch/text"
keys="forward=build/cpu/solutions/07_worker backward=build/cpu/solutions/09_worker"
# shellcheck disable=SC2086
small() { "$out/train" "text=$scratch/text" layers=2 $narrow steps=20 samples=2 length=10 "$@" >"$log" 2>&1; }
same() { cmp "$scratch/whole" "$scratch/parts" >>"$log"; }
# shellcheck disable=SC2086
small "checkpoint=$scratch/coarse" rate=3e-1 $keys && grep -q '^But on these weights rounding alone may move' "$log"
ok "where bounds say little, that is said" $?
# shellcheck disable=SC2086
small $keys checkpoint="$scratch/whole" && ! small $keys checkpoint="$scratch/parts" until=10 && ! same &&
    cp "$scratch/parts" "$scratch/half" && small $keys checkpoint="$scratch/parts" && same
ok "10 steps and 10 more from the checkpoint give the same bits as 20" $?
go() { STEPS=40 train/train.sh cpu naive "$runs" >>"$log" 2>&1; }
: >"$log"
! TRAIN="$narrow length=0 samples=4 until=27" go && TRAIN="$narrow length=0 samples=4" RESUME=1 go &&
    awk 'NR > 1 { if ($1 != NR - 1 || $2 < last) bad = 1; last = $2 } END { exit bad || NR != 41 }' \
        "$runs/naive/curve.tsv"
ok "RESUME=1 goes on with the curve, each step once, and its seconds" $?
refused() { # WHAT SENTENCE ARGUMENTS...: a checkpoint, which stays as it was
    what=$1 sentence=$2
    shift 2
    cp "$scratch/bad" "$scratch/kept"
    (ulimit -t 600 && small checkpoint="$scratch/bad" "$@") # an endless loop is a failure
    [ $? -eq 2 ] && grep -q "^train: .*$sentence" "$log" && cmp -s "$scratch/bad" "$scratch/kept"
    ok "a checkpoint $what is refused" $?
}
cp "$scratch/half" "$scratch/bad"
refused "of another model" "width=32 there, width=48 here" width=48
refused "of another seed" "seed=1 there, seed=2 here" seed=2
tail -c 50000 "$scratch/text" >"$scratch/other"
refused "of another text" "text=.* there, text=.* here" "text=$scratch/other"
printf 'X' | dd of="$scratch/bad" bs=1 seek=5000 conv=notrunc 2>/dev/null
refused "with a byte that changed" "is damaged"
head -c 5000 "$scratch/half" >"$scratch/bad"
refused "that is cut short" "is cut short"
head -n 1 "$scratch/half" | tr -d '\n' >"$scratch/bad"
refused "that ends after its recipe" "is cut short"
head -n 1 "$scratch/half" | sed "s/ seed=1 / seed=$(printf '\033')[2J /" >"$scratch/bad"
refused "with a word that a terminal would obey" 'seed=?\[2J there'
echo "nothing of the kind" >"$scratch/bad"
refused "that is none" "is no checkpoint"
small checkpoint="$scratch/no/such/folder"
[ $? -eq 2 ] && grep -q '^train: the checkpoint .* cannot be written' "$log"
ok "a checkpoint that cannot be written is said so" $?

# Kernels that fail.
fails() { # NAME SENTENCE
    number=${1%%_*} worker=$out/wrong_kernels/$1/${1%%_*}_worker
    [ -n "${1#??_is_missing}" ] || worker=$scratch/no_worker
    forward=build/cpu/solutions/07_worker backward=build/cpu/solutions/09_worker
    if [ "$number" = 07 ]; then forward=$worker; else backward=$worker; fi
    WB_TIMEOUT=1 small forward="$forward" backward="$backward"
    [ $? -eq 1 ] && grep -q "the training ends here.*$2" "$log"
    ok "a kernel: $1" $?
}
fails 07_crashes "07 .*the worker died of signal 6"
fails 07_hangs "07 .*no answer in 1 s, in the function"
fails 07_is_nan "O of 07 is NaN or infinite in 8192 of 8192 numbers"
fails 09_refuses "09 .*unsupported: not today"
fails 07_is_missing "07 .*before it called the function"

# What is not there.
said() { # STATUS SENTENCE WHAT
    [ "$1" -eq 2 ] && grep -q "^train: .*$2" "$log"
    ok "$3" $?
}
skeleton=problems/07/flash_sinks.cu
if grep -qxF "$(sha256sum <$skeleton | cut -d' ' -f1)  $skeleton" workbook/loop/shipped.sha256; then
    train/train.sh cpu problems "$runs" >"$log" 2>&1
    said $? "flash_sinks.cu is as it was shipped" "an untouched skeleton is not trained with"
fi
for wrong in nothing_of_the_kind '../../x' 'a b' sinks_not_causal; do
    WRONG=$wrong train/train.sh cpu solutions "$runs" >"$log" 2>&1
    said $? "WRONG=$wrong" "WRONG=$wrong is refused"
done
"$out/train" "text=$scratch/text" kv_heads=3 >"$log" 2>&1
said $? "kv_heads divides q_heads" "a model that cannot be is refused"
"$out/train" text=/dev/null >"$log" 2>&1
said $? "is too short" "a text that is too short is refused"
"$out/train" "text=$scratch/text" steps=ten >"$log" 2>&1
said $? "steps=ten: a whole number" "an option that is no number is refused"

is_in() { [ "$(wc -l <"$scratch/table")" -gt "$2" ] && ! grep -vxFf "$1" "$scratch/table" >"$log"; } # TEXT LINES
train/lesson.sh plots/data/h200/train_wrong.tsv >"$scratch/table" && is_in problems/capstone/README.md 20
ok "the lesson's table is what plots/data has" $?

for table in plots/data/*/train_context.tsv; do
    [ -f "$table" ] || continue # not recorded
    train/context.sh "$table" >"$scratch/table" && is_in train/README.md 2
    ok "the table of long sequences is what $table has" $?
done

# The layers of a GPU, there or on the CPU layer, against the host's, and against wrong ones.
gpu=build/${BACKEND:-cpu}/train
builds BACKEND="${BACKEND:-cpu}" train-layers || { ok "the GPU's layers compile" 1; exit 1; }
"$gpu/layers_host" write "$scratch/layers" && "$gpu/layers_device" compare "$scratch/layers" >"$log" 2>&1
ok "the GPU's layers agree with the host's" $?
for host in "$gpu"/wrong_layers/*/layers_host; do
    "$host" write "$scratch/layers" && "$gpu/layers_device" compare "$scratch/layers" >"$log" 2>&1
    [ $? -eq 1 ] && grep -q '^WRONG' "$log"
    ok "they do not agree with $(basename "${host%/*}")" $?
done
exit $failed
