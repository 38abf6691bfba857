#!/bin/sh
# bundle.sh BACKEND NN... - collects test, worker and bench programs, with the shared libraries they need (the C
# library's and CUDA's aside), in build/BACKEND/bundle: a folder that runs on a machine that has none of the workbook's
# tools. DRY=-n: make says how it would make each, and nothing is built.
set -eu
. workbook/loop/source.sh
backend=$1
shift
out=build/$backend bundle=build/$backend/bundle
impls=problems
[ -d solutions ] && impls="problems solutions"

targets="$out/bench $out/wb"
if [ -d solutions ]; then
    targets="$targets $out/lib/libworkbook.so $out/lib/libworkbook_all.so $out/lib/libkernels.so"
    targets="$targets $(WB_BUILDING=yes $MAKE --no-print-directory -s BACKEND="$backend" library-workers)"
fi
for number; do
    find_source problems "$number"
    targets="$targets $out/tests/${number}_test"
    for impl in $impls; do
        # What is not started stays here: there is nothing to test or time.
        if [ "$impl" = problems ] && "$out/wb" untouched "$file"; then continue; fi
        targets="$targets $out/$impl/${number}_worker $out/$impl/$number.so"
        ring=$(ring_of "$number")
        [ -z "$ring" ] || targets="$targets $out/$impl/$ring"
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
$MAKE --no-print-directory ${DRY:-} -j"$WB_JOBS" BACKEND="$backend" MARCH=$march $targets
[ -z "${DRY:-}" ] || exit 0

rm -rf "$bundle"
mkdir -p "$bundle/lib"
for target in $targets; do
    mkdir -p "$bundle/$(dirname "$target")"
    cp "$target" "$bundle/$target"
    ldd "$target" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | grep -vE '/lib(kernels|c|m|dl|rt|pthread|stdc\+\+|gcc_s|cudart|cublas(Lt)?|cuda)\.so|/ld-linux' |
    xargs -I{} cp -L {} "$bundle/lib/"
# The lessons are what gpt_oss.py trains on.
for file in plots/duel.awk workbook/bench/bench.sh workbook/bench/record.sh workbook/bench/ring.sh \
    workbook/bench/verdict.awk workbook/sanitize/sanitize_gpu.awk workbook/loop/source.sh \
    workbook/words/fragments.cuh workbook/words/tile.cuh workbook/words/early.cuh \
    workbook/words/paged.cuh workbook/words/int8.cuh workbook/workbook.h reference/flash_workbook/*.py \
    reference/flash_workbook/operators.cpp reference/*.py reference/shapes.txt problems/[0-9][0-9]/README.md; do
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
if [ -f solutions/kernels.h ]; then mkdir -p "$bundle/solutions" && cp solutions/kernels.h "$bundle/solutions/"; fi
mkdir "$bundle/tests"
for test in tests/[0-9]*.c; do : >"$bundle/$test"; done  # record.sh knows problems by these names
git describe --always --dirty --abbrev=10 >"$bundle/commit" 2>/dev/null || echo unknown >"$bundle/commit"
cp workbook/bench/run.sh "$bundle/"
test=./run.sh\ test$([ ! -d solutions ] || echo " solutions")
echo "bundle: $(du -sh "$bundle" | cut -f1) in $bundle. Copy it to the GPU machine, then there: $test; ./run.sh bench"
