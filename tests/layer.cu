// layer.cu - the CPU execution layer (workbook/cpu): every feature computes what a GPU would, every mistake is reported
// in the right words. Small kernels, each before its test; valid CUDA. What every reference solution does (dynamic
// shared memory, a stack for each thread, a run of each block, copies that arrive when they are waited for) their
// suites prove, and events bench.sh.
#include "in_a_child.h"
#include "on_device.cuh"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <functional>
#include <initializer_list>

#define FULL 0xffffffffu
// Names that students use, as macros: they must not reach into the layer's headers.
#define N    24
#define lane (threadIdx.x % 32)

static const char *error_name(int error) { return cudaGetErrorName((cudaError_t)error); }

#define EXPECT(got, want, ...) \
    do { \
        const double got_ = (double)(got), want_ = (double)(want); \
        char where_[96]; \
        snprintf(where_, sizeof where_, __VA_ARGS__); \
        cr_assert(got_ == want_, "%s, %s: got %.9g, want %.9g", #got, where_, got_, want_); \
    } while (0)

// What a thread has looked at in a kernel: how much, and the first that was not as wanted.
struct seen {
    int looks, line;
    double got, want;
};
__device__ void look(seen *all, int line, bool right, double got, double want)
{
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    seen &mine = all[block * (int)(blockDim.x * blockDim.y * blockDim.z) + thread];
    mine.looks++;
    if (right || mine.line) return;
    mine.line = line, mine.got = got, mine.want = want;
}
#define IS(got, want) look(all, __LINE__, (double)(got) == (double)(want), (double)(got), (double)(want))
#define NEAR(got, want) \
    look(all, __LINE__, fabs((double)(got) - (double)(want)) <= 1e-6 * (1 + fabs((double)(want))), (double)(got), want)

// That every thread looks, and sees what it should.
static void all_right(void (*kernel)(seen *), dim3 blocks, dim3 block, size_t shared = 0)
{
    const size_t threads = block.x * block.y * block.z;
    std::vector<seen> all(blocks.x * blocks.y * blocks.z * threads);
    {
        const on_device<seen> r(all);
        kernel<<<blocks, block, shared>>>(r.at);
    }
    for (size_t i = 0; i < all.size(); i++)
        cr_assert(all[i].looks > 0 && !all[i].line,
                  "block %zu, thread %zu, of %d looks that of line %d: %.9g, not %.9g", i / threads, i % threads,
                  all[i].looks, all[i].line, all[i].got, all[i].want);
}

// ------------------------ who am I, arguments

__global__ void indices(seen *all)
{
    IS(blockIdx.x < 2 && blockIdx.y < 3 && blockIdx.z < 2, true);
    IS(threadIdx.x < 4 && threadIdx.y < 2 && threadIdx.z < 3, true);
    IS(gridDim.x * 100 + gridDim.y * 10 + gridDim.z, 232);
    IS(blockDim.x * 100 + blockDim.y * 10 + blockDim.z, 423);
}
Test(cpu_layer, indices_in_three_dimensions) { all_right(indices, dim3(2, 3, 2), dim3(4, 2, 3)); }

struct pair {
    float a, b;
};

__global__ void arguments(float *out, pair p, int step, const float *nothing)
{
    p.a += threadIdx.x;  // this thread's own copy
    step++;
    out[threadIdx.x] = p.a * 100 + p.b + step + (nothing != nullptr);
}

template <class A, class B> __host__ A first_of(A a, B) { return a; }

static int evaluated;
static int count_evaluations() { return ++evaluated; }

Test(cpu_layer, arguments_are_copied_for_each_thread_and_evaluated_once)
{
    float out[8] = {};
    {
        const on_device<float> r(out, 8);
        pair p = {1, 2};
        evaluated = 0;
        arguments<<<1, 2>>>(r.at, p, count_evaluations(), 0);
        arguments<<<1, 2>>>(r.at + 2, {3, 4},  // a brace
                            0, NULL);
        arguments<<<1, 4>>>(first_of<float *, int>(r.at + 4, 0), p,  // a comma inside < >
                            count_evaluations(), out);
    }
    EXPECT(evaluated, 2, "two launches");
    for (int t = 0; t < 2; t++) {
        EXPECT(out[t], (1 + t) * 100 + 2 + 2, "thread %d", t);
        EXPECT(out[2 + t], (3 + t) * 100 + 4 + 1, "thread %d, argument in braces", t);
    }
    for (int t = 0; t < 4; t++) EXPECT(out[4 + t], (1 + t) * 100 + 2 + 3 + 1, "thread %d, template in an argument", t);
}

// ------------------------ shared memory

template <int B, typename T> __global__ void reverse(seen *all)
{
    __shared__ T x[B], total;
    __shared__ alignas(64) float table[2][B / 2 + 1];
    const int t = threadIdx.x;
    if (t == 0) total = T(blockIdx.x) * 1000;
    x[t] = T(t);
    table[t % 2][t / 2] = 0.5f;
    __syncthreads();
    IS(x[B - 1 - t] + total, B - 1 - t + 1000 * blockIdx.x);
    IS(table[1 - t % 2][t / 2], 0.5);
    IS((size_t)table % 64, 0);
}
Test(cpu_layer, shared_variables_belong_to_the_block) { all_right(reverse<64, float>, 3, 64); }

__global__ void look_at_fresh_shared(seen *all)
{
    __shared__ float x[33];
    extern __shared__ __align__(16) float y[];
    int nans = 0, nans_dynamic = 0;
    for (int i = 0; i < 33; i++) nans += isnan(x[i]);
    for (int i = 0; i < 50; i++) nans_dynamic += isnan(y[i]);
    IS(nans, 33);
    IS(nans_dynamic, 50);
    IS(__float_as_uint(x[0] + y[0]) != 0xffffffffu, true);  // which an output holds that was not written
    __syncthreads();
    x[threadIdx.x] = y[threadIdx.x] = 1;  // what the next block must not see
}
Test(cpu_layer, shared_memory_starts_as_nan_in_every_block)
{
    all_right(look_at_fresh_shared, 4, 2, 50 * sizeof(float));
}

// ------------------------ barriers and warps

__global__ void barrier_votes(seen *all)
{
    const int t = threadIdx.x;
    IS(__syncthreads_count(t % 3 == 0), 32);
    IS(__syncthreads_and(t < 96), 1);
    IS(__syncthreads_and(t < 95), 0);
    IS(__syncthreads_or(t == 95), 1);
    IS(__syncthreads_or(t > 95), 0);
}
Test(cpu_layer, barriers_that_count) { all_right(barrier_votes, 1, 96); }

__global__ void shuffles(seen *all)
{
    const int l = lane;
    IS(__shfl_sync(FULL, 3 * l, 5), 15);
    IS(__shfl_up_sync(FULL, l, 2), l < 2 ? l : l - 2);
    IS(__shfl_down_sync(FULL, l, 3, 16), l % 16 < 13 ? l + 3 : l);
    IS(__shfl_xor_sync(FULL, l, 9), l ^ 9);
    IS(__shfl_sync(FULL, l, l + 1, 8), l / 8 * 8 + (l + 1) % 8);
    IS(__shfl_up_sync(FULL, l, 1, 4), l % 4 ? l - 1 : l);
    IS(__shfl_xor_sync(FULL, l, 16, 16), l < 16 ? l : l - 16);  // out of its part of the warp
    IS(__shfl_down_sync(FULL, l, 31), l == 0 ? 31 : l);
    IS(__shfl_xor_sync(FULL, l + 0.25, 1), (l ^ 1) + 0.25);
    IS(__shfl_xor_sync(FULL, (float)l + 0.5f, 1), (l ^ 1) + 0.5);
    IS(__shfl_xor_sync(FULL, (1ull << 40) + l, 1), (1ull << 40) + (l ^ 1));
    IS(__bfloat162float(__shfl_xor_sync(FULL, __float2bfloat16((float)l), 1)), l ^ 1);
}
Test(cpu_layer, shuffles_of_every_type) { all_right(shuffles, 1, 32); }

__global__ void votes(seen *all)
{
    const int l = lane;
    IS(__ballot_sync(FULL, l % 3 == 0), 0x49249249u);
    IS(__any_sync(FULL, l == 31), 1);
    IS(__any_sync(FULL, l == 32), 0);
    IS(__all_sync(FULL, l < 32), 1);
    IS(__all_sync(FULL, l < 31), 0);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    IS(__reduce_add_sync(FULL, l - 20), 496 - 640);
    IS(__reduce_min_sync(FULL, l - 20), -20);
    IS(__reduce_max_sync(FULL, l - 20), 11);
    IS(__reduce_add_sync(FULL, (unsigned)l), 496);
    IS(__reduce_min_sync(FULL, (unsigned)l - 1), 0);  // lane 0 has the largest unsigned
    IS(__reduce_max_sync(FULL, (unsigned)l - 1), 0xffffffffu);
    IS(__reduce_and_sync(FULL, (unsigned)l | 0x100u), 0x100);
    IS(__reduce_or_sync(FULL, 1u << l % 7), 0x7f);
    IS(__reduce_xor_sync(FULL, (unsigned)l + 1), 32);
#endif
}
Test(cpu_layer, votes_and_warp_reductions) { all_right(votes, 1, 32); }

__global__ void partial_warp(seen *all)
{
    const int t = threadIdx.x;  // the second warp has 8 lanes
    int sum = t;
    for (int by = 4; by > 0; by /= 2) sum += __shfl_xor_sync(t < 32 ? FULL : 0xffu, sum, by);
    __syncwarp(t < 32 ? FULL : 0xffu);
    IS(sum, 8 * (t / 8 * 8) + 28);
}
Test(cpu_layer, last_warp_may_be_partial) { all_right(partial_warp, 1, 40); }

__global__ void returned_lanes(seen *all)
{
    IS(lane, threadIdx.x);
    if (lane >= 20) return;
    IS(__popc(__ballot_sync(FULL, 1)), 20);
}
Test(cpu_layer, returned_lanes_are_not_waited_for) { all_right(returned_lanes, 1, 32); }

__global__ void half_masks(seen *all)
{
    const int l = lane;
    int x;
    if (l < 16)
        x = __shfl_xor_sync(0x0000ffffu, l, 1);
    else
        x = __shfl_xor_sync(0xffff0000u, l, 2);
    IS(x, l < 16 ? l ^ 1 : l ^ 2);
}
Test(cpu_layer, halves_of_a_warp_shuffle_apart) { all_right(half_masks, 1, 32); }

// ------------------------ atomics

struct sums {
    float f;
    double d;
    int i[5];
    unsigned u[5];
    unsigned long long l;
};
__global__ void atomics(sums *out)
{
    __shared__ int inside;
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;  // 0 ... 671
    if (threadIdx.x == 0) inside = 0;
    __syncthreads();
    atomicAdd(&inside, 1);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&out->i[0], inside);
    atomicAdd(&out->f, 0.5f);
    atomicAdd(&out->d, 0.25);
    atomicMax(&out->i[1], thread);
    atomicMin(&out->i[2], -thread);
    atomicCAS(&out->i[3], 0, 7);
    atomicSub(&out->i[4], 2);
    atomicAnd(&out->u[0], ~(1u << thread % 32));
    atomicOr(&out->u[1], 1u << thread % 5);
    atomicXor(&out->u[2], 1u << thread % 3);
    atomicInc(&out->u[3], 99);
    if (thread == 5) atomicExch(&out->u[4], 17u);
    atomicAdd(&out->l, 1ull << 33);
}

Test(cpu_layer, atomics)
{
    sums s = {};
    s.u[0] = ~0u;
    {
        const on_device<sums> r(&s, 1);
        atomics<<<7, 96>>>(r.at);
    }
    const double out[] = {s.f, s.d}, want[] = {336, 168};
    const int i[] = {672, 671, -671, 7, -1344};
    const unsigned u[] = {0, 31, 0, 72, 17};
    for (int n = 0; n < 2; n++) EXPECT(out[n], want[n], "sum %d", n);
    for (int n = 0; n < 5; n++) EXPECT(s.i[n], i[n], "int %d", n);
    for (int n = 0; n < 5; n++) EXPECT(s.u[n], u[n], "unsigned %d", n);
    EXPECT(s.l, 672 * 8589934592.0, "64 bits");
}

// ------------------------ types and maths

__device__ unsigned bits_from(float x)
{
    const __nv_bfloat16 y = __float2bfloat16(x);
    unsigned short bits;
    memcpy(&bits, &y, 2);
    return bits;
}

// Each number of 16 bits comes back as it was; half way to its neighbour lies what becomes the even one of both.
__global__ void rounding(seen *all)
{
    const unsigned short bits = (unsigned short)(blockIdx.x * blockDim.x + threadIdx.x), next = bits + 1;
    __nv_bfloat16 x, y;
    memcpy(&x, &bits, 2);
    memcpy(&y, &next, 2);
    const float here = __bfloat162float(x), there = __bfloat162float(y), middle = here / 2 + there / 2;
    if (isnan(here)) return IS(isnan(__bfloat162float(__float2bfloat16(here))), true);
    IS(bits_from(here), bits);
    if (isinf(there)) IS(bits_from(2 * here), next);
    if (!isfinite(there)) return;
    IS(bits_from(middle), bits + bits % 2);
    IS(bits_from(nextafterf(middle, here)), bits);
    IS(bits_from(nextafterf(middle, there)), next);
}
Test(cpu_layer, bf16_is_the_nearest_even) { all_right(rounding, 256, 256); }

__global__ void bf16_arithmetic(seen *all)
{
    const __nv_bfloat16 a = __float2bfloat16(1.5f), b = __float2bfloat16(0.25f), c = __float2bfloat16(3),
                        d = __float2bfloat16(-2);
    const __nv_bfloat162 p = __floats2bfloat162_rn(1, 2), q = __floats2bfloat162_rn(3, 4);
    const float2 u = __bfloat1622float2(__hadd2(p, p)), v = __bfloat1622float2(__hmul2(q, q));
    IS(__bfloat162float(__hadd(a, b)), 1.75);
    IS(__bfloat162float(__hmul(a, b)), 0.375);
    IS(__bfloat162float(c * d), -6);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    IS(__bfloat162float(__hfma(a, b, a)), 1.875);
#endif
    IS(u.x + 10 * u.y, 42);
    IS(v.x + 100 * v.y, 1609);
    IS(__bfloat162float(__hmax(c, d)), 3);
    IS(d < c, true);
    IS(a < b, false);
    IS(__low2float(q) + 10 * __high2float(q), 43);
    IS(__bfloat162float(-c), -3);
}
Test(cpu_layer, arithmetic_of_bf16) { all_right(bf16_arithmetic, 1, 1); }

__global__ void maths(seen *all)
{
    const float two = 2 + threadIdx.x;
    NEAR(rsqrtf(two), 1 / sqrt(2.0));
    NEAR(__fdividef(1, two), 0.5);
    NEAR(__frcp_rn(two), 0.5);
    NEAR(__powf(two, 3), 8);
    NEAR(__saturatef(two) + __saturatef(-two) + __saturatef(two / 4), 1.5);
    IS(fmaxf(NAN, two), 2);
    IS(exp2f(-INFINITY), 0);
    IS(__int_as_float(__float_as_int(two) + 1), 2 + 0x1p-22);
    IS(__uint_as_float(0x7f800000u), INFINITY);
    IS(isfinite(two * INFINITY), false);
}
Test(cpu_layer, functions_of_floats) { all_right(maths, 1, 1); }

__global__ void bits(seen *all)
{
    const int x = 0x50 + threadIdx.x, minus = -3 - (int)threadIdx.x;
    const unsigned big = 4000000000u + threadIdx.x;
    IS(__popc(x), 2);
    IS(__clz(x), 25);
    IS(__clz(0), 32);
    IS(__ffs(x), 5);
    IS(__byte_perm(0x33221100u, 0x77665544u, 0x7142u), 0x77114422);
    IS(__mulhi(1 << 20, 1 << 20), 256);
    IS(__float2int_rn(2.5f), 2);
    IS(__float2int_rz(-2.7f), -2);
    IS(__float2int_rd(-2.2f), -3);
    IS(__float2int_ru(2.2f), 3);
    IS(max(big, 1u), 4000000000.0);
    IS(max((1ll << 40) + threadIdx.x, 5ll), 1099511627776.0);
    IS(max(1.5f, 2.5), 2.5);
    IS(max((unsigned)minus, big), 4294967293.0);
    IS(min(NAN, 3.0f), 3);
}
Test(cpu_layer, bits_and_mixed_types) { all_right(bits, 1, 1); }

// ------------------------ host functions

__constant__ float constants[3];
__device__ int counter;

__global__ void symbols(seen *all)
{
    IS(constants[0] + 10 * constants[2], 31);
    atomicAdd(&counter, 3);
}

Test(cpu_layer, device_and_constant_variables)
{
    const float values[3] = {1, 2, 3};
    int count = 4;
    cudaMemcpyToSymbol(constants, values, sizeof values);
    cudaMemcpyToSymbol(counter, &count, sizeof count);
    all_right(symbols, 1, 5);
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    EXPECT(count, 19, "__device__");
}

namespace cg = cooperative_groups;

__global__ void groups(seen *all)
{
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int t = block.thread_rank();
    IS(cg::reduce(tile, t, cg::plus<int>()), 8 * (t / 8 * 8) + 28);
    IS(tile.shfl(t, 2), t / 8 * 8 + 2);
    IS(tile.thread_rank(), t % 8);
    block.sync();
    IS(tile.meta_group_rank(), t / 8);
    IS(tile.ballot(t % 2), 0xaa);
}
Test(cpu_layer, groups_of_threads) { all_right(groups, 1, 64); }

__global__ void write_at(float *x, long i)
{
    if (threadIdx.x == 3) x[i] = 1;  // the wild write
}

Test(cpu_layer, fresh_memory_is_nan_and_guards_are_when_they_are_touched)
{
    enum { GUARD = 1 << 16, BYTES = 1000, ALL = GUARD + BYTES + GUARD };
    for (int behind = 0; behind < 2; behind++) {
        std::vector<unsigned char> host(ALL);
        char *x;
        int written = 0;
        wb_guard_next(GUARD, GUARD);
        cudaMalloc(&x, ALL);
        write_at<<<1, 32>>>((float *)(x + GUARD), 0);
        cr_assert(wb_open_guard(x, behind) < 4096);
        write_at<<<1, 32>>>((float *)(x + behind * (GUARD + BYTES)), 9999);
        EXPECT(wb_open_guard(x, behind), GUARD, "guard %d", behind);
        cr_assert(wb_open_guard(x, !behind) < 4096);
        cudaMemcpy(host.data(), x, ALL, cudaMemcpyDeviceToHost);
        for (const unsigned char byte : host) written += byte != 0xff;
        EXPECT(written, 8, "bytes of two numbers");
        cudaFree(x);
    }
}

// ------------------------ refused launches

static void prints(std::initializer_list<const char *> words)
{
    for (const char *word : words) check_printed(word);
}
__global__ void nothing() {}

// Ends with the error of this launch; 99 if a second question gets one as well.
static int launch_grid_y, launch_threads, launch_shared;
static void launch_as_set(void)
{
    nothing<<<dim3(1, launch_grid_y), launch_threads, launch_shared>>>();
    const cudaError_t error = cudaGetLastError();
    _exit(cudaGetLastError() == cudaSuccess ? error : 99);
}

static void refused(int grid_y, int threads, int shared, const char *error)
{
    launch_grid_y = grid_y;
    launch_threads = threads;
    launch_shared = shared;
    const int status = run_in_a_child(launch_as_set);
    cr_assert(WIFEXITED(status));
    cr_assert_str_eq(error_name(WEXITSTATUS(status)), error);
}

Test(cpu_layer, launches_that_a_gpu_refuses)
{
    refused(1, 1024, 0, "cudaSuccess");
    refused(1, 1025, 0, "cudaErrorInvalidConfiguration");
    prints({"launch of nothing refused", "1025 x 1 x 1 threads", "layer.cu:"});
    refused(1, 0, 0, "cudaErrorInvalidConfiguration");
    refused(65536, 1, 0, "cudaErrorInvalidConfiguration");
    prints({"launch of nothing refused", "1 x 65536 x 1 blocks"});
    refused(0, 1, 0, "cudaErrorInvalidConfiguration");
    refused(1, 1, 49152, "cudaSuccess");
    refused(1, 1, 49153, "cudaErrorInvalidValue");  // which kernels may ask for: launch_forms.cu
    prints({"launch of nothing refused", "49153 bytes of dynamic shared memory", "cudaFuncSetAttribute"});
}

Test(cpu_layer, wrong_copies_are_refused)
{
    char host[64], other[64] = {0};
    void *x = NULL, *y = NULL;
    cudaMalloc(&x, 64);
    EXPECT(cudaMemcpy(x, other, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue, "a byte too much");
    EXPECT(cudaMemcpy(host, other, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue, "from the host");
    EXPECT(cudaMemset(host, 0, 64), cudaErrorInvalidValue, "the host's");
    EXPECT(cudaFree(host), cudaErrorInvalidValue, "the host's");
    EXPECT(cudaMalloc(&y, 0), cudaSuccess, "no bytes");
    EXPECT(y != NULL, false, "no bytes");
    EXPECT(cudaMemcpy(x, other, 64, cudaMemcpyDefault), cudaSuccess, "all of it");
    EXPECT(cudaFree(x), cudaSuccess, "what there is");
    EXPECT(cudaFree(NULL), cudaSuccess, "nothing");
    cudaGetLastError();
}

// ------------------------ broken kernels

// A launch must end with a report, status 66, that holds all these words.
static std::function<void()> launch_it;
static void told(std::initializer_list<const char *> words, const std::function<void()> &run)
{
    launch_it = run;
    check_reported(run_in_a_child([] { launch_it(); }));
    prints(words);
}
template <class... A, class... B>
static void told(std::initializer_list<const char *> words, int threads, void (*kernel)(A...), B... with)
{
    told(words, [=] { kernel<<<1, threads>>>(with...); });
}
static float *device_floats(int count)
{
    float *x;
    cudaMalloc(&x, count * sizeof *x);
    return x;
}
__device__ int sink;

__global__ void two_barriers()
{
    if (threadIdx.x < 32)
        __syncthreads();  // the first warp's
    else
        __syncthreads();  // the others'
}
__global__ void early_return(int n)
{
    if ((int)threadIdx.x >= n) return;
    __syncthreads();  // not for everybody
}
__global__ void deadlock()
{
    if (threadIdx.x < 16)
        sink = __shfl_sync(FULL, 1, 0);  // half of the warp
    else
        __syncthreads();
}
__global__ void absent_lane()
{
    if (lane < 16) sink = __shfl_down_sync(0xffffu, 1, 8);  // lane 8 reads from lane 16
}
__global__ void wrong_mask() { __syncwarp(0xfffffffeu); }
__device__ volatile int flag;
__global__ void spin()
{
    if (threadIdx.x == 0)
        while (flag == 0) {  // for thread 1
        }
    flag = 1;
}
extern "C" void wb_launch_seconds(long seconds);  // workbook/cpu/faults.cpp

Test(cpu_layer, reports_of_barriers_and_lanes)
{
    told({"divergent barriers in kernel two_barriers, block (", "threads 0-31: at __syncthreads()", "threads 32-63",
          "layer.cu:", "__syncthreads();  // the first warp's", "__syncthreads();  // the others'"},
         64, two_barriers);
    told({"barrier that some threads never reach in kernel early_return", "threads 50-63: returned from the kernel",
          "__syncthreads();  // not for everybody"},
         64, early_return, 50);
    told({"deadlock", "kernel deadlock, block (0,0,0)", "threads 0-15: at __shfl_sync(), for lanes 0-31 of warp 0",
          "// half of the warp", "threads 16-31: at __syncthreads()"},
         32, deadlock);
    told({"absent lane", "kernel absent_lane, block (0,0,0), thread (8,0,0)", "lane 8 reads from lane 16",
          "is not in the mask", "// lane 8 reads from lane 16"},
         32, absent_lane);
    told({"lane not in its own mask", "lane 0 calls with mask 0xfffffffe", "__syncwarp(0xfffffffeu)"}, 32, wrong_mask);
    wb_launch_seconds(1);
    told({"timeout", "kernel spin, block (0,0,0), thread (0,0,0)", "// for thread 1"}, 2, spin);
}

__global__ void dynamic_past_end(int i)
{
    extern __shared__ float rows[];
    rows[i] = 1;  // too far
}
__global__ void large_local_array(int n)
{
    volatile int large[100000];
    for (int i = 0; i < n; i++) large[i * 1000] = i;
    sink = large[n];
}

Test(cpu_layer, reports_of_addresses)
{
    float *const nowhere = NULL;  // a report names the kernel, not the variable that it is launched by
    told({"illegal address in kernel write_at, block (0,0,0), thread (3,0,0)", "address 0: a null pointer",
          "at tests/layer.cu:", "// the wild write"},
         32, write_at, nowhere, 0);
    told({"illegal address", "4 bytes past the end of the 4096 bytes of cudaMalloc at", "// the wild write"},
         [] { write_at<<<1, 32>>>(device_floats(1024), 1025); });
    told({"illegal address", "byte 20 of the 4096 bytes", "have been freed"}, [] {
        float *x = device_floats(1024);
        cudaFree(x);
        write_at<<<1, 32>>>(x, 5);
    });
    told({"illegal address", "16 bytes past the end of extern __shared__ rows (1024 bytes)", "// too far"},
         [] { dynamic_past_end<<<1, 32, 256 * sizeof(float)>>>(260); });
    told({"illegal address", "rows has no memory", "<<<"}, 32, dynamic_past_end, 0);
    told({"host code touched device memory", "byte 12 of the 4096 bytes", "use cudaMemcpy", "// on the host"},
         [] { printf("%f\n", device_floats(1024)[3]); });  // on the host
    told({"stack overflow", "kernel large_local_array", "CUDACPU_STACK_KB"}, 1, large_local_array, 100);
}

__global__ void read_vector(float4 *out, const float *x)
{
    *out = *reinterpret_cast<const float4 *>(x);  // not at a multiple of 16
}
__global__ void async_misaligned(const float *in)
{
    __shared__ float x[8];
    __pipeline_memcpy_async(&x[1], in, 16);  // 4 bytes off
}
__global__ void divide(int y) { sink = 7 / y; }
static int zero;    // not known to the compiler
#ifdef __CUDACPU__  // nvcc's assembler refuses this kernel, and knows no load_matrices
__global__ void too_much_static()
{
    __shared__ float a[7000], b[7000];
    a[threadIdx.x] = b[threadIdx.x] = 1;
    sink = a[0] + b[0];
}

// ldmatrix of rows `stride` elements apart; lane 9 hands in one `off` elements further on.
__global__ void fetch_rows(int stride, int off)
{
    extern __shared__ __align__(128) unsigned short rows[];
    uint32_t f[4];
    for (int i = threadIdx.x; i < 32 * stride; i += 32) rows[i] = 0;
    __syncwarp();
    cudacpu::load_matrices(f, rows + (int)threadIdx.x * stride + (lane == 9 ? off : 0), false, cudacpu::here());
}
static void fetched(int stride, int off) { fetch_rows<<<1, 32, (size_t)(32 * stride + 8) * 2>>>(stride, off); }

// Eight rows 16 bytes apart are 128 neighbouring ones; 32, 64 and 128 bytes apart two, four and eight share banks; 144
// none; 0: all are the same.
Test(cpu_layer, passes_of_ldmatrix)
{
    const int passes[][2] = {{8, 1}, {16, 2}, {32, 4}, {64, 8}, {72, 1}, {0, 1}};
    for (const auto &p : passes) {
        wb_what_was_asked();
        fetched(p[0], 0);
        const wb_asked asked = wb_what_was_asked();
        EXPECT(asked.fetches, 4, "%d apart", p[0]);
        EXPECT(asked.passes, 4 * p[1], "%d apart", p[0]);
        EXPECT(asked.worst, p[1] > 1 ? p[1] : 0, "%d apart", p[0]);
    }
}
#endif

Test(cpu_layer, reports_of_alignment_division_room)
{
    told({"misaligned asynchronous copy", "destination is 4 bytes past", "// 4 bytes off"},
         [] { async_misaligned<<<1, 1>>>(device_floats(8)); });
#ifdef __CUDACPU__
    told({"misaligned matrix row", "thread (9,0,0)", "from lane 9 is 4 bytes past"}, [] { fetched(8, 2); });
    told({"bad matrix row", "thread (9,0,0)", "lane 9", "past the end of extern __shared__ rows"},
         [] { fetched(8, 8 * 24); });
    told({"too much static shared memory", "b brings static shared memory to 56000 bytes"}, 32, too_much_static);
#endif
#if defined(__x86_64__)
    told({"misaligned access in kernel read_vector", "// not at a multiple of 16"}, [] {
        float *x = device_floats(8);
        read_vector<<<1, 1>>>(reinterpret_cast<float4 *>(x), x + 1);
    });
    told({"integer division by zero", "kernel divide"}, 1, divide, zero);
#endif
}

// A GPU never asks for more than 16 bytes, whatever a type is declared with.
struct alignas(128) large_row {
    float4 x[8];
};
__global__ void at_sixteen(large_row *rows) { rows->x[threadIdx.x] = make_float4(1, 2, 3, 4); }

Test(cpu_layer, sixteen_bytes_are_aligned_enough)
{
    float out[36] = {};
    {
        const on_device<float> r(out, 36);
        at_sixteen<<<1, 8>>>(reinterpret_cast<large_row *>(r.at + 4));
    }
    for (int i = 0; i < 36; i++) EXPECT(out[i], i < 4 ? 0 : 1 + i % 4, "element %d", i);
}

Test(cpu_layer, faults_of_the_host_are_left_alone)
{
    const int status = run_in_a_child([] {
        signal(SIGSEGV, SIG_DFL);
        void *x;
        cudaMalloc(&x, 16);
        volatile int *null = NULL;
        *null = 1;
    });
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x:\n%s", (unsigned)status, printed);
}
