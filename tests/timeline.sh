#!/bin/sh
# timeline.sh - make timeline-NN: the replay's arithmetic, on records written by hand; what is refused; and the
# lessons' pictures and table, which must be what the keys, and the keys with other rings, give today.
set -u
out=build/cpu timeline=build/cpu/timeline
. tests/prove/frame.sh
trap 'rm -rf "$scratch" "$out"/tune/1[078]/of_timeline_*' EXIT
make_it() { ${MAKE:-make} --no-print-directory -s BACKEND=cpu "$@" >"$said" 2>&1; }
make_it "$timeline" || { show; exit 1; }

# ------------------------ by hand
# Rows with spaces for tabs, _ for a space, - for an empty field; the source is line 1, 2, ... of x.cu.
record() { # block|ring
    { echo "who lanes event what amount at source phases of_a_$1"; sed 's/^ *//'; } |
        awk 'NR > 1 { $6 = $6 " x.cu:" NR - 1 } 1' | tr ' _' '\t ' | sed 's/\t-/\t/g' >"$scratch/rows"
}
draw() { "$timeline" "$scratch/rows" x "$scratch/drawn" >"$said" 2>&1; }
lasts() { # TIME WHAT
    draw && grep -qx "x: $1" "$said"
    verdict $? "$2"
}
# What is drawn of a record: lane, kind, from, length, name.
bars() {
    tr -d '"' <"$1" | awk -F '[:,]' -v OFS='\t' '$2 == "X" { name = $0; gsub(/.*,name:|,args:.*/, "", name)
        print $6, $12, $8, $10, name }'
}
bar() { # BAR WHAT
    bars "$scratch/drawn.json" | tr '\t' ' ' >"$said"
    grep -qx "$1" "$said"
    verdict $? "$2"
}
says() { # TEXT WHAT: and it fails
    ! draw && grep -q "$1" "$said"
    verdict $? "$2"
}
group() { for warp in 0 1 2 3; do echo "1.$warp $*"; done; }
first() { # the whole of a tile's way
    echo "0.0 1 arrive - 4000 0 full#0"
    echo "0.0 1 load K3 4000 1000 full#0"
    group ffffffff wait - 0 0 full#0
    group ffffffff product K 4096000 1000 a_product#9
    group ffffffff wait - 0 0 a_product#9
}
multiply="group ffffffff product V 2048000 9000 a_product#17" wait="group ffffffff wait - 0 0 a_product#17"
softmax="group ffffffff scores - 2048 0 a_product#9"
first | record block
lasts "1700 cycles" "a copy, 600 cycles and 100 for its bytes, then a product of 1000"
grep -q '^  warpgroup 1: waits 100 %: 41 % for full, 59 % for a product$' "$said"
verdict $? "who waited for what"
bar "2 products 700.000 1000.000 K3" "a product is named after the tile that has arrived"
{ first; $softmax; } | record block
lasts "2340 cycles" "2048 scores of each warp: 512 cycles for the exponentials of its quarter, 128 beside"
{ first; $multiply; $softmax; $wait; } | record block
lasts "2340 cycles" "a product of 500 cycles under the work on scores costs nothing"
{ first; $multiply; $wait; $softmax; } | record block
lasts "2840 cycles" "if waited for before, it does"
{
    first
    echo "0.0 1 wait - 0 0 empty#0"
    echo "0.0 1 arrive - 4000 0 full#1"
    echo "0.0 1 load K2 4000 1000 full#1"
    group 1 arrive - 0 0 empty#0
    group ffffffff wait - 0 0 full#1
} | record block
lasts "2400 cycles" "a tile requested when it is released"

record block <<'ROWS'
    0.0 1 wait - 0 0 later#0
    0.0 1 arrive - 0 0 never#0
    1.0 1 wait - 0 0 never#0
    1.0 1 arrive - 0 0 later#0
ROWS
says 'wait for each other' "events that wait for each other"
for text in "32.0 1 wait - 0 0 a#1" "1.0 1 guess - 1 0 a#1" ff; do
    echo "$text" | record block
    says 'not a record of a block' "no row: '$text'"
done
! workbook/timeline/timeline.sh solutions 03 >"$said" 2>&1 &&
    grep -q 'solutions/03/.* solutions has 10 16, and of rings 17 18$' "$said"
verdict $? "a problem that is not for Hopper"

# What is recorded is drawn with 512 times its bytes, and 32768 times its FLOPs.
record ring <<'ROWS'
    0.0 ffffffff attention p 21362304.6875 0 0.0#1
    0.1 ffffffff attention p 21362304.6875 0 0.1#1
    0.2 ffffffff copy c 7812500 0 0.2#1
    1.0 ffffffff gradients p 18310546.875 0 1.0#1
    2.0 ffffffff kernel k 7812500 0 2.0#1
ROWS
draw
bar "1 products 0.000 1032.000 p 0" "a product: 32 us, and a ms for 0.7 TFLOP; it reads its own keys"
bar "2 products 1032.000 1032.000 p 0" "products on two streams take turns"
bar "3 other kernels and copies 0.000 1004.000 c" "a copy does not"
bar "4 products 0.000 1016.000 p 1" "one of the two kernels that make gradients: 16 us, and a ms for 0.6 TFLOP"
bar "5 other kernels and copies 0.000 1004.000 k" "a kernel: 4 us, and a ms for 4 GB"
record ring <<'ROWS'
    0.0 ffffffff attention p 21362304.6875 1000 0.0#1
    0.1 ffffffff idle - 0 0 0.0#1
    0.1 ffffffff arrive rank_0 0 1000 0_to_1#0
    0.1 ffffffff wait - 0 0 0_to_1#0
    0.1 ffffffff messages ncclSend() 298828.125 0 0.1#1
    1.0 ffffffff arrive rank_1 0 0 0_to_1#0
    1.0 ffffffff wait - 0 0 0_to_1#0
    1.0 ffffffff receive - 298828.125 2000 0_to_1#0
    1.0 ffffffff messages ncclRecv()_from_rank_0 298828.125 0 1.0#1
    1.1 ffffffff wait - 0 0 1.0#1
    1.1 ffffffff attention p 21362304.6875 2100 1.1#1
ROWS
lasts "3.09 ms" "a message that waits for a product, and a product that waits for it"
grep -q '^  rank 1 wire: messages 33 % (0 % of them under products), waits 33 %: 33 % for rank 0 at x.cu:3$' "$said" &&
    grep -A 2 'the longest idle time of rank 1, 2.06 ms from 0.00 on:$' "$said" |
    grep -qx ' *rank 1 stream: waits for ncclRecv() from rank 0 at x.cu:9'
verdict $? "the same as text"
bar "3 waits 0.000 1032.000 waits for rank 0 at x.cu:3" "a receiver waits for the other rank"
bar "3 messages 1032.000 1030.000 ncclRecv() from rank 0 0" "30 us, and a ms for 153 MB"
bar "4 waits 0.000 2062.000 waits for ncclRecv() from rank 0 at x.cu:9" "a product waits for what comes"
bar "4 products 2062.000 1032.000 p 0" "it reads the keys of the rank that they come from"

# ------------------------ of 10, keys and others
given=Nq=128,Nk=1024,D=128
of() { # NAME SED WHAT: the key, changed; its cycles for D = 128 and 64 stand in the lesson's table
    mkdir -p "$out/tune/10/of_timeline_$1"
    sed "$2" solutions/10/flash_hopper.cu >"$out/tune/10/of_timeline_$1/flash_hopper.cu"
    worker=$out/tune/10/of_timeline_$1/10_worker
    [ "$1" != key ] || worker=$out/solutions/10_worker
    make_it "$worker" || { verdict 1 "$1 compiles"; return; }
    for shape in $given Nq=192,Nk=1024,D=64; do
        "$worker" --record "$scratch/$1.$shape" --case $shape >"$said" 2>&1
        "$timeline" "$scratch/$1.$shape" "10 flash_hopper, $shape, block 0" "$scratch/$1.$shape" >"$said"
        sed -n 's/^10 .*: \([0-9]*\) cycles$/\1/p' "$said"
    done >"$scratch/cycles"
    figures=$(paste -sd ' ' "$scratch/cycles" | sed 's/ / | /')
    grep -qF "| $3 | $figures |" problems/10/timeline.md
    verdict $? "the lesson's table: $3 | $figures"
}
of key '' 'as it is'
awk -F'\t' '$3 == "load" && $4 ~ /^K/ { print $4 }' "$scratch/key.$given" | paste -sd ' ' >"$said"
grep -qx 'K7 K6 K5 K4 K3 K2 K1 K0' "$said"
verdict $? "the record has the tiles of K from right to left"
of one 's/2> K, V;/1> K, V;/' 'a ring of one'
line=$(grep -n 'mma_AB_async(' solutions/10/flash_hopper.cu | tail -n 1 | cut -d: -f1)
grep -q "waits for V.full.*, flash_hopper.cu:[0-9]*, before the product of flash_hopper.cu:$line" "$said"
verdict $? "a wait inside of receive() names the product that it is for"
for picture in key:timeline_10 one:timeline_10_one_tile; do
    cmp "$scratch/${picture%:*}.$given.svg" "plots/${picture#*:}.svg" >"$said" 2>&1
    verdict $? "plots/${picture#*:}.svg is what make timeline-10 draws, of ${picture%:*}"
done
! "$out/solutions/10_worker" --record "$scratch/none" --block 9 --case Nq=300,Nk=128,D=128 >"$said" 2>&1 &&
    grep -q 'for block 9: the launch has 3 blocks, numbered from 0$' "$said"
verdict $? "a block that is not in the launch"

# ------------------------ of rings, keys and others
given=B=1,Hq=8,Hkv=2,Nq=512,D=64,causal=1,ranks=4
ring() { # NN NAME: the key, or a wrong solution; its record is NN.NAME.rows, what it does NN.NAME
    of=$out/tune/$1/of_timeline_$2 worker=$out/solutions/$1_worker key=$(echo "solutions/$1"/*.cu) of_it=$scratch/$1.$2
    if [ "$2" != key ]; then
        mkdir -p "$of"
        awk -v list="solutions/$1/wrong.diff" -v entry="$2" -f workbook/loop/edit.awk "$key" >"$of/${key##*/}" &&
            worker=$of/$1_worker
    fi
    make_it "$worker" && "$worker" --record "$of_it.rows" --case "$given" >"$said" 2>&1 &&
        "$timeline" "$of_it.rows" x "$of_it" >"$of_it.text" 2>"$said"
    verdict $? "$1, $2: recorded and drawn"
    bars "$of_it.json" >"$of_it"
    cp "$of_it.text" "$said"
}
pictured() { # LINE: of the lesson, too
    drawn=$(grep "^  $1 *|" "$of_it.text" | sed 's/^  //')
    [ "$drawn" ] && grep -qF "$drawn" problems/17/README.md
    verdict $? "the lesson's picture: $drawn"
}
same_work() { # every rank's stream says the same
    [ "$(sed -n 's/^  rank [0-9] stream: //p' "$of_it.text" | uniq -c | sed 's/ *\([0-9]*\).*/\1/')" = 4 ]
    verdict $? "$1: each rank has as much work as the others"
}
ring 17 key
same_work 17
awk -F'\t' '$2 == "products" { keys[$1] = keys[$1] substr($5, length($5)) }
    END { for (l = 1; l < 8; l += 2) print keys[l] }' "$of_it" >"$said"
[ "$(paste -sd ' ' "$said")" = "000332211 111003322 222110033 333221100" ]
verdict $? "17: each product shows whose keys it reads"
! grep 'rank [0-9] stream:.*waits\|longest idle' "$of_it.text" >"$said"
verdict $? "17: no stream of products waits"
for line in 'rank 0 stream' 'rank 0 wire'; do pictured "$line"; done
grep -q 'role="img"' "$of_it.svg" && grep -qx 'rank 3 stream: products 90 %, other kernels and copies 10 %' "$of_it.svg"
verdict $? "the drawing says in words what it shows"
if command -v python3 >/dev/null; then
    python3 -m json.tool "$of_it.json" >"$said" 2>&1
    verdict $? "trace events are JSON"
fi
ring 17 no_overlap
! grep -q wire "$of_it.text" && grep -q 'rank 0 stream: messages.* (0 % of them under products)' "$of_it.text"
verdict $? "17, one stream: no message overlaps a product"
pictured 'rank 0 stream'
ring 18 key
same_work 18
awk -F'\t' '$2 == "messages" { to[$1] = $3 + $4; keys[$1] = substr($5, length($5)) }
    $2 == "products" { work[$1] = $3 + $4 }
    END { for (r = 0; r < 4; r++) { w = 2 * r + 2; print r, keys[w], to[w], work[w - 1]
          if (keys[w] != r || to[w] >= work[w - 1]) bad = 1 } exit bad }' "$of_it" >"$said"
verdict $? "18: the last message is the rank's own gradients, overlapped with products"
! grep 'rank [0-9] stream:.*waits\|longest idle' "$of_it.text" >"$said"
verdict $? "18: no stream of products waits"
ring 18 nothing_under_the_way_home
[ "$(grep -c 'rank [0-9] stream: waits for ncclRecv() ' "$of_it.text")" = 4 ]
verdict $? "18, without overlap of the last message: each rank waits for its sums"
exit $failed
