#!/bin/sh
# probe.sh ASKED - what this machine has, for workbook/settings.mk, into build/tools.mk; ASKED: what it was asked for,
# noted there. The oracle uses OpenMP where there is one (clang has it in a package of its own), and takes longer where
# there is none. CLANG, GCC: its version, if it is that compiler (clang takes itself for an old gcc). A GPU that does
# not answer may answer later: then nothing is noted for good. What an upload, a .zip or a disk of Windows made no
# program is one again.
[ -x "$0" ] || grep -lrE --exclude-dir=build --include='*.sh' --include='run*' '^.!/bin/(ba)?sh' . | xargs chmod a+x
t=$(mktemp -d) && mkdir -p build || exit 1
trap 'rm -rf "$t"' EXIT
echo 'int main(void){return 0;}' >"$t/t.c"
with_openmp() { $CC -fopenmp "$t/t.c" -o "$t/t" && $CXX -x c++ -fopenmp "$t/t.c" -o "$t/t"; }
defined() { $CXX -dM -E -x c++ /dev/null | sed -n "s/.*$1 //p"; }
nccl_of_python() { ls "$(python3 -c 'import nvidia.nccl as n; print(*n.__path__)')/lib/libnccl.so.2"; }
{
    echo "PROBED := $1"
    echo "OPENBLAS_CFLAGS := $(pkg-config --cflags openblas)"
    echo "OPENBLAS_LIBS := $(pkg-config --libs openblas || echo -lopenblas)"
    echo "OPENMP := $(with_openmp && echo -fopenmp || echo -Wno-unknown-pragmas)"
    echo "PYTHON_NCCL := $(ldconfig -p | grep -q libnccl.so.2 || nccl_of_python)"
    echo "CLANG := $(defined __clang_major__)"
    echo "GCC := $(defined __GNUC__)"
    gcov=$(command -v "gcov-$(defined __GNUC__)" || command -v gcov) && libgcov=$($CXX -print-file-name=libgcov.a) &&
        nm "$libgcov" | grep -q __gcov_info_to_gcda && echo "GCOV := $gcov" && echo "LIBGCOV := $libgcov"
    if nvidia-smi -L >"$t/gpu"; then
        echo "HAVE_GPU := yes"
        echo "CAPABILITY := $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | xargs)"
    elif command -v nvidia-smi >"$t/gpu"; then
        echo "PROBED :="
    fi
} >build/tools.$$ 2>"$t/log"
mv build/tools.$$ build/tools.mk
