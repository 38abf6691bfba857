#!/bin/sh
# cuda_to_cpp.sh - tests of workbook/cpu/cuda_to_cpp.awk. From the root of the workbook: sh tests/cuda_to_cpp.sh
# Each awk that is installed is tried (AWK='busybox awk' tries that one alone); CXX compiles what came out.

filter=workbook/cpu/cuda_to_cpp.awk
CXX=${CXX:-c++}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0 checks=0

fail() {
    failures=$((failures + 1))
    echo "cuda_to_cpp.sh: $awk: $*"
}

# filtered NAME: standard input through the filter, into $work/out, without the #line; lines must keep their numbers.
filtered() {
    cat > "$work/in.cu"
    checks=$((checks + 1))
    $awk -f $filter "$work/in.cu" > "$work/all" || fail "$1: awk failed"
    [ "$(head -n 1 "$work/all")" = "#line 1 \"$work/in.cu\"" ] || fail "$1: no #line"
    tail -n +2 "$work/all" > "$work/out"
    [ "$(wc -l < "$work/in.cu")" -eq "$(wc -l < "$work/out")" ] ||
        fail "$1: $(wc -l < "$work/in.cu") lines became $(wc -l < "$work/out")"
}

# unchanged NAME: what is in standard input must pass as it is.
unchanged() {
    filtered "$1"
    cmp -s "$work/in.cu" "$work/out" || { fail "$1: changed"; diff "$work/in.cu" "$work/out"; }
}

# has NAME TEXT...: each TEXT must be in the last output. lacks: none of them.
has() {
    name=$1; shift
    for text; do grep -qF -e "$text" "$work/out" || { fail "$name: no \"$text\" in"; cat "$work/out"; }; done
}
lacks() {
    name=$1; shift
    for text; do grep -qF -e "$text" "$work/out" && { fail "$name: \"$text\" is left in"; cat "$work/out"; }; done
}

# on_line NAME NUMBER TEXT: that line of the output must hold TEXT.
on_line() { sed -n "$2p" "$work/out" | grep -qF -e "$3" || { fail "$1: line $2 lacks \"$3\""; cat "$work/out"; }; }

dialect='-std=c++17 -fconcepts'  # as the Makefile's DIALECT; clang has no -fconcepts
$CXX $dialect -fsyntax-only -x c++ /dev/null 2> "$work/messages" || dialect=-std=c++17
compiles() { $CXX $dialect -fsyntax-only -Wall -Wextra -Wno-unknown-pragmas -D__CUDACPU__ -Iworkbook/cpu/include "$@" \
    -x c++ "$work/all" 2> "$work/messages"; }

all_tests() {
    unchanged 'plain C++' <<'CUDA'
int f(int x, int y) { return (x << 3) | (y >> 2) | (x << y << 1); }
std::vector<std::vector<std::vector<int>>> deep(1);
template <int n> struct s { enum { v = (n >> 1) }; };
int t = s<(8 >> 1)>::v + a<b; bool u = a<b && c>(d);
CUDA
    unchanged 'comments, strings and characters' <<'CUDA'
// kernel<<<1, 1>>>(x); __shared__ int a; asm("x")
/* kernel<<<1, 1>>>(x);
   __shared__ int a; */ const char *s = "k<<<1, 1>>>(x) \" __shared__ int b;", c = '"', d = '\'';
const long n = 1'000'000, m = 0xff'ff; const char *r = R"(k<<<1, 1>>>(x) " )" R"--(asm("x") )" )--";
int my__shared__ = 0, basm(int), xasm(basm(1));
CUDA
    unchanged 'broken launches are left to the compiler' <<'CUDA'
void f() { k<<<1, 2; }
void g() { k<<<1, 2>>>; }
CUDA
    printf 'int last_line_without_newline;' > "$work/in.cu"
    [ "$($awk -f $filter "$work/in.cu" | tail -n 1)" = 'int last_line_without_newline;' ] ||
        fail 'last line without newline'
    printf 'k<<<1, 2>>>();\r\nint b;\r\n' > "$work/given"
    filtered 'carriage returns' < "$work/given"
    has 'carriage returns' 'launch_config(1, 2)'

    filtered 'a launch' <<'CUDA'
void f() { scale<<<grid, 128>>>(x, n + 1); }
CUDA
    echo 'void f() { ::cudacpu::launch(CUDACPU_KERNEL(scale), ::cudacpu::launch_config(grid, 128), [=, cudacpu_0 = (x), cudacpu_1 = (n + 1)] { scale(cudacpu_0, cudacpu_1); }); }' > "$work/golden"
    cmp -s "$work/golden" "$work/out" || { fail 'a launch'; diff "$work/golden" "$work/out"; }

    filtered 'templates, namespaces, brackets' <<'CUDA'
void f() {
    a::b::k<64, vec<int, 3>, (N > 4)><<<dim3(f(1, 2), g[h(3, 4)]), {32, 1}, s * sizeof(int), stream>>>(p[i, j], q(r, t), u->v);
    table[i]<<<1, 1>>>(); (odd ? k : l)<<<1, 1>>>(0, NULL, nullptr, 1.5f, true); object.member<<<1, 1>>>("a, b", ',');
}
CUDA
    has 'templates' 'CUDACPU_KERNEL(a::b::k<64, vec<int, 3>, (N > 4)>), ' \
        'launch_config(dim3(f(1, 2), g[h(3, 4)]), {32, 1}, s * sizeof(int), stream)' \
        'cudacpu_0 = (p[i, j]), cudacpu_1 = (q(r, t)), cudacpu_2 = (u->v)' 'CUDACPU_KERNEL(table[i])' \
            'CUDACPU_KERNEL((odd ? k : l))' \
        '(odd ? k : l)(0, NULL, nullptr, 1.5f, true)' 'CUDACPU_KERNEL(object.member)' 'cudacpu_0 = ("a, b")' \
            "cudacpu_1 = (',')"
    lacks 'templates' '<<<' '>>>'

    filtered 'arguments with commas in angles' <<'CUDA'
void f() { k<<<1, 1>>>(g<a, b>(c), d); k<<<1, 1>>>(rest...); }
CUDA
    has 'angles' 'launch_later(CUDACPU_KERNEL(k)' '(g<a, b>(c), d);' '(rest...);'

    filtered 'a launch over many lines' <<'CUDA'
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
    on_line 'many lines' 3 'CUDACPU_KERNEL(kernel<int>)'
    on_line 'many lines' 6 'first'
    on_line 'many lines' 9 'next();'
    has 'many lines' 'kernel<int>(cudacpu_0, cudacpu_1, 0)'

    filtered 'a launch in a macro' <<'CUDA'
#define RUN(n, x) kernel<n><<<1, \
                              32>>>(x, \
                                    n)
void f() { RUN(3, p); }
CUDA
    on_line 'macro' 1 '\'
    on_line 'macro' 2 '\'
    on_line 'macro' 4 'RUN(3, p);'

    filtered 'shared variables' <<'CUDA'
__global__ void k()
{
    __shared__ float x[4][N + 1], y;
    __shared__ __align__(16) tile<int, 3> tiles[2];
    static __shared__ alignas(alignof(float4)) char
        bytes[64];
    volatile __shared__ int flag;
    __shared__ float *row;
    extern __shared__ uint4 dynamic[];
    extern __shared__ __align__(128) unsigned char raw[];
}
CUDA
    has 'shared' 'float (&x)[4][N + 1] = *static_cast<float (*)[4][N + 1]>(' 'float &y = ' \
        'sizeof(float[4][N + 1]), sizeof(float)' \
        'tile<int, 3> (&tiles)[2] = ' '{ __align__(16) alignas(tile<int, 3>) char at; }' \
            'alignas(alignof(float4)) alignas(char)' \
        'volatile int &flag' 'float * &row' 'uint4 *const dynamic = ' 'unsigned char *const raw = '
    lacks 'shared' '__shared__'
    on_line 'shared' 7 'flag'

    unchanged 'shared variables that are left to the macro' <<'CUDA'
__device__ int f() { __shared__ struct { int a, b; } pair; __shared__ float *p, *q; return 0; }
CUDA

    filtered 'assembly' <<'CUDA'
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
    has 'assembly' 'CUDACPU_NO_PTX()'
    lacks 'assembly' 'asm'
    compiles -Werror || { fail 'assembly that the preprocessor drops does not compile'; cat "$work/messages"; }

    filtered 'assembly in use' <<'CUDA'
#include <cuda_runtime.h>
__device__ void f(int x)
{
    asm("mov.u32 %0, %laneid;"
        : "=r"(x));
}
CUDA
    if compiles; then fail 'assembly in use compiles'; fi
    grep -q 'in.cu:4' "$work/messages" &&
        grep -q 'inline PTX needs a GPU: put it under #ifdef __CUDACC__' "$work/messages" ||
        { fail 'assembly in use: the message is'; cat "$work/messages"; }

    filtered 'dynamic shared memory outside a function' <<'CUDA'
#include <cuda_runtime.h>
extern __shared__ float everywhere[];
CUDA
    if compiles; then fail 'extern __shared__ outside a function compiles'; fi
    grep -q 'declare extern __shared__ inside the kernel' "$work/messages" ||
        { fail 'extern __shared__ outside: the message is'; cat "$work/messages"; }

    filtered 'the active mask' <<'CUDA'
#include <cuda_runtime.h>
__global__ void k(unsigned *x) { *x = __activemask(); }
CUDA
    if compiles; then fail '__activemask() compiles'; fi
    grep -q 'name the lanes you mean' "$work/messages" ||
        { fail '__activemask(): the message is'; cat "$work/messages"; }

    for header in mma.h cuda.h cuda/barrier; do
        echo "#include <$header>" > "$work/given"
        filtered "header $header" < "$work/given"
        if compiles; then fail "$header compiles"; fi
        grep -q "put it under #ifdef __CUDACC__" "$work/messages" ||
            { fail "$header: the message is"; cat "$work/messages"; }
    done

    filtered 'a mistake keeps its line' <<'CUDA'
#include <cuda_runtime.h>
__global__ void k(int *p) {}
void f(int *p)
{
    k<<<1,
        1>>>(p);
    p = undeclared;
}
CUDA
    if compiles; then fail 'a mistake compiles'; fi
    grep -q 'in.cu:7' "$work/messages" || { fail 'a mistake keeps its line'; cat "$work/messages"; }

    # A file that is included is filtered in its place, and one that it includes, beside it; messages name the
    # right file.
    mkdir -p "$work/beside"
    printf '#include "inner.cu"\n__global__ void outer(int *p)\n{\n    __shared__ int x;\n    x = 1, inner<<<1, 1>>>(p);\n}\n' > "$work/beside/outer.cu"
    printf '__global__ void inner(int *p) { *p = 1; }\n' > "$work/beside/inner.cu"
    printf '#include <cuda_runtime.h>\n#include "beside/outer.cu"\nvoid host(int *p) { outer<<<1, 1>>>(p); }\nint x = undeclared;\n' > "$work/in.cu"
    $awk -f $filter "$work/in.cu" > "$work/all" || fail 'an included file: awk failed'
    if compiles; then fail 'a mistake after an included file compiles'; fi
    grep -q 'in.cu:4' "$work/messages" ||
        { fail 'a mistake after an included file keeps its line'; cat "$work/messages"; }
    sed -i 's/x = 1,/x = 1, undeclared = 1,/' "$work/beside/outer.cu"
    $awk -f $filter "$work/in.cu" > "$work/all" || fail 'a mistake in an included file: awk failed'
    checks=$((checks + 2))
    if compiles; then fail 'a mistake in an included file compiles'; fi
    grep -q 'outer.cu:5' "$work/messages" ||
        { fail 'a mistake in an included file keeps its line'; cat "$work/messages"; }

    # The headers must bear the names that students define as macros, before and after.
    {
        for name in A B C D E F G H I J K L M N O P Q R S T U V W X Y Z BR BC i n lane warp row col tid tile scale block_size; do
            echo "#define $name )("
        done
        for header in cuda_runtime.h cuda_bf16.h cuda_fp16.h cuda_pipeline.h cuda_pipeline_primitives.h \
            cooperative_groups.h \
            cooperative_groups/reduce.h cuda_runtime_api.h vector_types.h device_launch_parameters.h; do echo "#include <$header>"; done
    } > "$work/given"
    filtered 'names of students' < "$work/given"
    compiles -Werror || { fail 'the headers use a name that students define'; head -n 5 "$work/messages"; }
}

if [ -n "$AWK" ]; then awks=$AWK; else awks='awk:mawk:gawk:gawk --posix:busybox awk:original-awk'; fi
saved_ifs=$IFS
IFS=:
for awk in $awks; do
    IFS=$saved_ifs
    $awk 'BEGIN { exit 0 }' 2> /dev/null || continue
    all_tests
done
[ $failures -eq 0 ] && echo "cuda_to_cpp.sh: $checks checks passed"
exit $((failures > 0))
