#!/bin/sh
# timeline.sh - make timeline-NN: the replay's arithmetic, on records written by hand; what is refused; and the lesson's two pictures and its
# table, which must be what the key, and the key with other rings, give today.
set -u
out=build/cpu timeline=build/cpu/timeline
. tests/prove/frame.sh
trap 'rm -rf "$scratch" "$out"/tune/10/of_timeline_*' EXIT
${MAKE:-make} --no-print-directory -s BACKEND=cpu "$timeline" >"$scratch/said" 2>&1 || { cat "$scratch/said"; exit 1; }

# ---------------------------------------------------------------------------------------------------------------- by hand
# Rows with spaces for tabs, - for an empty field.
record() { { echo "warp lanes event what signal number amount first line"; cat; } | sed 's/^ *//' | tr ' ' '\t' | sed 's/\t-/\t/g' >"$scratch/rows"; }
cycles() { # N WHAT
    "$timeline" "$scratch/rows" x >"$scratch/said" 2>&1 && grep -q "^x: $1 cycles\$" "$scratch/said"
    verdict $? "$2"
}
group() { for w in 4 5 6 7; do echo "$w $*"; done; }
first() { # the whole of a tile's way
    echo "0 1 arrive full - 0 4000 0 1"
    echo "0 1 load K.tile[0] full 0 4000 3 1"
    group "ffffffff wait full - 1 0 0 2"
    group "ffffffff product Q[0] K.tile[0] 1 4096000 1 3"
    group "ffffffff done - - 1 0 0 4"
}
first | record
cycles 1700 "a copy, 600 cycles and 100 for its bytes, then a product of 1000"
grep -q '^  warpgroup 1 .*waits 100 %, 41 % for full, 59 % for a product$' "$scratch/said"
verdict $? "who waited for what"
{ first; group "ffffffff scores - - 1 2048 0 4"; } | record
cycles 2340 "2048 scores of each warp: 512 cycles for the exponentials of its quarter, 128 beside"
{ first; group "ffffffff scale - - 1 2048 0 4"; } | record
cycles 1764 "as many elements scaled"
{
    first
    group "ffffffff product - V.tile[0] 2 2048000 0 5"
    group "ffffffff scores - - 1 2048 0 4"
    group "ffffffff done - - 2 0 0 6"
} | record
cycles 2340 "a product of 500 cycles under the work on scores costs nothing"
{
    first
    group "ffffffff product - V.tile[0] 2 2048000 0 5"
    group "ffffffff done - - 2 0 0 6"
    group "ffffffff scores - - 1 2048 0 4"
} | record
cycles 2840 "waited for before, it does"
{
    first
    echo "0 1 wait empty - 1 0 0 1"
    echo "0 1 arrive full - 1 4000 0 1"
    echo "0 1 load K.tile[0] full 1 4000 2 1"
    group "1 arrive empty - 0 0 0 5"
    group "ffffffff wait full - 2 0 0 2"
} | record
cycles 2400 "a tile asked for when it is released"
{
    first
    echo "0 2 arrive other - 0 4000 0 1"
    echo "0 2 load V.tile[0] other 0 4000 0 1"
} | record
cycles 1700 "another lane of the warp asks for another tile at the same time, which comes behind the first"

{ first; group "ffffffff wait never - 1 0 0 2"; echo "0 1 wait later - 1 0 0 1"; echo "0 1 arrive never - 0 0 0 1"; group "1 arrive later - 0 0 0 1"; } | record
! "$timeline" "$scratch/rows" >"$scratch/said" 2>&1 && grep -q 'wait for each other' "$scratch/said"
verdict $? "events that wait for each other"
for text in "" "warp lanes" "$(printf 'warp\tlanes\tevent\twhat\n4\tff')"; do
    echo "$text" >"$scratch/rows"
    ! "$timeline" "$scratch/rows" >"$scratch/said" 2>&1 && grep -q 'no record of a block' "$scratch/said"
    verdict $? "no record: '$(echo "$text" | head -n 1)'"
done
! workbook/timeline/timeline.sh solutions 03 >"$scratch/said" 2>&1 && grep -q 'solutions/03/.* solutions has.* 10' "$scratch/said"
verdict $? "a problem that is not for Hopper"

# -------------------------------------------------------------------------------------------------------------- of the key
given=Nq=128,Nk=1024,D=128
of() { # NAME SED D64: the key, changed; its cycles for D = 128 and 64 stand in the lesson's table
    mkdir -p "$out/tune/10/of_timeline_$1"
    sed "$2" solutions/10/flash_hopper.cu >"$out/tune/10/of_timeline_$1/flash_hopper.cu"
    worker=$out/tune/10/of_timeline_$1/10_worker
    [ "$1" != key ] || worker=$out/solutions/10_worker
    ${MAKE:-make} --no-print-directory -s BACKEND=cpu "$worker" >"$scratch/said" 2>&1 || { verdict 1 "$1 compiles"; return; }
    for shape in $given Nq=192,Nk=1024,D=64; do
        "$worker" --record "$scratch/$1.$shape" --case $shape >"$scratch/said" 2>&1 && "$timeline" "$scratch/$1.$shape" "10 flash_hopper, $shape, block 0" --svg "$scratch/$1.$shape.svg" >"$scratch/$1.text"
        sed -n 's/^10 .*: \([0-9]*\) cycles$/\1/p' "$scratch/$1.text"
    done >"$scratch/cycles"
    figures=$(paste -sd ' ' "$scratch/cycles" | sed 's/ / | /')
    cp "$scratch/$1.text" "$scratch/said"
    grep -qF "| $3 | $figures |" problems/10/README.md
    verdict $? "the lesson's table: $3 | $figures"
}
of key '' 'as it is'
line=$(grep -n 'mma_ABt_async(S, Q, K_tile)' solutions/10/flash_hopper.cu | cut -d: -f1)
"$timeline" "$scratch/key.$given" >"$scratch/said" && grep -q "waits for K.full.*, line [0-9]*, before the product of line $line" "$scratch/said"
verdict $? "a wait inside of receive() names the product that it is for"
of one 's/2> K, V;/1> K, V;/' 'a ring of one'
for picture in key:timeline_10 one:timeline_10_one_tile; do
    cmp "$scratch/${picture%:*}.$given.svg" "plots/${picture#*:}.svg" >"$scratch/said" 2>&1
    verdict $? "plots/${picture#*:}.svg is what make timeline-10 draws, of ${picture%:*}"
done
awk -F'\t' '$3 == "load" && $4 ~ /^K/ { print $8 }' "$scratch/key.$given" | paste -sd ' ' >"$scratch/said"
grep -qx '7 6 5 4 3 2 1 0' "$scratch/said"
verdict $? "the record has the tiles of K from right to left"
exit $failed
