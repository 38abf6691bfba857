#!/bin/sh
# duel.sh - what reference/duel.py draws, and what plots/duel.awk makes of a table; none wants a GPU. A seed gives the
# same shapes each time and another one others, of each family; a right backward is right and a wrong one WRONG
# (duel_measure.py); a sum of a table made by hand is right, and a result that was wrong, or a kernel that failed, is
# named and fails.
set -u
. tests/prove/frame.sh
draw() { SEED=$1 "${PYTHON:-python3}" reference/duel.py --draw "$2"; }

if ! command -v "${PYTHON:-python3}" >/dev/null; then
    echo "not run: the random shapes, there is no python3"
else
    draw 1 3000 >"$scratch/1"
    draw 1 3000 >"$scratch/again"
    draw 2 3000 >"$scratch/2"
    check "3000 shapes are drawn" [ "$(wc -l <"$scratch/1")" -eq 3001 ]
    check "a seed gives the same shapes" cmp -s "$scratch/1" "$scratch/again"
    check "another seed gives others" [ "$(sort "$scratch/1" "$scratch/2" | uniq -d | wc -l)" -lt 30 ]
    check "seven families come up" [ "$(sed 1d "$scratch/1" | cut -f 1 | sort -u | wc -l)" -eq 7 ]
    "${PYTHON:-python3}" tests/duel_measure.py >"$said" 2>&1
    status=$?
    if [ $status -eq 77 ]; then
        echo "not run: the detection of WRONG results, there is no PyTorch"
    else
        verdict $status "wrong backward passes are called WRONG, and no others"
    fi
fi

# kind ours best-peer's-time: ten forwards, ratios 0.5, 0.6, ... 1.4, not in order; a backward without a peer; of two
# choices one is wrong.
row() {
    printf '%s\t1\t2\t2\t64\t64\t64\tcausal\t-\t-\t-\t-\t1\t' "$1"
    shift
    printf '%s\t%s\t%s\t-\t-\t-\t%s\t%s\t%s\t0.002\t%s\t%s\n' "$@"
}
{
    echo '# gpu: any'
    printf 'kind B Hq Hkv Nq Nk D mask W S page lens gflop %s\n' \
        'ours fa4 cudnn fa2 flex flashinfer best ratio kernel error verdict all' | tr ' ' '\t'
    for ratio in 1.4 0.7 0.9 1.1 0.5 1.3 0.8 1.0 1.2 0.6; do
        row forward 1 $ratio 9 fa4 $ratio 10/flash_hopper ok 10/flash_hopper:1,03/flash_forward:2
    done
    row backward 2 - - - - 08/variants/hopper ok 08/variants/hopper:2,08/flash_gqa_backward:1.9
    row same_bits 2 - 3 cudnn 1.5 08/variants/hopper ok 08/variants/hopper:2,08/flash_gqa_backward:1.99
} >"$scratch/table"
awk -f plots/duel.awk -v worst=2 "$scratch/table" >"$scratch/said"
check "a sound table passes" [ $? -eq 0 ]
has() { grep -qx "$1" "$scratch/said"; }
check "wins, median, 10th percentile and minimum of a kind" has '| forward | 10 | 40 % | 1.000 | 0.60 | 0.50 |'
check "a shape with one other library" has '| backward, deterministic | 1 | 100 % | 1.500 | 1.50 | 1.50 |'
check "shapes without another library are not counted" sh -c "! grep -q '^| backward |' '$scratch/said'"
worst=$(sed -n 's/ forward B1 2\/2 N64 D64 causal: 1, fa4 .*//p' "$scratch/said" | tr '\n' ' ')
check "the worst, in order" [ "$worst" = "0.500 0.600 " ]
check "selections that cost over 3 %, and no others" [ "$(grep -c ', 08/flash_gqa_backward ' "$scratch/said")" -eq 1 ]
check "and how many there were" grep -q '1 of 12 selected kernels took' "$scratch/said"
awk -f plots/duel.awk -v claim=1 "$scratch/table" >"$scratch/claim"
tr '\n' ' ' <"$scratch/claim" >"$scratch/in_one_line"
check "the claim has the same figures" \
    grep -q '^On random .* in 40 % of 10 forward passes (at worst 0.50 times as fast)[.] $' "$scratch/in_one_line"
{ cat "$scratch/table"; row forward 1 2 - fa4 2 10/flash_hopper WRONG 10/flash_hopper:1; } >"$scratch/wrong"
awk -f plots/duel.awk "$scratch/wrong" >/dev/null 2>"$scratch/said"
check "a WRONG result fails" [ $? -eq 1 ]
check "and is named" grep -q '^forward B1 2/2 N64 D64 causal: WRONG' "$scratch/said"
{ cat "$scratch/table"; echo '# FAILED attention 1 2: Refused: no'; } >"$scratch/wrong"
awk -f plots/duel.awk "$scratch/wrong" >/dev/null 2>"$scratch/said"
check "a FAILED line fails and is named" [ "$?/$(grep -c '^# FAILED attention' "$scratch/said")" = 1/1 ]
check "and an empty table" sh -c "! awk -f plots/duel.awk /dev/null >/dev/null"
exit $failed
