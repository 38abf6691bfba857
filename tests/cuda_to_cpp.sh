#!/bin/sh
# cuda_to_cpp.sh - workbook/cpu/cuda_to_cpp.awk: what is C++ already passes as it is, lines keep their numbers, each awk
# that is here makes the same of it and of the workbook's own kernels, and what has no place on the CPU layer is an
# error at its line, with a sentence. What launches and shared variables become is proved by what it does:
# launch_forms.cu, layer.cu, each key. AWK='busybox awk' compares with that one alone; CXX compiles.
set -u
. tests/prove/frame.sh
filter=workbook/cpu/cuda_to_cpp.awk in=$scratch/in.cu
awks=${AWK:-'mawk:gawk:gawk --posix:busybox awk:original-awk'}
alike() { # FILE: as C++ in $scratch/all, the same by each awk
    awk -f $filter "$1" >"$scratch/all"
    saved=$IFS IFS=:
    for other in $awks; do
        IFS=$saved
        $other 'BEGIN { exit 0 }' 2>/dev/null || continue
        $other -f $filter "$1" 2>&1 | cmp - "$scratch/all" >>"$said" 2>&1 || echo "$other, of $1" >>"$said"
    done
    IFS=$saved
}
given() { cat >"$in" && : >"$said" && alike "$in" && tail -n +2 "$scratch/all" >"$scratch/out"; }
right() { [ ! -s "$said" ]; verdict $? "$1"; } # WHAT: nothing was said against it
dialect='-std=c++17 -fconcepts' # as the Makefile's DIALECT; clang has no -fconcepts
${CXX:-c++} $dialect -fsyntax-only -x c++ /dev/null 2>/dev/null || dialect=-std=c++17
compiles() { ${CXX:-c++} $dialect -fsyntax-only -Wall -Wextra -Werror -Wno-unknown-pragmas -D__CUDACPU__ \
    -Iworkbook/cpu/include -x c++ "$scratch/all" >"$scratch/messages" 2>&1; }
refused() { # WHAT WHERE SENTENCE: what was given is, there
    ! compiles && grep -q "$2" "$scratch/messages" && grep -q "$3" "$scratch/messages" ||
        { echo "not so:"; cat "$scratch/messages"; } >>"$said"
    right "$1 is an error at $2: $3"
}

: >"$said"
for file in tests/*.cu solutions/[0-9][0-9]/*.cu; do alike "$file"; done
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
printf 'k<<<1, 2>>>();\r\nint last_line_without_newline;' | given
tail -n 1 "$scratch/out" | grep -qx 'int last_line_without_newline;' && ! grep -q "$(printf '\r')" "$scratch/out" ||
    cat "$scratch/out" >>"$said"
right "carriage returns are removed, and the last line needs no newline"

given <<'CUDA'
void f()
{
    kernel<int>  // what
        <<<grid,  // >>> is not the end
           128>>>(
            first,   // one, with a comma
            /* two */ second,
            0);
    next();
}
CUDA
grep -q 'kernel<int>(cudacpu_0, cudacpu_1, 0)' "$scratch/out" && sed -n 9p "$scratch/out" | grep -qx '    next();' ||
    cat "$scratch/out" >>"$said"
right "a launch over many lines keeps them"

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
given <<'CUDA'
#include <cuda_runtime.h>
__device__ void f(int x)
{
    asm("mov.u32 %0, %laneid;"
        : "=r"(x));
}
CUDA
refused "assembly" in.cu:4 'inline PTX needs a GPU: put it under #ifdef __CUDACC__'
printf '#include <cuda_runtime.h>\nextern __shared__ float everywhere[];\n' | given
refused "dynamic shared memory outside a function" in.cu:2 'declare extern __shared__ inside the kernel'
printf '#include <cuda_runtime.h>\n__global__ void k(unsigned *x) { *x = __activemask(); }\n' | given
refused "the active mask" in.cu:2 'name the lanes you mean'
for header in mma.h cuda.h cuda_fp16.h cuda/barrier; do
    echo "#include <$header>" | given
    refused "$header" in.cu:1 'put it under #ifdef __CUDACC__'
done
given <<'CUDA'
#include <cuda_runtime.h>
__global__ void k(int *p) {}
void f(int *p)
{
    k<<<1,
        1>>>(p);
    p = undeclared;
}
CUDA
refused "a mistake behind a launch" in.cu:7 undeclared

# A file that is included is filtered in its place, and one that it includes, beside it; messages name the right file.
mkdir -p "$scratch/beside"
printf '#include "inner.cu"\n__global__ void outer(int *p)\n{\n    __shared__ int x;\n    x = 1, inner<<<1, 1>>>(p);\n}\n' \
    >"$scratch/beside/outer.cu"
printf '__global__ void inner(int *p) { *p = 1; }\n' >"$scratch/beside/inner.cu"
printf '#include <cuda_runtime.h>\n#include "beside/outer.cu"\nvoid host(int *p) { outer<<<1, 1>>>(p); }\nint x = undeclared;\n' |
    given
refused "an error after an included file" in.cu:4 undeclared
sed -i 's/x = 1,/x = 1, undeclared = 1,/' "$scratch/beside/outer.cu"
cp "$in" "$scratch/again" && given <"$scratch/again"
refused "one in an included file" outer.cu:5 undeclared

# The headers must bear the names that students define as macros, before and after.
for name in A B C D E F G H I J K L M N O P Q R S T U V W X Y Z BR BC i n lane warp row col tid tile scale block_size; do
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
