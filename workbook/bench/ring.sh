#!/bin/sh
# ring.sh BACKEND IMPL NN [TABLE] - problem 17 or 18 on several ranks: yours, the reference solution and its variants
# over numbers of ranks and lengths, by start/ring.cu, which checks each. On GPUs, as many ranks as there are, with
# times; on the CPU execution layer what a rank takes of memory. TABLE is build/BACKEND/results/NN_name.tsv, which
# plot-NN draws. With LONG="524288 1048576" instead, into NN_name_long.tsv: the key alone at these lengths, on all GPUs,
# once. Exit status: 1 if one is wrong or does not compile. Called by bench.sh and record.sh.
set -u
. workbook/loop/source.sh
backend=$1 impl=$2 number=$3
out=build/$backend program=$(ring_of "$number")
find_source problems $number
table=${4:-$out/results/${number}_$name${LONG:+_long}.tsv}
programs=
if [ "$impl" = problems ] && [ -x "$out/wb" ] && "$out/wb" untouched "$file"; then
    echo "  your function is not started: only the reference solution"
elif [ "$impl" = problems ]; then programs=yours=$out/problems/$program
fi
for ring in key=$out/solutions "$out"/variants/$number/variants/*; do
    case $ring in *'*') continue ;; key=*) ;; *) ring=$(basename "$ring")=$ring ;; esac
    programs="$programs $ring/$program"
done
# shellcheck disable=SC2046
$MAKE --no-print-directory -j"$JOBS" BACKEND="$backend" $(printf '%s\n' $programs | sed 's/.*=//') \
    >"$out/$number.log" 2>&1 || { cat "$out/$number.log"; exit 1; }

mkdir -p "$(dirname "$table")"
{
    echo "# problem: $number $name"
    head_lines "$backend" "make bench-$number IMPL=$impl"
    echo "# gpus: $gpus"
    echo "# bytes: of rank 0, which has the most: inputs and outputs, plus its workspace"
    printf 'problem\timpl\tB\tHq\tHkv\tNq\tNk\tD\tcausal\tranks\tms\tms_p10\tms_p90\ttflops\tio_bytes\tpeak_bytes\n'
} >"$table"
failed=0
row() { # RANKS N D HEADS CAUSAL [RUNS]
    for each in $programs; do # they take turns
        [ -x "${each#*=}" ] || continue
        "${each#*=}" RANKS="$1" N="$2" D="$3" HEADS="$4" CAUSAL="$5" RUNS="${6:-$(($2 < 65536 ? 10 : 5))}" \
            TO="$table" AS="${each%%=*}" >"$out/$number.log" 2>&1 && continue
        failed=1
        echo "bench: ${each%%=*} is left out at RANKS=$1 N=$2 D=$3 HEADS=$4 CAUSAL=$5:"
        sed 's/^/  /' "$out/$number.log"
    done
}
if [ -n "${LONG:-}" ]; then
    programs=key=$out/solutions/$program ranks=$((gpus + (gpus == 0)))
    for N in $LONG; do row $ranks "$N" 128 32/8 1 1; done
elif [ "$backend" = cuda ]; then
    for ranks in 1 2 4 8; do
        [ $ranks -le "$gpus" ] || continue
        for N in 4096 8192 16384 32768 65536 131072; do row $ranks $N 128 32/8 1; done
        row $ranks 32768 128 32/8 0
        row $ranks 131072 128 32/8 0
        row $ranks 32768 64 32/8 1
        row $ranks 131072 64 32/8 1
    done
else
    for ranks in 1 2 4 8; do row $ranks 512 64 4/2 1; done
    for N in 128 256 1024; do row 4 $N 64 4/2 1; done
fi
echo "written: $table"
exit $failed
