#!/bin/sh
# known.sh - run by make check-all: a wrong solution gets its own name or none (the second word in solutions/NN/wrong.diff; - for none);
# answer keys get none, and nothing that they do is found wrong. What is shown to look at are gaps of the problem's file, and nothing is
# named while a gap that the wrong output needs is as shipped.
set -u
export OMP_WAIT_POLICY=passive  # several are looked at at once
out=build/cpu
diagnose=$out/diagnose
if [ "${1:-}" = --one ]; then # NN/WRONG WANT: is it named so? For an answer key, NN and nothing.
    n=${2%%/*} want=${3:--}
    worker=$out/wrong/$2/${n}_worker
    [ "$n" != "$2" ] || worker=$out/solutions/${n}_worker
    said=$(WB_WORKER=$worker "$diagnose" -v "$n" 2>&1)
    status=$? got=$(echo "$said" | sed -n 's/^id //p')
    strange=$(echo "$said" | sed -n 's/^look at: \(.*\); .*/\1/p' | sed 's/, /\n/g' | while read -r gap; do
        grep -q "//{ $gap\(:.*\)\{0,1\}\$" problems/"$n"/*.c* || echo "$gap"
    done)
    if [ "${got:--}" != "$want" ]; then
        echo "FAIL  $2: wanted $want, got ${got:--}"
    elif [ "$n" = "$2" ] && [ -n "$said" ]; then
        echo "FAIL  $2: of the key it says: $said"
    elif [ $status -gt 1 ] || [ -n "$strange" ]; then
        echo "FAIL  $2: $said"
    else
        echo "$([ "$want" = - ] && echo silent || echo named)  $2"
    fi
    exit 0
fi
list=$(for n in problems/[0-9][0-9]; do
    awk -v list="solutions/${n#*/}/wrong.diff" -v tell=known -f workbook/loop/edit.awk 2>/dev/null | sed -n "s|^\([^ ]*\) .*, |${n#*/}/\1 |p"
done)
[ -f solutions/01/wrong.diff ] || { echo "skip  there are no wrong solutions here"; exit 0; }
workers=$(echo "$list" | sed "s|^\(..\)/\([^ ]*\).*|$out/wrong/\1/\2/\1_worker|")
numbers=$(ls problems | grep '^[0-9][0-9]$')
# shellcheck disable=SC2086
${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" WERROR=1 BACKEND=cpu "$diagnose" $workers \
    $(for n in $numbers; do echo "$out/solutions/${n}_worker"; done) \
    $out/wrong/06/ordinary_loads_from_tile_0/06_worker $out/wrong/06/no_causal_mask/06_worker $out/honest/03_warp_a_row/03_worker >/dev/null || exit 1
failed=0
fail() { echo "FAIL  $*"; failed=1; }

# with NN GAP...: the key of NN, but for these gaps, which are as shipped
without() {
    n=$1
    shift
    workbook/loop/shipped.sh "$n" "$out/skeleton.txt" 2>/dev/null || cat problems/"$n"/*.c* >"$out/skeleton.txt"
    awk -v left="$(printf '%s|' "$@")" '
        /^ *\/\/\{ / {
            name = $0
            sub(/^ *\/\/\{ */, "", name)
            sub(/ *:.*/, "", name)
            inside = 1
            keep = index("|" left, "|" name "|")
            if (NR != FNR) print
            next
        }
        /^ *\/\/\}/ {
            if (NR != FNR) print (keep ? shipped[name] : "") $0
            inside = keep = 0
            next
        }
        NR == FNR { if (inside) shipped[name] = shipped[name] $0 "\n"; next }
        !(inside && keep)
    ' "$out/skeleton.txt" solutions/"$n"/*.c* >"$out/filled_$n.txt"
}
# asks WANT NN/WRONG GAP...: what is said of a wrong solution when these gaps are as shipped?
asks() {
    want=$1 n=${2%%/*} wrong=$2
    shift 2
    without "$n" "$@"
    got=$(WB_WORKER=$out/wrong/$wrong/${n}_worker "$diagnose" -v --source "$out/filled_$n.txt" "$n" | sed -n 's/^id //p')
    [ "${got:--}" = "$want" ] || fail "$wrong, with $* as shipped: wanted $want, got ${got:--}"
}
asks dS_is_P 08/P_not_dS
asks dS_is_P 08/P_not_dS "dV"                 # dK and dQ show it
asks - 08/P_not_dS "dS" "dS for dQ"           # nothing is done that could
asks - 08/P_not_dS delta                      # both need it
asks - 09/sinks_without_far_queries queries
asks pairs_missing 09/sinks_without_far_queries keys "mask of dK and dV"  # which queries a block meets depends on neither
asks O_not_rescaled 01/O_not_rescaled mask finalize                       # without a mask it shows as well, and before the end
asks - 01/O_not_rescaled rescale
asks - 13/weights_in_base_2 finalize                                      # parts are not what they say
asks - 13/rows_that_see_nothing_are_NaN "packed rows"
asks - 03/l_of_the_last_tile tail             # the weights of keys that do not exist would be in l
asks dsinks_base_2 12/rows_of_thread_0_in_base_2 "sum of the block"       # of one row thread 0's sum is the block's
asks merge_by_halves 17/merge_by_halves owner wait travel release  # one rank shows it
asks - 17/merge_by_halves zigzag              # what is merged may be others' parts
asks - 17/keys_of_the_next_rank travel
asks delta_is_0 18/delta_left_out when add gradients keys
asks - 18/adds_twice gradients

# Pairs are counted without keys that do not exist, unless it is these that are seen.
counts() { # NN/WRONG TEXT
    said=$(WB_WORKER=$out/wrong/$1/${1%%/*}_worker "$diagnose" "${1%%/*}")
    case $said in *"$2"*) ;; *) fail "$1: not \"$2\": $said" ;; esac
}
counts 03/ragged_keys_off_by_one "of the 2040 pairs with keys that do not exist 40 get a weight, as query 0 and key 13"
counts 06/no_causal_mask "of the 380 pairs to be hidden 380 get a weight, as query 0 and key 1, and keys that do not exist, too"
# What is loaded in vain is seen by the layer's watch, in a case that has one; of a kernel in plain CUDA nothing is seen, and that is said.
said=$(WB_WORKER=$out/wrong/06/ordinary_loads_from_tile_0/06_worker "$diagnose" -v 06 B=1,Hq=2,Nq=1024,D=16,W=64,watched=1)
case $said in *"id tile_in_vain"*"look at: first tile;"*) ;; *) fail "06/ordinary_loads_from_tile_0, watched: $said" ;; esac
said=$(WB_WORKER=$out/honest/03_warp_a_row/03_worker "$diagnose" 03)
[ $? -eq 1 ] && case $said in *"nothing is said. "*"the words of the lesson"*) ;; *) false ;; esac || fail "a kernel in plain CUDA: $said"
said=$(WB_WORKER=$out/honest/03_warp_a_row/03_worker "$diagnose" --source problems/03/flash_forward.cu 03)
[ -z "$said" ] || fail "with gaps as shipped: $said"

# A GPU keeps no record of products, so test.sh asks the layer's worker there. Links play such a machine: what runs on its "GPU" has no record either.
played() { # NN/WRONG SENTENCE
    n=${1%%/*} impl=wrong/$1
    mkdir -p build/cuda/tests "build/cuda/$impl"
    for p in suite score diagnose; do ln -sf ../cpu/$p build/cuda/$p; done
    ln -sf "../../cpu/tests/${n}_test" "build/cuda/tests/${n}_test"
    ln -f "$out/$impl/${n}_worker" "build/cuda/$impl/${n}_worker"
    MAKE=true WB_JOBS=1 SANITIZE=0 WB_SOURCES=solutions workbook/loop/test.sh cuda "$impl" "$n" >/dev/null 2>&1
    grep -q "$2" "build/cuda/$impl/grade/$n.mistake" || fail "$1 on a GPU machine that is played: not \"$2\""
}
if ! [ -e build/cuda ]; then
    ${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" WERROR=1 BACKEND=cpu $out/suite $out/score $out/tests/01_test $out/tests/03_test $out/tests/08_test >/dev/null || failed=1
    played 01/O_not_rescaled "O is not rescaled"
    played 03/l_of_the_last_tile "l has the last tile alone"
    played 08/P_not_dS "it is P"
    rm -rf build/cuda
fi

{
    for n in $numbers; do echo "$n -"; done
    echo "$list"
} | xargs -P "${WB_JOBS:-2}" -n 2 "$0" --one >"$out/known.txt"
! grep '^FAIL' "$out/known.txt" || failed=1
[ "$(grep -c . "$out/known.txt")" -eq "$(printf '%s\n' "$numbers" "$list" | grep -c .)" ] || failed=1
echo "$(grep -c '^named' "$out/known.txt") wrong solutions named, $(grep -c '^silent.*/' "$out/known.txt") rightly not named"
exit $failed
