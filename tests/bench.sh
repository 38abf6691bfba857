#!/bin/sh
# bench.sh - an implementation that crashes, hangs or ends the program is named, and the others' figures are there all
# the same; and verdict.awk reads recorded tables. Run by make check, which has built the programs.
set -u
out=build/${BACKEND:-cpu}
. tests/prove/frame.sh
table=$scratch/table

try() { # WHAT LIBRARY SENTENCE [HOSTILE]
    HOSTILE=${4:-} WB_TIMEOUT=6 "$out/bench" 01 --impl "yours=$2" --impl "key=$out/solutions/01.so" --naive \
        --shape B=1,Hq=1,Nq=64,D=16 --out "$table" >"$said" 2>&1
    check "$1: exit status 1" [ $? -eq 1 ]
    check "$1: reported on the screen" grep -q "yours is left out.*$3" "$said"
    check "$1: reported in the table" grep -q "^# yours is left out.*$3" "$table"
    timed=$(awk '$1 == "01" { print $2 }' "$table" | tr '\n' ' ')
    check "$1: the others are timed" [ "$timed" = "roof_sgemm key naive " ]
}
try "a crash" "$out/hostile/01.so" 'it crashed: signal 11' crash
try "an endless loop" "$out/hostile/01.so" 'no answer in 6 s' endless
try "exit(0)" "$out/hostile/01.so" 'it ended the program with status 0' exit_zero
try "no result" "$out/hostile/01.so" 'but the oracle has' writes_nothing
try "nothing to load" "$out/hostile/none.so" 'none.so'

judged() { awk -f workbook/bench/verdict.awk "$1" >"$said" 2>&1; }
judged "$table"
check "no verdict on the host" [ ! -s "$said" ]
judged plots/data/h200/02_weighted_row_sum.tsv
check "a verdict on bytes is in GB/s" grep -q '^  16384 x 16384  *0.9998  memory  *4814 * [0-9]*  ( [0-9]* %)$' "$said"
judged plots/data/h200/06_flash_window.tsv
check "the verdict tells what a window saves as the sequence grows" \
    grep -q '^reference, B1 H64/8 N8192 D64 W128: [0-9.]* ms; at N = 32768 [0-9.]* ms, 3[.][0-9] times as much ' "$said"
judged plots/data/h200/03_flash_forward.tsv
check "a verdict on a recorded table" grep -q '^  B4 H16 N4096 D128 * 2040  arithmetic ' "$said"
awk -f plots/roofline.awk plots/data/h200/*_flash_*.tsv plots/data/h200/02_*.tsv \
    plots/data/h200x2/17_flash_ring.tsv plots/data/h200x2/18_flash_ring_backward.tsv >"$said" 2>&1
tables=$(grep -l '^problem.*	bound' plots/data/h200/*_flash_*.tsv plots/data/h200/02_*.tsv | grep -c .)
check "a line per problem for the chart" [ "$(grep -c '^[01][0-9]	' "$said")" -eq $((tables + 2)) ]
sed '/^# peak_/d; s/^# gpu: .*/# gpu: NVIDIA Q1/' plots/data/h200/03_flash_forward.tsv >"$table"
judged "$table"
check "an unknown GPU gets none" grep -q 'no verdict: the peaks of this GPU are unknown' "$said"

[ "${BACKEND:-cpu}" = cpu ] || exit $failed # what follows is so on sm_90, and on the layer, which plays one
"$out/bench" 08 --impl "library=$out/lib/libworkbook_all.so" --shape B=1,Hq=2,Nq=400,D=32 \
    --shape B=1,Hq=2,Nq=100,D=64 --out "$table" >"$said" 2>&1
workspaces=$(awk -F'\t' '$2 == "library" { printf "%d ", ($19 - $20 > 0) }' "$table")
check "the workspace of a library function is counted" [ "$workspaces" = "1 0 " ]
exit $failed
