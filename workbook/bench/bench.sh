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
        workbook/bench/ring.sh "$backend" "$impl" "$number" || failed=1
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
