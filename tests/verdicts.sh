#!/bin/sh
# verdicts.sh - code that cheats or dies must get the verdict that tests/hostile has for it, and never a pass: for
# one case, or, where a test is named, for its cases, which run in one process. And what a failure says is true.
set -u
. tests/prove/frame.sh
: "${ROW:=$scratch/row}"
. tests/prove/judge.sh
wrongs="03/scale_forgotten 11/sink_is_one 11/sink_left_out_of_L 11/window_one_too_many
    01/O_not_rescaled 18/waits_before_the_products 18/nothing_under_the_way_home"
# shellcheck disable=SC2046
made "$out/wb" "$out/hostile/01_worker" "$out/hostile/17_worker" "$out/solutions/13_worker" \
    $(printf "$out/tests/%s_test " 01 03 11 17 18) \
    $(for wrong in $wrongs; do echo "$out/wrong/$wrong/${wrong%/*}_worker"; done)
verdict $? "programs are built"

attacks() { sed -n 's/^ATTACK(\([a-z_A-Z0-9]*\), "\([a-z_]*\)", "\([^"]*\)").*/\1\t\2\t\3/p' "$1"; }
verdicts() { # SOURCE NN SUITE CASE
    attacks "$1" >"$scratch/attacks"
    tried=0
    while IFS="$(printf '\t')" read -r name test want; do
        [ -n "$want" ] || { want=$test test=; } # tabs are blanks to read
        if [ -n "$test" ]; then given= ; else given=$4; fi
        (export HOSTILE="$name" WB_TIMEOUT=2 CASE="$given"
        judge "$out/tests/$2_test" "$out/hostile/$2_worker" "$BACKEND" ${test:+--filter "$3/$test"}) >"$said" 2>&1
        status=$?
        of=$("$out/wb" show "$record" case)
        [ $status -eq 1 ] && "$out/wb" show "$record" message | grep -qF -e "$want" && { [ -z "$given" ] ||
            [ "${of:-$4}" = "$4" ]; }
        verdict $? "$name: $want"
        tried=$((tried + 1))
    done <"$scratch/attacks"
    [ $tried -gt 0 ] && [ $tried -eq "$(grep -c '^ATTACK(' "$1")" ]
    verdict $? "$tried attacks of $1, all of its list"
    CASE=$4 judge "$out/tests/$2_test" "$out/hostile/$2_worker" "$BACKEND" >"$said" 2>&1
    verdict $? "and without an attack it passes"
}
verdicts tests/hostile/hostile.c 01 tiled_attention B=1,Hq=2,Nq=40,D=16,seed=1
verdicts tests/hostile/ring.cu 17 flash_ring B=1,Hq=2,Hkv=1,Nq=36,D=64,causal=1,ranks=3,seed=1

# What worker and layer keep to themselves cannot be named; all that can be is declared in the lesson's headers.
if [ "$BACKEND" = cpu ]; then
    ! made "$out/refused/01_worker" && cp "$said" "$scratch/refused"
    verdict $? "code that names the judge's functions does not link"
    for name in cudacpu::watching cudacpu::order wb_watch_end wb_memory_reset_peak wb_exchange_receive __gcov_reset; do
        check "$name cannot be named" grep -q "undefined reference to .$name" "$scratch/refused"
    done
    nm -gC --defined-only "$out/machinery/judge_01.o" | cut -c20- | sed 's/(.*//' | sort -u >"$scratch/named"
    grep -rhowE '[A-Za-z_][A-Za-z0-9_]*' workbook/workbook.h workbook/predict.h workbook/nccl/*.h workbook/cpu/include |
        sort -u >"$scratch/declared"
    grep -v -e std:: -e '^main$' -e '^__ubsan_' -e '^cblas_sgemm$' -e '^wb_statics_from$' \
        -e '^__gcov_merge' "$scratch/named" |
        sed 's/.*:://' |
        sort -u | comm -23 - "$scratch/declared" >"$said"
    [ ! -s "$said" ] && [ "$(grep -c . "$scratch/named")" -gt 50 ]
    verdict $? "what a worker's function can name is declared in workbook.h, predict.h and cpu/include"
fi

# A page that the cache does not have, or a length that the table has no room for, ends a run with a sentence.
stops() { # STRAY SENTENCE
    "$out/solutions/13_worker" --case "B=3,Hq=2,Nq=1,Nk=70,D=64,page=32,stray=$1" >"$said" 2>&1
    [ $? -eq 66 ] && grep -q "^   $2" "$said"
    verdict $? "$2"
}
if [ "$BACKEND" = cpu ]; then
    stops 1 'page 11 was looked up for key 0 of sequence 0, but the cache has only pages 0 to 10'
    stops 2 'kv_len of sequence 0 is 129, but must be 0 to 128: the pages in its row of page_table hold no more keys'
    stops 3 'kv_len of sequence 0 is -1, but must be 0 to 128: the pages in its row of page_table hold no more keys'
fi

# What a failure says: where, in the tile of this launch; and what the first hour shows, but for the last digits.
says() { # NN/WRONG CASE: what make test-NN prints for a wrong solution
    number=${1%/*}
    CASE=$2 judge --shown build/cpu/problems/${number}_worker "$out/tests/${number}_test" \
        "$out/wrong/$1/${number}_worker" cpu >"$said" 2>&1
}
if [ "$BACKEND" = cpu ]; then # whose layer sees launches
    (export WB_SHARED_KB=64; says 03/scale_forgotten Nq=129,Nk=64,D=128)
    check "a failure names the tile of the kernel's own launch" \
        grep -q 'first wrong O\[b 0, h 0, i 0, d 0\] (row 0 of tile 0, of 64 rows) is' "$said"
    WB_SHARED_KB=48 "$out/wrong/03/scale_forgotten/03_worker" --case Nq=100,Nk=100,D=128 >"$said" 2>/dev/null
    check "no kernel gets 51 KB of shared memory from a GPU with 48" grep -q '^returned: device error' "$said"
fi
"$out/wrong/03/scale_forgotten/03_worker" --case Nq=5,D=80 >"$said" 2>&1
check "a run by hand prints no outputs of a call that was refused" eval \
    'grep -q "^returned: unsupported" "$said" && ! grep -q "O\[" "$said"'
# The mask is drawn where it can be wrong: not where O has a wrong denominator, or L alone is wrong.
for wrong in "sink_is_one:either the divisor is wrong" "sink_left_out_of_L:L differs" \
    "window_one_too_many:the mask (#"; do
    says "11/${wrong%%:*}" Nq=70,D=16,W=9,seed=1
    grep -qF "${wrong#*:}" "$said" && [ "$(grep -c 'the mask (#' "$said")" -eq "$(echo "$wrong" | grep -c '(#$')" ]
    verdict $? "a failure of ${wrong%%:*} prints: ${wrong#*:}"
done
for wrong in "waits_before_the_products:could the wait for the message" \
    "nothing_under_the_way_home:keep some of the rank's own work"; do
    says "18/${wrong%%:*}" B=1,Hq=2,Hkv=1,Nq=32,D=64,ranks=2,seed=1,overlapped=1
    check "a message without overlap is reported with its cause: ${wrong#*:}" grep -qF "${wrong#*:}" "$said"
done
shorter() { sed 's/\([0-9]\.[0-9]\{3\}\)[0-9]*/\1/g; s/^ *//' | grep .; }
says 01/O_not_rescaled Nq=8,Nk=256,D=16
sed -n '/FAIL/,/by hand/p' "$said" | shorter >"$scratch/printed"
sed -n '/^ *FAIL  given_case/,/^ *by hand /p' problems/README.md | shorter | diff - "$scratch/printed" >"$said" &&
    [ -s "$scratch/printed" ]
verdict $? "problems/README.md shows the failure that is printed (>)"
exit $failed
