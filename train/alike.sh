#!/bin/sh
# alike.sh BACKEND TOKENS ONE MANY [LAYERS] - is a run of several ranks, in the folder MANY, that of one rank, in ONE?
# Each folder has `first`, the checkpoint of a run of one step of so many tokens, and `curve`, the log of one of some
# 20 steps. Exit status 1 if they differ by more than rounding.
#
# Gradients are a tenth of the first step's first moment. Each is a sum over n tokens, of the same terms, in another
# order. A sum of n numbers in float32 is off by u sqrt(n / 2) of its size, u = 2^-24, be they of one sign or of any:
# roundings are a random walk, of the size of the sums so far (Higham 2002, chapter 4). Two orders are apart by u
# sqrt(n), and four times that is allowed. On a GPU numbers are rounded to bf16 on their way: what is off by e falls
# on the other side of one rounding in 2^-8 / e, and is then off by 2^-8: as a root mean square by sqrt(2^-8 e).
#
# Where LAYERS layers have split sequences, a GPU rounds what each rank finds of a number, and then their sum, where
# one rank rounds once. If what they find is independent, their roundings together are as one, so these, the sum's and
# the one rank's make sqrt(3) of one. A rounding to bf16 is off by 0.735 2^-8 / sqrt(3) (layers_test.c). It is so of
# the sinks, which may have most of a layer's gradient, of O in 17, and nowhere of more than all.
#
# Losses: AdamW moves each weight by about the rate, whatever the size of its gradient g, and by at most 2 rate |d /
# g| otherwise if that is off by d. What the loss makes of it is g times as much, 2 rate |d|, where the step itself
# lowers it by about rate |g|. So losses are apart by 2 |d| / |g| of what all steps might lower them, which is less
# than the first of them; and by 0.00001, as they are written with five digits.
set -eu
backend=$1 tokens=$2 one=$3 many=$4 layers=${5:-0}
moments() { # CHECKPOINT: a line of text, then parameters and two moments in float32, then eight bytes
    line=$(head -n 1 "$1" | wc -c) bytes=$(wc -c <"$1")
    count=$(((bytes - line - 8) / 12))
    tail -c +$((line + 4 * count + 1)) "$1" | head -c $((4 * count)) | od -An -v -t f4 -w4
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
moments "$one/first" >"$scratch/one"
moments "$many/first" >"$scratch/many"
cp "$many/curve" "$scratch/curve" # it may be the same file
paste "$scratch/one" "$scratch/many" | awk -v gpu="$([ "$backend" = cpu ] || echo 1)" -v n="$tokens" \
    -v layers="$layers" -v one="$one/curve" -v many="$scratch/curve" '
    NF != 2 { bad = 1 }
    { size += $1 * $1; off += ($2 - $1) ^ 2 }
    END {
        may = 2 ^ -24 * sqrt(n)
        if (gpu) may = sqrt(2 ^ -8 * may)
        may *= 4
        if (gpu) may += sqrt(layers) * 0.735 * 2 ^ -8
        off = size > 0 ? sqrt(off / size) : 1
        while ((getline <one) > 0) {
            step = $1; loss = $3
            if ((getline <many) <= 0 || $1 != step) bad = 1
            if (step == "step") continue
            if (!steps++) first = loss
            if (!((apart = $3 > loss ? $3 - loss : loss - $3) <= worst)) worst = apart
        }
        if ((getline <many) > 0 || steps < 3) bad = 1
        losses = 1e-5 + 2 * may * first
        printf "relative error of gradients %.1e (limit %.1e), ", off, may
        printf "of losses over %d steps %.5f (limit %.5f)\n", steps, worst, losses
        exit bad || !(off <= may) || !(worst <= losses)
    }'
