#!/bin/sh
# compile_gpu.sh - compiles every CUDA file, warnings as errors, for the oldest GPU that we support (sm_75: no bf16
# tensor cores), sm_80, sm_90a, and the newest that this nvcc knows. Runs nothing, so it needs no GPU.
set -u
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "make compile-gpu: no nvcc here, nothing compiled"; exit 0; }
newest=$("$nvcc" --list-gpu-arch | sed 's/compute_//' | sort -n | tail -n 1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
# Nothing is run, so nothing need be fast: newer compilers can be told so, and take a third of the time.
quick=
! "$nvcc" --help | grep -q -e --Ofast-compile || quick=--Ofast-compile=max
# One nvcc a file compiles it for all of them, and what is for the host once; large files first. COMPILED=80 (.ci/run):
# a bundle for sm_80 was made just now, with warnings as errors; what is in it is not compiled for that again.
codes=
for arch in 75 80 90a "$newest"; do codes="$codes -gencode=arch=compute_$arch,code=sm_$arch"; done
export codes quick nvcc scratch
# shellcheck disable=SC2016
ls -S workbook/*.cu workbook/*/*.cu reference/*.cu problems/[0-9][0-9]/*.cu solutions/[0-9][0-9]/*.cu \
    solutions/[0-9][0-9]/variants/*.cu examples/*.cu tests/*.cu 2>/dev/null |
    xargs -P "$WB_JOBS" -n 1 sh -c '
        object=build/cuda/$(echo "$1" | sed -E "s|^solutions/(..)/(variants/.*)[.]cu|variants/\1/\2/\1.o|
            s|^(solutions/..)/.*|\1.o|
            s|^workbook/|machinery/|
            s|[.]cu$|.o|")
        [ -z "${COMPILED:-}" ] || [ ! "$object" -nt "$1" ] ||
            codes=$(echo "$codes" | sed "s/ -gencode=arch=compute_$COMPILED,code=sm_$COMPILED//")
        "$nvcc" -std=c++17 -O3 $quick $codes -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
            -Iworkbook -Iworkbook/words -I. -Itests -c "$1" -o "$scratch/$(echo "$1" | tr / _).o" >"$scratch/log.$$" 2>&1
        status=$?
        [ $status -eq 0 ] && echo "  ok    $1" || { echo "  FAIL  $1"; cat "$scratch/log.$$"; }
        exit $status
    ' sh || failed=1
[ $failed -eq 0 ] && echo "compile-gpu: everything compiles for sm_75, sm_80, sm_90a and sm_$newest"
exit $failed
