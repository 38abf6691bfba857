#!/bin/sh
# timeline.sh - make timeline-NN: the lessons' pictures and table must be what the keys, and the keys with other rings,
# give today, to the cycle; and what is refused.
set -u
BACKEND=cpu out=build/cpu timeline=build/cpu/timeline
. tests/prove/frame.sh
trap 'rm -rf "$scratch" "$out"/tune/10/of_timeline_*' EXIT
made "$timeline" || { show; exit 1; }

! workbook/timeline/timeline.sh solutions 03 >"$said" 2>&1 &&
    grep -q 'solutions/03/.* solutions has 10 16, and of rings 17 18$' "$said"
verdict $? "a problem that is not for Hopper"

# ------------------------ of 10, keys and others
given=Nq=128,Nk=1024,D=128
of() { # NAME SED WHAT: the key, changed; its cycles for D = 128 and 64 stand in the lesson's table
    mkdir -p "$out/tune/10/of_timeline_$1"
    sed "$2" solutions/10/flash_hopper.cu >"$out/tune/10/of_timeline_$1/flash_hopper.cu"
    worker=$out/tune/10/of_timeline_$1/10_worker
    [ "$1" != key ] || worker=$out/solutions/10_worker
    made "$worker" || { verdict 1 "$1 compiles"; return; }
    for shape in $given Nq=192,Nk=1024,D=64; do
        "$worker" --record "$scratch/$1.$shape" --case $shape >"$said" 2>&1
        "$timeline" "$scratch/$1.$shape" "10 flash_hopper, $shape, block 0" "$scratch/$1.$shape.json" >"$said"
        sed -n 's/^10 .*: \([0-9]*\) cycles$/\1/p' "$said"
    done >"$scratch/cycles"
    figures=$(paste -sd ' ' "$scratch/cycles" | sed 's/ / | /')
    check "the lesson's table: $3 | $figures" grep -qF "| $3 | $figures |" problems/10/timeline.md
}
of key '' 'as it is'
awk -F'\t' '$3 == "load" && $4 ~ /^K/ { print $4 }' "$scratch/key.$given" | paste -sd ' ' >"$said"
check "the record has the tiles of K from right to left" grep -qx 'K7 K6 K5 K4 K3 K2 K1 K0' "$said"
of one 's/2> K, V;/1> K, V;/' 'a ring of one tile'
line=$(grep -n 'mma_AB_async(' solutions/10/flash_hopper.cu | tail -n 1 | cut -d: -f1)
grep -q "waits for V.full.*, flash_hopper.cu:[0-9]*, before the product of flash_hopper.cu:$line" "$said"
verdict $? "a wait inside of receive() names the product that it is for"
for picture in key:timeline_10 one:timeline_10_one_tile; do
    same_picture plots/timeline.gp "$scratch/${picture%:*}.$given.json" "plots/${picture#*:}.svg" >"$said" 2>&1
    verdict $? "plots/${picture#*:}.svg shows what make timeline-10 draws, of ${picture%:*}"
done
! "$out/solutions/10_worker" --record "$scratch/none" --block 9 --case Nq=300,Nk=128,D=128 >"$said" 2>&1 &&
    grep -q 'for block 9: the launch has 3 blocks, numbered from 0$' "$said"
verdict $? "a block that is not in the launch"

# ------------------------ of rings, keys and others
given=B=1,Hq=8,Hkv=2,Nq=512,D=64,causal=1,ranks=4
ring() { # NN NAME TIME: the key, or a wrong solution, takes so long; what it does: $of_it.text, and in $of_it a line a
    # bar: lane, kind, from, length, name
    worker=$out/solutions/$1_worker of_it=$scratch/$1.$2
    [ "$2" = key ] || worker=$out/wrong/$1/$2/$1_worker
    made "$worker" && "$worker" --record "$of_it.rows" --case "$given" >"$said" 2>&1 &&
        "$timeline" "$of_it.rows" x "$of_it.json" >"$of_it.text" 2>"$said" && grep -x "x: $3" "$of_it.text"
    verdict $? "$1, $2: recorded and drawn, $3"
    tr -d '"' <"$of_it.json" | awk -F '[:,]' -v OFS='\t' '$2 == "X" { name = $0; gsub(/.*,name:|,args:.*/, "", name)
        print $6, $12, $8, $10, name }' >"$of_it"
    cp "$of_it.text" "$said"
}
pictured() { # LINE: of the lesson, too
    drawn=$(grep "^  $1 *|" "$of_it.text" | sed 's/^  //')
    [ "$drawn" ] && grep -qF "$drawn" problems/17/README.md
    verdict $? "the lesson's picture: $drawn"
}
ring 17 key "3.82 ms"
awk -F'\t' '$2 == "products" { keys[$1] = keys[$1] substr($5, length($5)) }
    END { for (l = 1; l < 8; l += 2) print keys[l] }' "$of_it" >"$said"
[ "$(paste -sd ' ' "$said")" = "000332211 111003322 222110033 333221100" ]
verdict $? "17: each product shows whose keys it reads"
! grep 'rank [0-9] stream:.*waits\|longest idle' "$of_it.text" >"$said"
verdict $? "17: no stream of products waits"
for line in 'rank 0 stream' 'rank 0 wire'; do pictured "$line"; done
grep -qx '  rank 3 stream: products 90 %, other kernels and copies 10 %' "$of_it.text"
verdict $? "17: it is said in words what the picture shows"
ring 17 no_overlap "4.58 ms"
! grep -q wire "$of_it.text" && grep -q 'rank 0 stream: messages.* (0 % of them under products)' "$of_it.text"
verdict $? "17, one stream: no message overlaps a product"
pictured 'rank 0 stream'
ring 18 key "9.95 ms"
awk -F'\t' '$2 == "messages" { to[$1] = $3 + $4; keys[$1] = substr($5, length($5)) }
    $2 == "products" { work[$1] = $3 + $4 }
    END { for (r = 0; r < 4; r++) { w = 2 * r + 2; print r, keys[w], to[w], work[w - 1]
          if (keys[w] != r || to[w] >= work[w - 1]) bad = 1 } exit bad }' "$of_it" >"$said"
verdict $? "18: the last message is the rank's own gradients, overlapped with products"
! grep 'rank [0-9] stream:.*waits\|longest idle' "$of_it.text" >"$said"
verdict $? "18: no stream of products waits"
ring 18 nothing_under_the_way_home "10.40 ms"
[ "$(grep -c 'rank [0-9] stream: waits for ncclRecv() ' "$of_it.text")" = 4 ]
verdict $? "18, without overlap of the last message: each rank waits for its sums"
exit $failed
