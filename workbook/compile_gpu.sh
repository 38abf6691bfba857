#!/bin/sh
# compile_gpu.sh - compiles every CUDA file, warnings as errors, for the oldest GPU that we support (sm_75: no bf16 tensor cores),
# sm_80, sm_90a, and the newest that this nvcc knows. Runs nothing, so it needs no GPU.
set -u
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "make compile-gpu: no nvcc here, nothing compiled"; exit 0; }
newest=$("$nvcc" --list-gpu-arch | sed 's/compute_//' | sort -n | tail -n 1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
for arch in 75 80 90a "$newest"; do
    for file in workbook/*.cu reference/*.cu problems/[0-9][0-9]/*.cu solutions/[0-9][0-9]/*.cu solutions/[0-9][0-9]/variants/*.cu tests/*.cu; do
        echo "$arch $file"
    done
done >"$scratch/jobs"
# shellcheck disable=SC2016
xargs -P "$WB_JOBS" -L 1 sh -c '
    "$0" -std=c++17 -O3 -gencode=arch=compute_$2,code=sm_$2 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
        -Iworkbook -Itests -c "$3" -o "$1/$2_$(echo "$3" | tr / _).o" >"$1/log.$$" 2>&1
    status=$?
    [ $status -eq 0 ] && echo "  ok    sm_$2 $3" || { echo "  FAIL  sm_$2 $3"; cat "$1/log.$$"; }
    exit $status
' "$nvcc" "$scratch" <"$scratch/jobs" || failed=1
[ $failed -eq 0 ] && echo "compile-gpu: everything compiles for sm_75, sm_80, sm_90a and sm_$newest"
exit $failed
