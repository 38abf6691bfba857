#!/bin/sh
# gaps.sh - diagnose names nothing while a gap that the wrong output needs is as shipped; of a kernel in plain CUDA, of
# which nothing is seen, it says that.
set -u
out=build/cpu
diagnose=$out/diagnose
. tests/prove/frame.sh

# with NN GAP...: the key of NN, but for these gaps, which are as shipped
without() {
    n=$1
    shift
    workbook/loop/shipped.sh "$n" "$scratch/skeleton" 2>/dev/null || cat problems/"$n"/*.c* >"$scratch/skeleton"
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
    ' "$scratch/skeleton" solutions/"$n"/*.c* >"$scratch/filled"
}
# asks WANT NN/WRONG GAP...: what is said of a wrong solution when these gaps are as shipped?
asks() {
    want=$1 n=${2%%/*} wrong=$2
    shift 2
    without "$n" "$@"
    got=$(WB_WORKER=$out/wrong/$wrong/${n}_worker "$diagnose" -v --source "$scratch/filled" "$n" | sed -n 's/^id //p')
    [ "${got:--}" = "$want" ] || fail "$wrong, with $* as shipped: wanted $want, got ${got:--}"
}
asks P 08/P_not_dS
asks P 08/P_not_dS "dV"                       # dK and dQ show it
asks - 08/P_not_dS "dS" "dS for dQ"           # nothing is done that could
asks - 08/P_not_dS delta                      # both need it
asks - 09/sinks_without_far_queries queries
# Which queries a block meets depends on neither.
asks keys_missing 09/sinks_without_far_queries keys "mask of dK and dV"
asks - 09/first_part_only parts               # what no part has is not in their sum
asks 0 01/O_not_rescaled mask finalize        # without a mask it shows as well, and before the end
asks - 01/O_not_rescaled rescale
asks - 13/weights_in_base_2 finalize                                      # parts are not what they say
asks - 13/rows_that_see_nothing_are_NaN "packed rows"
asks - 03/l_of_the_last_tile tail             # the weights of keys that do not exist would be in l
asks - 04/exp2_without_log2e bounds           # it lies in code that was given: no gap may be as shipped
asks "2^(s - L) delta" 12/rows_of_thread_0_in_base_2 "sum of the block"  # of one row thread 0's sum is the block's
asks "all parts have the same weight" 17/merge_by_halves owner wait travel release  # one rank shows it
asks - 17/merge_by_halves zigzag              # what is merged may be others' parts
asks - 17/keys_of_the_next_rank travel
asks 0 18/delta_left_out when add gradients keys
asks - 18/adds_twice gradients

# What is loaded in vain is seen by the layer's watch, in a case that has one.
wrong=06/ordinary_loads_from_tile_0
said=$(WB_WORKER=$out/wrong/$wrong/06_worker "$diagnose" -v 06 B=1,Hq=2,Nq=1024,D=16,W=64,watched=1)
case $said in *"id tile_in_vain"*"gaps first tile"*) ;; *) fail "$wrong, watched: $said" ;; esac
said=$(WB_WORKER=$out/honest/03_cp_async/03_worker "$diagnose" 03)
[ $? -eq 1 ] && case $said in *"no result. "*"the primitives of the lesson"*) ;; *) false ;; esac ||
    fail "a kernel in plain CUDA: $said"
said=$(WB_WORKER=$out/honest/03_cp_async/03_worker "$diagnose" --source problems/03/flash_forward.cu 03)
[ -z "$said" ] || fail "with gaps as shipped: $said"
[ $failed -ne 0 ] || echo "all is named, or not, as it should be"
exit $failed
