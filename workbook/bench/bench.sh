#!/bin/sh
# bench.sh BACKEND IMPL NN... - times your function, the reference solution and the naive baseline side by side; the
# table goes to build/BACKEND/results/NN_name.tsv, which plot-NN draws, or into the folder TO. On a GPU it ends with a
# verdict: how far from the roofs. WITH_VARIANTS=1 times the key's variants as well ("// exempt: times" is said of one
# that is for reading and too slow), and there what the library takes, so that a wrong choice is seen;
# WITH_VARIANTS=slow the lab's kernels of 03. An implementation that is wrong, crashes or hangs is named and left out.
# Exit status: 1 if one was, or a problem does not compile.
set -u
. workbook/loop/source.sh
backend=$1 impl=$2
shift 2
out=build/$backend to=${TO:-build/$backend/results}
failed=0
mkdir -p "$to"
# Of several processes, 17 and 18: yours, the reference solution and its variants over numbers of ranks and lengths, by
# start/ring.cu, which checks each. On GPUs, as many ranks as there are, with times; on the CPU execution layer what a
# rank takes of memory. With LONG="524288 1048576" instead, into NN_name_long.tsv: the key alone at these lengths, on
# all GPUs, once.
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
ring() { # PROGRAM
    program=$1 table=$to/${number}_$name${LONG:+_long}.tsv
    programs=
    if [ "$impl" = problems ] && "$out/wb" untouched "$file"; then
        echo "  your function is not started: only the reference solution"
    elif [ "$impl" = problems ]; then programs=yours=$out/problems/$program
    fi
    for ring in key=$out/solutions "$out"/variants/$number/variants/*; do
        case $ring in *'*') continue ;; key=*) ;; *) ring=$(basename "$ring")=$ring ;; esac
        programs="$programs $ring/$program"
    done
    # shellcheck disable=SC2046
    $MAKE --no-print-directory -j"$JOBS" BACKEND="$backend" $(printf '%s\n' $programs | sed 's/.*=//') \
        >"$out/$number.log" 2>&1 || { cat "$out/$number.log"; failed=1; return; }
    {
        echo "# problem: $number $name"
        head_lines "$backend" "make bench-$number IMPL=$impl"
        echo "# gpus: $gpus"
        echo "# bytes: of rank 0, which has the most: inputs and outputs, plus its workspace"
        printf 'problem\timpl\tB\tHq\tHkv\tNq\tNk\tD\tcausal\tranks\tms\tms_p10\tms_p90\ttflops\tio_bytes\tpeak_bytes\n'
    } >"$table"
    if [ -n "${LONG:-}" ]; then
        programs=key=$out/solutions/$program ranks=$((gpus + (gpus == 0)))
        for N in $LONG; do row $ranks "$N" 128 32/8 1 1; done
    elif [ "$backend" = cuda ]; then
        for ranks in 1 2 4 8; do
            [ $ranks -le "$gpus" ] || continue
            for N in 4096 8192 16384 32768 65536 131072; do row $ranks $N 128 32/8 1; done
            for N in 32768 131072; do row $ranks $N 128 32/8 0; done
            for N in 32768 131072; do row $ranks $N 64 32/8 1; done
        done
    else
        for ranks in 1 2 4 8; do row $ranks 512 64 4/2 1; done
        for N in 128 256 1024; do row 4 $N 64 4/2 1; done
    fi
    echo "written: $table"
}

for number; do
    echo "FlashAttention workbook: bench of problem $number, $backend backend. Next: make plot-$number"
    key=
    [ ! -d solutions/"$number" ] || key=$out/solutions/$number.so
    variants=
    for variant in solutions/"$number"/variants/*.cu; do
        [ -f "$variant" ] && [ "${WITH_VARIANTS:-slow}" != slow ] || continue
        ! grep -q '^// exempt: .*times' "$variant" || continue
        variants="$variants $out/variants/$number/variants/$(basename "$variant" .cu)/$number.so"
    done
    [ "${WITH_VARIANTS:-} $number" != "slow 03" ] || # the lab's
        variants=$(awk -v list=solutions/03/slow.diff -v tell=names -f workbook/loop/edit.awk |
            sed "s|.*|$out/slow/&/03.so|")
    # shellcheck disable=SC2086
    if ! $MAKE --no-print-directory -j"$JOBS" BACKEND="$backend" "$out/wb" "$out/bench" \
        "$out/$impl/$number.so" $key $variants >"$out/$number.log" 2>&1; then
        cat "$out/$number.log"
        failed=1
        continue
    fi
    find_source problems "$number"
    if [ -n "$(ring_of "$number")" ]; then # of several processes
        ring "$(ring_of "$number")"
        continue
    fi
    table=$to/${number}_$name.tsv
    set --
    if [ "$impl" = problems ] && "$out/wb" untouched "$file"; then
        echo "  your function is not started: only the reference solution and the naive baseline"
    elif [ "$impl" != solutions ]; then set -- --impl "yours=$out/$impl/$number.so"
    fi
    if [ -f "$out/solutions/$number.so" ]; then set -- "$@" --impl "key=$out/solutions/$number.so"; fi
    for variant in $variants; do set -- "$@" --impl "$(basename "$(dirname "$variant")")=$variant"; done
    [ "$backend,${WITH_VARIANTS:-}" != cuda,1 ] || [ ! -x "$out/lib/${number}_worker" ] ||
        set -- "$@" --impl "library=$out/lib/libworkbook.so"
    if ! "$out/bench" "$number" "$@" --naive --sweep --out "$table"; then
        failed=1
        if grep -q '^# yours is left out' "$table" 2>/dev/null; then
            sed -n 's/^# \(yours is left out.*\)/bench: \1/p' "$table" >&2
            echo "bench: continuing without it; make test-$number and make sanitize-$number tell more" >&2
        fi
    fi
    awk -f workbook/bench/verdict.awk "$table"
    echo "written: $table"
done
exit $failed
