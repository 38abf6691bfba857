#!/bin/sh
# timeline.sh - make timeline-NN: the replay's arithmetic, on records written by hand; what is refused; and the lesson's two pictures and its
# table, which must be what the key, and the key with other rings, give today, and the rows that the book draws. Of rings of GPUs the same:
# arithmetic, what is refused, and what keys and wrong solutions of 17 and 18 look like.
set -u
out=build/cpu timeline=build/cpu/timeline
. tests/prove/frame.sh
trap 'rm -rf "$scratch" "$out"/tune/1[078]/of_timeline_*' EXIT
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
! workbook/timeline/timeline.sh solutions 03 >"$scratch/said" 2>&1 && grep -q 'solutions/03/.* solutions has 10 16, and of rings 17 18$' "$scratch/said"
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

# --------------------------------------------------------------------------------------------------------- of ranks, by hand
# Rows: rank order stream number kind name line cost at peer turn clock, with commas for the spaces of a clock. Drawn are 32 heads of 128.
ranks() { { echo "N 1024 heads 32 D 128 ranks ${1:-2}"; echo "rank order stream number kind name file line cost at peer turn clock"; sed 's/^ *//; s/\([^ ]* [^ ]* [^ ]* [^ ]* [^ ]* [^ ]*\) /\1 x.cu /'; } | tr ' ,' '\t ' >"$scratch/rows"; }
bars() { # AS: rows of the picture
    "$timeline" "$scratch/rows" x --as "$1" --tsv "$scratch/bars" >"$scratch/said" 2>&1 || { echo >"$scratch/bars"; return 1; }
    sed -n '4,$p' "$scratch/bars" | cut -f 1-6,9 | tr '\t' ' ' >"$scratch/said"
}
lasts() { # MS AS WHAT
    bars "$2" && grep -qx "ms	$1" "$scratch/bars"
    verdict $? "$3"
}
bar() { # BAR WHAT
    grep -qx "$1" "$scratch/said"
    verdict $? "$2"
}
echo "0 0 0 1 product p 1 700000000000 0 -1 -1 -" | ranks
lasts 1.0320 1024 "a product: 32 us, and a ms for 0.7 TFLOP"
lasts 4.0320 2048 "twice as long, four times the work"
echo "0 0 0 1 gradients p 1 600000000000 0 -1 -1 -" | ranks
lasts 1.0160 1024 "one of the two kernels that make gradients: 16 us, and a ms for 0.6 TFLOP"
echo "0 0 0 1 kernel k 1 4000000000 0 -1 -1 -" | ranks
lasts 1.0040 1024 "a kernel: 4 us, and a ms for 4 GB"
lasts 2.0040 2048 "twice as long, twice the bytes"
ranks <<'ROWS'
    0 0 0 1 product p 1 700000000000 1000 -1 -1 -
    0 1 1 1 send ncclSend() 2 153000000 1000 1 0 0:1
    1 0 1 1 receive ncclRecv() 3 153000000 2000 0 0 -
    1 1 0 1 product p 4 700000000000 2000 -1 -1 1:1
ROWS
lasts 3.0940 1024 "a message that waits for a product, and a product that waits for it"
bar "1 wire bubble 0 0.0000 1.0320 rank 0, which comes to x.cu:2 only at 1.03 ms" "a receiver waits for the other rank"
bar "1 wire messages 0 1.0320 2.0620 " "30 us, and a ms for 153 MB"
bar "1 stream bubble 0 0.0000 2.0620 what x.cu:3 receives from rank 0, which rank 0 comes to at 1.03 ms" "a product waits for what comes"
bar "1 stream product 0 2.0620 3.0940 " "it reads the keys of the rank that they come from"
"$timeline" "$scratch/rows" x --as 1024 >"$scratch/said"
grep -q '^  rank 1: products 33 %, 1.03 ms; other kernels 0 %, idle 67 %; messages 1.03 ms, 0 % hidden$' "$scratch/said" && grep -A 1 'rank 1, 2.06 ms from 0.00 ms on: a product with the keys of rank 0 waits for' "$scratch/said" | grep -q 'what x.cu:3 receives from rank 0, which rank 0 comes to at 1.03 ms'
verdict $? "the same in words"
ranks 1 <<'ROWS'
    0 0 0 1 product p 1 700000000000 0 -1 -1 -
    0 1 1 1 product p 2 700000000000 0 -1 -1 -
    0 2 2 1 copy c 3 4000000000 0 -1 -1 -
ROWS
lasts 2.0640 1024 "products on two streams take turns, and a copy does not"
ranks <<'ROWS'
    0 0 0 1 receive ncclRecv() 1 100 2000 1 0 -
    1 0 0 1 receive ncclRecv() 1 100 2000 0 0 -
ROWS
! bars 1024 && grep -q 'waits for messages that no other one has asked for' "$scratch/said"
verdict $? "messages that nobody sends"
for text in "0 0 0 1 product p 1 x 0 -1 -1" "2 0 0 1 product p 1 1 0 -1 -1 -" "0 0 64 1 product p 1 1 0 -1 -1 -" "0 0 0 1 product p 1 1 0 -1 -1 0=1" "0 0 0 1 guess p 1 1 0 -1 -1 -" "0 0 0 1 send p 1 1 0 9 0 -"; do
    echo "$text" | ranks
    ! bars 1024 && grep -q 'no record of ranks' "$scratch/said"
    verdict $? "no record of ranks: '$text'"
done
printf '' | ranks
! bars 1024 && grep -q 'no rank has queued anything' "$scratch/said"
verdict $? "ranks that do nothing"
! env BLOCK=9 WB_CASE=Nq=300,Nk=128,D=128 workbook/timeline/timeline.sh solutions 10 >"$scratch/said" 2>&1 && grep -q 'this block: the launch has 3, numbered from 0$' "$scratch/said"
verdict $? "a block that the launch has not"
for wrong in AS=x AS=0 AS=-5 BLOCK=x; do
    ! env "$wrong" workbook/timeline/timeline.sh solutions 17 >"$scratch/said" 2>&1 && grep -q "timeline: $wrong: a " "$scratch/said"
    verdict $? "$wrong is refused"
done

# ------------------------------------------------------------------------------------------------------------- of ranks, keys
given=B=1,Hq=8,Hkv=2,Nq=512,D=64,causal=1,ranks=4
ring() { # NN NAME: the key, or a wrong solution; bars in $scratch/NAME, rows in $scratch/NAME.rows
    of=$out/tune/$1/of_timeline_$2 worker=$out/solutions/$1_worker key=$(echo "solutions/$1"/*.cu)
    if [ "$2" != key ]; then
        mkdir -p "$of"
        awk -v list="solutions/$1/wrong.diff" -v entry="$2" -f workbook/loop/edit.awk "$key" >"$of/${key##*/}" && worker=$of/$1_worker
    fi
    ${MAKE:-make} --no-print-directory -s BACKEND=cpu "$worker" >"$scratch/said" 2>&1 &&
        "$worker" --record "$scratch/$1.$2.rows" --case "$given" >"$scratch/said" 2>&1 &&
        "$timeline" "$scratch/$1.$2.rows" x --svg "$scratch/$1.$2.svg" --tsv "$scratch/$1.$2" >"$scratch/$1.$2.text" 2>&1
    verdict $? "$1, $2: recorded and drawn"
}
# Ms of messages while a product of their rank runs, and ms of bubbles of streams, of all ranks.
hidden() { awk -F'\t' 'NR > 3 && $3 == "product" { n++; r[n] = $1; a[n] = $5; b[n] = $6 } NR > 3 && $3 == "messages" { m++; q[m] = $1; c[m] = $5; d[m] = $6 }
    END { for (i = 1; i <= n; i++) for (k = 1; k <= m; k++) if (r[i] == q[k]) { x = (b[i] < d[k] ? b[i] : d[k]) - (a[i] > c[k] ? a[i] : c[k]); if (x > 0) sum += x } printf "%.2f\n", sum }' "$1"; }
bubbles() { awk -F'\t' 'NR > 3 && $2 == "stream" && $3 == "bubble" { sum += $6 - $5 } END { printf "%.2f\n", sum }' "$1"; }
ring 17 key
awk -F'\t' 'NR > 2 { n[$1, $5]++; if ($5 == "product") work[$1] += $9; if ($5 == "send") sent[$1] += $9 }
    END { for (r = 0; r < 4; r++) { print r, n[r, "product"], n[r, "kernel"], n[r, "send"], n[r, "receive"], work[r], sent[r]
          if (n[r, "product"] != 9 || n[r, "kernel"] != 9 || n[r, "send"] != 6 || n[r, "receive"] != 6 || work[r] != work[0] || sent[r] != 196608) bad = 1 } exit bad }' "$scratch/17.key.rows" >"$scratch/said"
verdict $? "17: each rank has nine products, merges, three messages of K and of V, and as much work as the others"
awk -F'\t' 'NR > 3 && $3 == "product" { if (n[$1] < 9) keys[$1] = keys[$1] $4; n[$1]++ } END { for (r = 0; r < 4; r++) print keys[r] }' "$scratch/17.key" >"$scratch/said"
[ "$(paste -sd ' ' "$scratch/said")" = "000332211 111003322 222110033 333221100" ]
verdict $? "17: whose keys each product reads"
[ "$(bubbles "$scratch/17.key")" = 0.00 ]
verdict $? "17: no stream of products waits"
awk 'length > 100' "$scratch/17.key.text" >"$scratch/said"
[ ! -s "$scratch/said" ]
verdict $? "17: no line in the terminal is longer than 100"
for line in 'rank 0 stream' 'rank 0 wire'; do
    drawn=$(sed -n "s/^  \($line .*\)/\1/p" "$scratch/17.key.text")
    grep -qF "$drawn" problems/17/README.md
    verdict $? "the lesson's picture: $drawn"
done
grep -q 'role="img"' "$scratch/17.key.svg" && grep -q '<desc>4 ranks over 3.*Rank 3: products 90 % of the time.*</desc>' "$scratch/17.key.svg"
verdict $? "the drawing says in words what it shows"
ring 17 no_overlap
[ "$(hidden "$scratch/17.no_overlap")" = 0.00 ] && ! grep -q '	wire	' "$scratch/17.no_overlap"
verdict $? "17, one stream: no message travels under a product"
line=$(grep -n 'ncclRecv(room.K' solutions/17/flash_ring.cu | cut -d: -f1)
cp "$scratch/17.no_overlap.text" "$scratch/said"
grep -A 1 'rank 0, 0.2. ms from .* a product with the keys of rank 3 waits for' "$scratch/said" | grep -q "what flash_ring.cu:$line receives from rank 3"
verdict $? "17, one stream: the receive that products wait for has its line"
drawn=$(sed -n "s/^  \(rank 0 stream .*\)/\1/p" "$scratch/17.no_overlap.text")
grep -qF "$drawn" problems/17/README.md
verdict $? "the lesson's picture: $drawn"
ring 18 key
awk -F'\t' 'NR > 3 && $3 == "messages" { from[$1] = $5; to[$1] = $6; keys[$1] = $4 } NR > 3 && $3 == "product" { work[$1] = $6 }
    END { for (r = 0; r < 4; r++) { print r, keys[r], from[r], to[r], work[r]; if (keys[r] != r || to[r] >= work[r]) bad = 1 } exit bad }' "$scratch/18.key" >"$scratch/said"
verdict $? "18: what comes home last is of the rank's own keys, and products run as long"
[ "$(bubbles "$scratch/18.key")" = 0.00 ]
verdict $? "18: no stream of products waits"
cp "$scratch/18.key.text" "$scratch/said"
! grep -q 'computes nothing' "$scratch/17.key.text" "$scratch/18.key.text"
verdict $? "17, 18: no rank has a time in which it computes nothing"
awk -F'\t' 'NR > 2 && $5 == "gradients" { work[$1] += $9 } END { exit !(work[0] > 0 && work[0] == work[1] && work[1] == work[2] && work[2] == work[3]) }' "$scratch/18.key.rows"
verdict $? "18: each rank has as much work as the others"
ring 18 nothing_under_the_way_home
awk -F'\t' 'NR > 3 && $3 == "bubble" && $7 == "add_kernel" && $6 - $5 > .3 { n++ } END { exit n != 4 }' "$scratch/18.nothing_under_the_way_home"
verdict $? "18, nothing under the way home: each rank waits for its sums"
exit $failed
