#!/bin/sh
# bundle.sh BACKEND NN... - collects test, worker and bench programs, with the shared libraries they need (the C
# library's and CUDA's aside), in build/BACKEND/bundle: a folder that runs on a machine that has none of the workbook's
# tools.
set -eu
. workbook/loop/source.sh
backend=$1
shift
out=build/$backend bundle=build/$backend/bundle
impls=problems
[ -d solutions ] && impls="problems solutions"

targets="$out/bench $out/suite"
if [ -d solutions ]; then
    targets="$targets $out/lib/libworkbook.so $out/lib/libworkbook_all.so $out/lib/libkernels.so"
    targets="$targets $(WB_BUILDING=yes $MAKE --no-print-directory -s BACKEND="$backend" library-workers)"
fi
for number; do
    find_source problems "$number"
    targets="$targets $out/tests/${number}_test"
    for impl in $impls; do
        # What is not started stays here: there is nothing to test or time.
        if [ "$impl" = problems ] && "$out/score" untouched "$file"; then continue; fi
        targets="$targets $out/$impl/${number}_worker $out/$impl/$number.so"
        ring=$(ring_of "$number")
        [ -z "$ring" ] || targets="$targets $out/reference/$ring $out/$impl/$ring"
    done
    for variant in solutions/"$number"/variants/*.cu; do
        folder=$out/variants/$number/variants/$(basename "$variant" .cu)
        if [ -f "$variant" ]; then targets="$targets $folder/${number}_worker $folder/$number.so"; fi
        if [ -f "$variant" ] && [ -n "$(ring_of "$number")" ]; then targets="$targets $folder/$(ring_of "$number")"; fi
    done
done
# Not tuned to this machine's CPU: the bundle runs on another.
case $(uname -m) in x86_64) march=x86-64-v3 ;; *) march=armv8-a ;; esac
# The machinery's own suites that have kernels, but for that of the other backend.
for t in $(ls tests/*.cu | sed 's|^tests/||; s|\.cu$||' | grep -vx -e layer -e ranks); do
    targets="$targets $out/tests/${t}_test"
done
# shellcheck disable=SC2086
$MAKE --no-print-directory -j"$WB_JOBS" BACKEND="$backend" MARCH=$march $targets

rm -rf "$bundle"
mkdir -p "$bundle/lib"
for target in $targets; do
    mkdir -p "$bundle/$(dirname "$target")"
    cp "$target" "$bundle/$target"
    ldd "$target" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | grep -vE '/lib(kernels|c|m|dl|rt|pthread|stdc\+\+|gcc_s|cudart|cublas(Lt)?|cuda)\.so|/ld-linux' |
    xargs -I{} cp -L {} "$bundle/lib/"
# The lessons are what gpt_oss.py trains on.
for file in plots/duel.awk workbook/bench/record.sh workbook/bench/ring.sh workbook/bench/verdict.awk \
    workbook/sanitize/sanitize.sh workbook/sanitize/sanitize_gpu.awk workbook/loop/source.sh \
    workbook/tile.cuh workbook/early.cuh workbook/paged.cuh workbook/int8.cuh reference/flash_workbook/*.py \
    reference/*.py reference/shapes.txt problems/[0-9][0-9]/README.md; do
    mkdir -p "$bundle/${file%/*}"
    cp "$file" "$bundle/$file"
done
for number in 02 03; do  # compute-sanitizer's reports name lines of these
    [ -d solutions/$number ] || continue
    mkdir -p "$bundle/solutions/$number" && cp solutions/$number/*.cu "$bundle/solutions/$number/"
done
for variant in solutions/*/variants/*.cu; do
    number=$(echo "$variant" | cut -d/ -f2)
    [ -f "$variant" ] || continue
    sed -n 's|^// exempt: ||p' "$variant" \
        >"$bundle/$out/variants/$number/variants/$(basename "$variant" .cu)/exempt"
done
# Which tests the library's kernels are exempt from.
if [ -f solutions/library.c ]; then mkdir -p "$bundle/solutions" && cp solutions/library.c "$bundle/solutions/"; fi
mkdir "$bundle/tests"
for test in tests/[0-9]*.c; do : >"$bundle/$test"; done  # record.sh knows problems by these names
for number; do basename "$(ls tests/"$number"_*.c)" .c | sed 's/_/ /'; done >"$bundle/names"
git describe --always --dirty --abbrev=10 >"$bundle/commit" 2>/dev/null || echo unknown >"$bundle/commit"
cat >"$bundle/run.sh" <<END
#!/bin/sh
# ./run.sh test [IMPL [NN...]]     the suites; IMPL is problems (your code) or solutions ./run.sh own
# the machinery's own suites ./run.sh bench [NN...]           times, into results/NN_name.tsv: copy them to
# $out/results/ of the workbook, then make plot-NN ./run.sh record OUTDIR [PART...] all that is recorded of the answer
# keys; PART: suites bench peers example torch gpt_oss duel sanitize
set -u
case \$0 in /*) here=\$0 ;; *) here=\$PWD/\$0 ;; esac
from=\$PWD
cd "\$(dirname "\$here")"
export WB_OUTER_LIBRARY_PATH="\${LD_LIBRARY_PATH:-}"
export LD_LIBRARY_PATH="\$PWD/lib:\${CUDA_HOME:-/usr/local/cuda}/lib64:\${LD_LIBRARY_PATH:-}"
export WB_COMMIT="\$(cat commit)"
# NCCL, for 17 and 18: where the system has none, Python's.
of_python=\$(\${PYTHON:-python3} -c 'import nvidia.nccl as n; print(*n.__path__)' 2>/dev/null)/lib/libnccl.so.2
ldconfig -p 2>/dev/null | grep -q libnccl.so.2 || : "\${WB_NCCL:=\$(ls "\$of_python" 2>/dev/null)}"
[ -z "\${WB_NCCL:-}" ] || export WB_NCCL
numbers="$*"
what=\${1:-test}
[ \$# -gt 0 ] && shift
failed=0
case \$what in
test)
    impl=\${1:-problems}
    [ \$# -gt 0 ] && shift
    for n in \${*:-\$numbers}; do
        echo "== \$n (\$impl)"
        [ -f $out/\$impl/\${n}_worker ] || { echo "  not started"; continue; }
        $out/suite $out/tests/\${n}_test $out/\$impl/\${n}_worker $backend || failed=1
    done
    ;;
own)
    for t in $out/tests/[!0-9]*_test; do
        echo "== \$t"
        $out/suite \$t none $backend || failed=1
    done
    ;;
bench)
    mkdir -p results
    for n in \${*:-\$numbers}; do
        set --
        if [ -n "\$(. workbook/loop/source.sh; ring_of \$n)" ]; then # of several processes
            workbook/bench/ring.sh $backend problems \$n "results/\${n}_\$(sed -n "s/^\$n //p" names).tsv" || failed=1
            continue
        fi
        for impl in $impls; do
            [ \$impl = problems ] && label=yours || label=key
            [ -f $out/\$impl/\$n.so ] && set -- "\$@" --impl \$label=$out/\$impl/\$n.so
        done
        table=results/\${n}_\$(sed -n "s/^\$n //p" names).tsv
        $out/bench \$n "\$@" --naive --sweep --out "\$table" || failed=1
        awk -f workbook/bench/verdict.awk "\$table"
    done
    ;;
record)
    [ \$# -gt 0 ] || { echo "usage: \$0 record OUTDIR [PART...]"; exit 2; }
    case \$1 in /*) to=\$1 ;; *) to=\$from/\$1 ;; esac
    shift
    exec workbook/bench/record.sh $backend "\$to" "\$@"
    ;;
*) echo "usage: \$0 test|own|bench|record"; exit 2 ;;
esac
exit \$failed
END
chmod +x "$bundle/run.sh"
test=./run.sh\ test$([ ! -d solutions ] || echo " solutions")
echo "bundle: $(du -sh "$bundle" | cut -f1) in $bundle. Copy it to the GPU machine, then there: $test; ./run.sh bench"
