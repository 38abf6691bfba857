#!/bin/sh
# compile_gpu.sh FILE [ARCH...] - compiles a CUDA file, warnings as errors, for the oldest GPU that we support (sm_75:
# no bf16 tensor cores), sm_80, sm_90a, and the newest that this nvcc knows, or for those given. Exit status
# 77: there is no nvcc.
set -u
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "no nvcc here, nothing compiled"; exit 77; }
file=$1
shift
[ $# -gt 0 ] || set -- 75 80 90a "$("$nvcc" --list-gpu-arch | sed 's/compute_//' | sort -n | tail -n 1)"
# Nothing is run, so nothing need be fast: newer compilers can be told so, and take a third of the time.
quick=
! "$nvcc" --help | grep -q -e --Ofast-compile || quick=--Ofast-compile=max
codes=
for arch; do codes="$codes -gencode=arch=compute_$arch,code=sm_$arch"; done
# shellcheck disable=SC2086
"$nvcc" -std=c++17 $quick $codes -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
    -Iworkbook -Iworkbook/words -I. -Itests -c "$file" -o /dev/null && echo "ok    $file: $*"
