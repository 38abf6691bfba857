#!/bin/sh
# train.sh - make train (train/): gradients of all layers, and layers that the check must reject; a short run with the
# reference solutions; runs that are interrupted, with checkpoints that are no good; kernels that die or give NaN;
# two wrong ones whose gradient must be named. Exit status: 0, or 1 and what failed.
set -u
. tests/prove/frame.sh
out=build/cpu/train
export OPENBLAS_NUM_THREADS=1
unset STEPS SEED TEXT WRONG RESUME TRAIN RANKS PARALLEL
runs=$scratch/runs # build/cpu/train is whoever's who trains meanwhile
made WERROR=1 BACKEND=cpu train-test || { verdict 1 "train compiles"; exit 1; }

"$out/check" >"$said" 2>&1
verdict $? "gradients of all layers and of the model agree with finite differences"
for name in $(awk -v list=tests/train/wrong.diff -v tell=known -f workbook/loop/edit.awk |
    sed -n 's/ layers$//p'); do
    "$out/wrong_layers/$name/check" >"$said" 2>&1
    [ $? -eq 1 ] && grep -q '^WRONG' "$said"
    verdict $? "the check rejects $name"
done

# Short runs, as anybody would start them. What they say of gradients is a table: problem, layer, gradient, error,
# bound. How far the loss falls is the text's matter, which these pages are; with kernels it falls as without.
right='NR > 1 && !($4 <= $5) { bad = 1 } END { exit bad || NR != 17 }'
narrow="width=32 hidden=32 context=64" # learns as well, and takes little time
STEPS=50 TRAIN="$narrow length=40 samples=2" train/train.sh cpu solutions "$runs" >"$said" 2>&1 &&
    awk -F'\t' "$right" "$runs/solutions/compare.tsv" &&
    awk -F'\t' '{ if (!n[$1]++) first[$1] = $4; last[$1] = $4 }
        END { d = last["solutions"] - last["naive"]; exit !(n["solutions"] == 50 && n["naive"] == 50 &&
            last["naive"] < first["naive"] - 0.5 && d < 0.02 && d > -0.02) }' "$runs/solutions/train.tsv"
verdict $? "make train IMPL=solutions STEPS=50: the loss falls as with naive attention, every gradient is right"
# a class's copy has no keys
mkdir "$scratch/class" && ln -s "$PWD/problems" "$PWD/workbook" "$PWD/train" "$scratch/class"
(cd "$scratch/class" && train/train.sh cpu problems) >"$said" 2>&1
[ $? -eq 2 ] && grep -q 'IMPL=naive trains without kernels$' "$said"
verdict $? "skeletons are not trained with, and reference solutions are suggested only if they exist"
named() { # WRONG WHICH WHAT: of the last layer, the gradients that are off
    WRONG=$1 STEPS=20 TRAIN="$narrow length=0 samples=1" train/train.sh cpu solutions "$runs" >"$said" 2>&1
    [ $? -eq 1 ] && awk -F'\t' '$2 == 1 && !($4 <= $5) { off = off $1 $3 } END { print off }' \
        "$runs/wrong/$(echo "$1" | tr / _)/compare.tsv" | grep -qx "$2" && grep -q "^FAIL .*$3" "$said"
    verdict $? "make train WRONG=$1 fails, and names its gradient"
}
named no_scale_in_dK 09dWk 'With 09, dWk of layer 1 has a relative error of .*: look at dK[.]'
named 07/no_sinks '.*07dWo' 'With 07, dWo of layer 1 has a relative error of .*look at O'
for list in train/wrong/*.diff; do
    number=$(basename "$list" .diff)
    for name in $(awk -v list="$list" -v tell=names -f workbook/loop/edit.awk); do
        awk -v list="$list" -v entry="$name" -f workbook/loop/edit.awk solutions/"$number"/*.cu 2>&1 >/dev/null >"$said"
        verdict $? "$name of $list applies to the reference solution"
    done
done

# Small models, by the program itself.
cat problems/[0-9][0-9]/README.md >"$scratch/text"
keys="forward=build/cpu/solutions/07_worker backward=build/cpu/solutions/09_worker"
# shellcheck disable=SC2086
small() { "$out/train" "text=$scratch/text" layers=2 $narrow steps=20 samples=2 length=10 "$@" >"$said" 2>&1; }
same() { cmp "$scratch/whole" "$scratch/parts" >>"$said"; }
# shellcheck disable=SC2086
small $keys checkpoint="$scratch/whole" && ! small $keys checkpoint="$scratch/parts" until=10 && ! same &&
    cp "$scratch/parts" "$scratch/half" && small $keys checkpoint="$scratch/parts" && same
verdict $? "10 steps and 10 more from the checkpoint are bitwise identical to 20"
go() { STEPS=40 train/train.sh cpu naive "$runs" >>"$said" 2>&1; }
: >"$said"
! TRAIN="$narrow length=0 samples=4 until=27" go && TRAIN="$narrow length=0 samples=4" RESUME=1 go &&
    awk 'NR > 1 { if ($1 != NR - 1 || $2 < last) bad = 1; last = $2 } END { exit bad || NR != 41 }' \
        "$runs/naive/curve.tsv"
verdict $? "RESUME=1 goes on with the curve, each step once, and its seconds"
refused() { # WHAT SENTENCE ARGUMENTS...: a checkpoint, which stays as it was
    what=$1 sentence=$2
    shift 2
    cp "$scratch/bad" "$scratch/kept"
    (ulimit -t 600 && small checkpoint="$scratch/bad" "$@") # an endless loop is a failure
    [ $? -eq 2 ] && grep -q "^train: .*$sentence" "$said" && cmp -s "$scratch/bad" "$scratch/kept"
    verdict $? "a checkpoint $what is refused"
}
cp "$scratch/half" "$scratch/bad"
refused "of another model" "width=32 there, width=48 here" width=48
printf 'X' | dd of="$scratch/bad" bs=1 seek=5000 conv=notrunc 2>/dev/null
refused "with a byte that changed" "is damaged"
head -n 1 "$scratch/half" | sed "s/ seed=1 / seed=$(printf '\033')[2J /" >"$scratch/bad"
refused "with a word that a terminal would obey" 'seed=?\[2J there'
small checkpoint="$scratch/no/such/folder"
[ $? -eq 2 ] && grep -q '^train: the checkpoint .* cannot be written' "$said"
verdict $? "a checkpoint that cannot be written is reported"

# Kernels that fail.
fails() { # WORKER-OF-07 SENTENCE
    small forward="$1" backward=build/cpu/solutions/09_worker
    [ $? -eq 1 ] && grep -q "the training ends here.*$2" "$said"
    verdict $? "a kernel that fails: $2"
}
fails $out/wrong_kernels/crashes/07_worker "07 .*the worker died of signal 6"
fails $out/wrong_kernels/is_nan/07_worker "O of 07 is NaN or infinite in 8192 of 8192 numbers"
fails "$scratch/no_worker" "07 .*before it called the function"

# What is not there.
missing() { # STATUS SENTENCE WHAT
    [ "$1" -eq 2 ] && grep -q "^train: .*$2" "$said"
    verdict $? "$3"
}
skeleton=problems/07/flash_sinks.cu
if grep -qxF "$(sha256sum <$skeleton | cut -d' ' -f1)  $skeleton" workbook/loop/shipped.sha256; then
    train/train.sh cpu problems "$runs" >"$said" 2>&1
    missing $? "flash_sinks.cu is as shipped" "an untouched skeleton is not trained with"
fi
for wrong in nothing_of_the_kind '../../x'; do
    WRONG=$wrong train/train.sh cpu solutions "$runs" >"$said" 2>&1
    missing $? "WRONG=$wrong" "WRONG=$wrong is refused"
done

is_in() { [ "$(wc -l <"$scratch/table")" -gt "$2" ] && ! grep -vxFf "$1" "$scratch/table" >"$said"; } # TEXT LINES
train/tables.sh plots/data/h200/train_wrong.tsv >"$scratch/table" && is_in problems/capstone/README.md 20
verdict $? "the lesson's table agrees with plots/data"

# Which kernel is wrong: three recorded runs. Of all answers one is right, and it fits the gradients that are off.
answers=$(train/which.sh | sed -n '/^A number is/,/^Which kernel/s/^  \([A-Za-z_0-9]*\): .*/\1/p')
for letter in A B C; do
    right=
    for which in 07 09 both; do
        for name in $answers; do
            SAY="$letter $which $name" train/which.sh >>"$said" 2>&1 && right="$right$which $name "
        done
    done
    off=$(awk -F'\t' -v run=$letter '$1 == run && $6 != "-" && !($9 <= $10) && !seen[$6]++ { printf "%s", $6 }' \
        plots/data/cpu/which.tsv)
    [ "$(echo "$right" | wc -w)" -eq 2 ] && [ "$off" = "$(echo "${right%% *}" | sed 's/both/0709/')" ]
    verdict $? "make which: one answer of all is right of $letter, and fits its gradients: $right"
done
for table in plots/data/*/train_context.tsv; do
    [ -f "$table" ] || continue # not recorded
    train/tables.sh "$table" >"$scratch/table" && is_in train/README.md 2
    verdict $? "the table of long sequences agrees with $table"
done

# The layers of a GPU, there or on the CPU layer, against the host's, and against wrong ones.
gpu=build/${BACKEND:-cpu}/train
made WERROR=1 train-layers || { verdict 1 "the GPU's layers compile"; exit 1; }
"$gpu/layers_host" write "$scratch/layers" && "$gpu/layers_device" compare "$scratch/layers" >"$said" 2>&1
verdict $? "the GPU's layers agree with the host's"
for host in "$gpu"/wrong_layers/*/layers_host; do
    "$host" write "$scratch/layers" && "$gpu/layers_device" compare "$scratch/layers" >"$said" 2>&1
    [ $? -eq 1 ] && grep -q '^WRONG' "$said"
    verdict $? "they do not agree with $(basename "${host%/*}")"
done
exit $failed
