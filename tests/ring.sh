#!/bin/sh
# ring.sh - make ring: the reference solutions of 17 and 18 on ranks of this machine are found right, in shapes that
# are listed and drawn (SEED=); what is wrong is found wrong, and no rank is left behind.
set -u
. tests/prove/frame.sh
out=build/cpu
programs="$out/solutions/ring $out/solutions/ring_backward"
# shellcheck disable=SC2086
check "the ring's programs build" made BACKEND=cpu $out/wb $programs \
    $out/wrong/17/merge_without_denominators/ring $out/wrong/17/no_wait/ring
[ $failed -eq 0 ] || exit 1

ran() { $out/wb within 600 "$@" >"$said" 2>&1 </dev/null; }
says() { grep -q -- "$1" "$said"; }
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
{
    printf '%s\n' "RANKS=1 N=7" "RANKS=3 N=50 D=64 HEADS=6/3 CAUSAL=0" "RANKS=5 N=4" "RANKS=8 N=40 D=64 HEADS=2/1 B=2"
    awk -v seed="$seed" 'function below(n) { return int(rand() * n) }
        BEGIN {
            srand(seed)
            for (i = 0; i < 4; i++) {
                kv = 1 + below(3)
                printf "RANKS=%d N=%d B=%d D=%d HEADS=%d/%d CAUSAL=%d SEED=%d\n", 1 + below(8), 1 + below(200),
                    1 + below(2), 64 + 64 * below(2), kv * (1 + below(3)), kv, below(2), below(1000)
            }
        }'
} >"$said.shapes"
while read -r arguments; do
    for program in $programs; do
        # shellcheck disable=SC2086
        ran $program $arguments && says ": right"
        verdict $? "${program#"$out"/} $arguments"
    done
done <"$said.shapes"

# What the CPU layer plays of NCCL is called on a GPU as well.
grep -o 'nccl[A-Z][A-Za-z]*(' workbook/cpu/nccl.cpp | sort -u >"$said.played"
grep -o 'nccl[A-Z][A-Za-z]*' workbook/nccl/nccl.cu | sed 's/$/(/' | grep -vxFf - "$said.played" >"$said"
[ $? -eq 1 ] && [ -s "$said.played" ]
verdict $? "each NCCL function that the layer emulates is forwarded"
ran $MAKE --no-print-directory -s ring BACKEND=cpu IMPL=solutions RANKS=2 N=20 &&
    says "2 ranks on CPU execution layer: .* N 20"
verdict $? "make ring RANKS=2 N=20"
ran $MAKE --no-print-directory -s ring BACKEND=cpu IMPL=solutions PASS=backward RANKS=2 N=20 && says "dQ off by"
verdict $? "make ring PASS=backward RANKS=2 N=20"

ran $out/wrong/17/merge_without_denominators/ring RANKS=2 N=40 D=64
[ $? -eq 3 ] && says "WRONG"
verdict $? "a wrong merge is found"
ran $out/wrong/17/no_wait/ring RANKS=3 N=40 D=64
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] && says "touched before it arrived"
verdict $? "a report of one rank ends all"

for words in N=0 N=x D=65 RANKS=0 RANKS=99 HEADS=3/2 M=4 N; do
    ran $out/solutions/ring RANKS=2 "$words"
    [ $? -eq 2 ] && [ -s "$said" ]
    verdict $? "ring $words is refused"
done
exit $failed
