#!/bin/sh
# cuda_to_cpp.sh - workbook/cpu/cuda_to_cpp.awk: what is C++ already passes as it is, lines keep their numbers, each awk
# that is here makes the same of the workbook's own kernels, and what has no place on the CPU layer is an error at its
# line, with a sentence. What launches and shared variables become is proved by what it does: launch_forms.cu, layer.cu,
# each key.
set -u
. tests/prove/frame.sh
filter=workbook/cpu/cuda_to_cpp.awk in=$scratch/in.cu
given() {
    cat >"$in" && awk -f $filter "$in" >"$scratch/all" && tail -n +2 "$scratch/all" >"$scratch/out" && : >"$said"
}
right() { [ ! -s "$said" ]; verdict $? "$1"; } # WHAT: nothing was said against it
dialect='-std=c++17 -fconcepts' # as the Makefile's DIALECT; clang has no -fconcepts
${CXX:-c++} $dialect -fsyntax-only -x c++ /dev/null 2>/dev/null || dialect=-std=c++17
compiles() { ${CXX:-c++} $dialect -fsyntax-only -Wall -Wextra -Werror -Wno-unknown-pragmas -D__CUDACPU__ \
    -Iworkbook/cpu/include -x c++ "$scratch/all" >"$scratch/messages" 2>&1; }

: >"$said"
for file in tests/*.cu solutions/[0-9][0-9]/*.cu; do
    awk -f $filter "$file" >"$scratch/all"
    for other in mawk gawk busybox original-awk; do
        command -v $other >/dev/null || continue
        [ $other != busybox ] || other="busybox awk"
        $other -f $filter "$file" | cmp - "$scratch/all" || echo "$other, of $file"
    done
done >"$said" 2>&1
right "every awk translates the workbook's kernels identically"

given <<'CUDA'
int f(int x, int y) { return (x << 3) | (y >> 2) | (x << y << 1); }
std::vector<std::vector<std::vector<int>>> deep(1);
template <int n> struct s { enum { v = (n >> 1) }; };
int t = s<(8 >> 1)>::v + a<b; bool u = a<b && c>(d);
// kernel<<<1, 1>>>(x); __shared__ int a; asm("x")
/* kernel<<<1, 1>>>(x);
   __shared__ int a; */ const char *s = "k<<<1, 1>>>(x) \" __shared__ int b;", c = '"', d = '\'';
const long n = 1'000'000, m = 0xff'ff; const char *r = R"(k<<<1, 1>>>(x) " )" R"--(asm("x") )" )--";
int my__shared__ = 0, basm(int), xasm(basm(1));
void broken() { k<<<1, 2; }
void launches() { k<<<1, 2>>>; }
CUDA
diff "$in" "$scratch/out" >>"$said"
right "C++ code and everything that is no launch stays unchanged"
printf 'k<<<1, 2>>>();\r\nint other;\rint last_line_without_newline;' | given
[ "$(tail -n 2 "$scratch/out" | tr '\n' ' ')" = 'int other; int last_line_without_newline; ' ] ||
    cat "$scratch/out" >>"$said"
right "lines may end with CR LF, or with CR alone, and the last one needs no newline"

# What has no place is an error at its line, in the file that has it, with a sentence: WHERE|SENTENCE|what the file is
# (for printf). The last line has two files that are filtered in their places, one in the other.
mkdir "$scratch/beside"
printf '%b' '#include "inner.cu"\n__global__ void outer(int *p)\n{\n    inner<<<1, 1>>>(p);\n}\n' \
    >"$scratch/beside/outer.cu"
printf '__global__ void inner(int *p) { *p = 1; }\n' >"$scratch/beside/inner.cu"
printf '__global__ void wrong()\n{\n    undeclared;\n}\n' >"$scratch/beside/wrong.cu"
cat >"$scratch/refused" <<'END'
in.cu:4|inline PTX needs a GPU: put it under|__device__ void f(int x)\n{\n    asm("mov %0, 1;"\n        : "=r"(x));\n}
in.cu:2|declare extern __shared__ inside the kernel|extern __shared__ float everywhere[];
in.cu:2|name the lanes you mean|__global__ void k(unsigned *x) { *x = __activemask(); }
in.cu:2|put it under #ifdef __CUDACC__|#include <mma.h>
in.cu:2|put it under #ifdef __CUDACC__|#include <cuda.h>
in.cu:2|put it under #ifdef __CUDACC__|#include <cuda_fp16.h>
in.cu:2|put it under #ifdef __CUDACC__|#include <cuda/barrier>
in.cu:6|undeclared|__global__ void k(int *p) {}\nvoid f(int *p)\n{\n    k<<<1,\n        1>>>(p), p = undeclared;\n}
wrong.cu:3|undeclared|#include "beside/wrong.cu"
in.cu:4|undeclared|#include "beside/outer.cu"\nvoid host(int *p) { outer<<<1, 1>>>(p); }\nint x = undeclared;
END
while IFS='|' read -r where sentence text; do
    printf '%b\n' "#include <cuda_runtime.h>\n$text" | given
    ! compiles && grep -q "$where" "$scratch/messages" && grep -q "$sentence" "$scratch/messages" ||
        { echo "not so:"; cat "$scratch/messages"; } >>"$said"
    right "an error at $where: $sentence"
done <"$scratch/refused"

given <<'CUDA'
#include <cuda_runtime.h>
__device__ void f(float x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("ex2.approx.f32 %0, %1; // ) <<<" : "=f"(x)
                 : "f"(x));
#endif
    (void)x;
}
#define UNUSED(x) asm("mov %0" : \
                      "=r"(x))
CUDA
compiles || cat "$scratch/messages" >>"$said"
right "assembly that the preprocessor drops compiles"

# The headers must bear the names that students define as macros, before and after.
for name in A B C D E F G H I J K L M N O P Q R S T U V W X Y Z BR BC i n lane warp row col tid tile scale; do
    echo "#define $name )("
done >"$said.headers"
for header in cuda_runtime.h cuda_bf16.h cuda_pipeline.h cuda_pipeline_primitives.h cooperative_groups.h \
    cooperative_groups/reduce.h cuda_runtime_api.h; do
    echo "#include <$header>"
done >>"$said.headers"
given <"$said.headers"
compiles || head -n 5 "$scratch/messages" >>"$said"
right "the headers work with names that students define"
exit $failed
