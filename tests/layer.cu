// layer.cu - the CPU execution layer (workbook/cpu): every feature computes what a GPU would, every mistake is reported in the right
// words. Small kernels, each before its test; valid CUDA.
#include "apart.h"
#include "memory.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(cpu_layer, .timeout = 60);

#define FULL 0xffffffffu
// Names that students use, as macros: they must not reach into the layer's headers.
#define N    24
#define lane (threadIdx.x % 32)

static const char *error_name(int error) { return cudaGetErrorName((cudaError_t)error); }

// A device array that is copied back at the end.
template <class T> struct results {
    T *device, *host;
    size_t count;
    results(T *out, size_t length) : host(out), count(length)
    {
        cudaMalloc(&device, count * sizeof(T));
        cudaMemset(device, 0, count * sizeof(T));
    }
    ~results()
    {
        cudaMemcpy(host, device, count * sizeof(T), cudaMemcpyDeviceToHost);
        cudaFree(device);
    }
};

// One launch, with these blocks, threads and so on, whose kernel takes nothing but the array.
#define RUN(kernel, out, count, ...)                                                                                   \
    do {                                                                                                               \
        results r(out, count);                                                                                         \
        kernel<<<__VA_ARGS__>>>(r.device);                                                                             \
    } while (0)

#define COMPARE(condition, got, want, ...)                                                                             \
    do {                                                                                                               \
        const double got_ = (double)(got), want_ = (double)(want);                                                     \
        char where_[96];                                                                                               \
        snprintf(where_, sizeof where_, __VA_ARGS__);                                                                  \
        cr_assert(condition, "%s, %s: got %.9g, want %.9g", #got, where_, got_, want_);                                \
    } while (0)
#define EXPECT(got, want, ...) COMPARE(got_ == want_, got, want, __VA_ARGS__)
#define NEAR(got, want, ...)                                                                                           \
    COMPARE(isfinite(got_) && fabs(got_ - want_) <= 1e-6 * (1 + fabs(want_)), got, want, __VA_ARGS__)

// ---------------------------------------------------------------------------------------------------------- who am I, arguments

__global__ void indices(int *out)
{
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * N + thread] = 1000 * block + thread;
}

Test(cpu_layer, indices_in_three_dimensions)
{
    int out[12][24];
    RUN(indices, &out[0][0], 12 * N, dim3(2, 3, 2), dim3(4, 2, 3));
    for (int b = 0; b < 12; b++)
        for (int t = 0; t < 24; t++) EXPECT(out[b][t], 1000 * b + t, "block %d, thread %d", b, t);
}

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
    float out[8];
    {
        results<float> r(out, 8);
        pair p = {1, 2};
        evaluated = 0;
        arguments<<<1, 2>>>(r.device, p, count_evaluations(), 0);
        arguments<<<1, 2>>>(r.device + 2, {3, 4},  // a brace
                            0, NULL);
        arguments<<<1, 4>>>(first_of<float *, int>(r.device + 4, 0), p,  // a comma inside < >
                            count_evaluations(), out);
    }
    EXPECT(evaluated, 2, "two launches");
    for (int t = 0; t < 2; t++) {
        EXPECT(out[t], (1 + t) * 100 + 2 + 2, "thread %d", t);
        EXPECT(out[2 + t], (3 + t) * 100 + 4 + 1, "thread %d, argument in braces", t);
    }
    for (int t = 0; t < 4; t++) EXPECT(out[4 + t], (1 + t) * 100 + 2 + 3 + 1, "thread %d, template in an argument", t);
}

// ---------------------------------------------------------------------------------------------------------------- shared memory

template <int B, typename T> __global__ void reverse(T *out)
{
    __shared__ T x[B], total;
    __shared__ alignas(64) float table[2][B / 2 + 1];
    const int t = threadIdx.x;
    if (t == 0) total = T(blockIdx.x) * 1000;
    x[t] = T(t);
    table[t % 2][t / 2] = 0.5f;
    __syncthreads();
    out[blockIdx.x * B + t] = x[B - 1 - t] + total + T(table[1 - t % 2][t / 2]) + T((size_t)table % 64);
}

Test(cpu_layer, shared_variables_belong_to_the_block)
{
    float out[3][64];
    RUN(reverse<64>, &out[0][0], 3 * 64, 3, 64);
    for (int b = 0; b < 3; b++)
        for (int t = 0; t < 64; t++) EXPECT(out[b][t], 63 - t + 1000 * b + 0.5, "block %d, thread %d", b, t);
}

__global__ void look_at_fresh_shared(int *out)
{
    __shared__ float x[33];
    extern __shared__ __align__(16) float y[];
    int nans = 0, nans_dynamic = 0;
    for (int i = 0; i < 33; i++) nans += isnan(x[i]);
    for (int i = 0; i < 50; i++) nans_dynamic += isnan(y[i]);
    atomicAdd(&out[0], nans);
    atomicAdd(&out[1], nans_dynamic);
    __syncthreads();
    x[threadIdx.x] = y[threadIdx.x] = 1;  // what the next block must not see
}

Test(cpu_layer, shared_memory_starts_as_nan_in_every_block)
{
    int out[2];
    RUN(look_at_fresh_shared, out, 2, 4, 2, 50 * sizeof(float));
    EXPECT(out[0], 4 * 2 * 33, "static");
    EXPECT(out[1], 4 * 2 * 50, "dynamic");
}

__global__ void dynamic_shared_sum(int *out)
{
    extern __shared__ int x[];
    const int t = threadIdx.x, count = blockDim.x;
    x[t] = t;
    __syncthreads();
    for (int reach = 1; reach < count; reach *= 2) {
        const int other = t >= reach ? x[t - reach] : 0;
        __syncthreads();
        x[t] += other;
        __syncthreads();
    }
    out[t] = x[t];
}

Test(cpu_layer, dynamic_shared_memory)
{
    int out[100];
    RUN(dynamic_shared_sum, out, 100, 1, 100, 100 * sizeof(int));
    for (int t = 0; t < 100; t++) EXPECT(out[t], t * (t + 1) / 2, "running sum %d", t);
}

// ----------------------------------------------------------------------------------------------------------- barriers and warps

__global__ void barrier_votes(int *out)
{
    const int t = threadIdx.x;
    out[3 * t] = __syncthreads_count(t % 3 == 0);
    out[3 * t + 1] = __syncthreads_and(t < 96) + 2 * __syncthreads_and(t < 95);
    out[3 * t + 2] = __syncthreads_or(t == 95) + 2 * __syncthreads_or(t > 95);
}

Test(cpu_layer, barriers_that_count)
{
    int out[96][3];
    RUN(barrier_votes, &out[0][0], 96 * 3, 1, 96);
    for (int t = 0; t < 96; t++) {
        EXPECT(out[t][0], 32, "count, thread %d", t);
        EXPECT(out[t][1], 1, "and, thread %d", t);
        EXPECT(out[t][2], 1, "or, thread %d", t);
    }
}

__global__ void shuffles(int *out)
{
    const int l = lane;
    int *mine = out + 8 * l;
    mine[0] = __shfl_sync(FULL, 3 * l, 5);
    mine[1] = __shfl_up_sync(FULL, l, 2);
    mine[2] = __shfl_down_sync(FULL, l, 3, 16);
    mine[3] = __shfl_xor_sync(FULL, l, 9);
    mine[4] = __shfl_sync(FULL, l, l + 1, 8);
    mine[5] = __shfl_up_sync(FULL, l, 1, 4);
    mine[6] = __shfl_xor_sync(FULL, l, 16, 16);  // leaves its part of the warp: keeps its own value
    mine[7] = __shfl_down_sync(FULL, l, 31);
}

Test(cpu_layer, shuffles)
{
    int out[32][8];
    RUN(shuffles, &out[0][0], 32 * 8, 1, 32);
    for (int l = 0; l < 32; l++) {
        EXPECT(out[l][0], 15, "lane %d", l);
        EXPECT(out[l][1], l < 2 ? l : l - 2, "up, lane %d", l);
        EXPECT(out[l][2], l % 16 < 13 ? l + 3 : l, "down in halves, lane %d", l);
        EXPECT(out[l][3], l ^ 9, "xor, lane %d", l);
        EXPECT(out[l][4], l / 8 * 8 + (l + 1) % 8, "in eights, lane %d", l);
        EXPECT(out[l][5], l % 4 ? l - 1 : l, "up in fours, lane %d", l);
        EXPECT(out[l][6], l < 16 ? l : l - 16, "xor out of a half, lane %d", l);
        EXPECT(out[l][7], l == 0 ? 31 : l, "down 31, lane %d", l);
    }
}

__global__ void shuffle_types(double *out)
{
    const int l = lane;
    out[4 * l] = __shfl_xor_sync(FULL, l + 0.25, 1);
    out[4 * l + 1] = __shfl_xor_sync(FULL, (float)l + 0.5f, 1);
    out[4 * l + 2] = (double)__shfl_xor_sync(FULL, (1ull << 40) + l, 1);
    out[4 * l + 3] = __bfloat162float(__shfl_xor_sync(FULL, __float2bfloat16((float)l), 1));
}

Test(cpu_layer, shuffles_of_every_type)
{
    double out[32][4];
    RUN(shuffle_types, &out[0][0], 32 * 4, 1, 32);
    for (int l = 0; l < 32; l++) {
        EXPECT(out[l][0], (l ^ 1) + 0.25, "double, lane %d", l);
        EXPECT(out[l][1], (l ^ 1) + 0.5, "float, lane %d", l);
        EXPECT(out[l][2], (double)(1ull << 40) + (l ^ 1), "64 bits, lane %d", l);
        EXPECT(out[l][3], l ^ 1, "bf16, lane %d", l);
    }
}

__global__ void votes(unsigned *out)
{
    const int l = lane;
    unsigned *mine = out + 6 * l;
    mine[0] = __ballot_sync(FULL, l % 3 == 0);
    mine[1] = __any_sync(FULL, l == 31);
    mine[2] = __any_sync(FULL, l == 32);
    mine[3] = __all_sync(FULL, l < 32);
    mine[4] = __all_sync(FULL, l < 31);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
    mine[5] = __match_any_sync(FULL, l % 4);
#endif
}

Test(cpu_layer, votes)
{
    unsigned out[32][6];
    RUN(votes, &out[0][0], 32 * 6, 1, 32);
    for (int l = 0; l < 32; l++) {
        const unsigned want[] = {0x49249249u, 1, 0, 1, 0, 0x11111111u << l % 4};
        for (int i = 0; i < 6; i++) EXPECT(out[l][i], want[i], "lane %d, vote %d", l, i);
    }
}

__global__ void reductions(int *out)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    const int l = lane;
    int *mine = out + 9 * l;
    mine[0] = __reduce_add_sync(FULL, l - 20);
    mine[1] = __reduce_min_sync(FULL, l - 20);
    mine[2] = __reduce_max_sync(FULL, l - 20);
    mine[3] = (int)__reduce_add_sync(FULL, (unsigned)l);
    mine[4] = (int)__reduce_min_sync(FULL, (unsigned)l - 1);  // lane 0 has the largest unsigned
    mine[5] = __reduce_max_sync(FULL, (unsigned)l - 1) == 0xffffffffu;
    mine[6] = (int)__reduce_and_sync(FULL, (unsigned)l | 0x100u);
    mine[7] = (int)__reduce_or_sync(FULL, 1u << l % 7);
    mine[8] = (int)__reduce_xor_sync(FULL, (unsigned)l + 1);
#endif
}

Test(cpu_layer, warp_reductions)
{
    int out[32][9];
    RUN(reductions, &out[0][0], 32 * 9, 1, 32);
    const int want[] = {496 - 640, -20, 11, 496, 0, 1, 0x100, 0x7f, 32};
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 9; i++) EXPECT(out[l][i], want[i], "lane %d, reduction %d", l, i);
}

__global__ void partial_warp(int *out)
{
    const int t = threadIdx.x;  // the second warp has 8 lanes
    int sum = t;
    for (int by = 4; by > 0; by /= 2) sum += __shfl_xor_sync(t < 32 ? FULL : 0xffu, sum, by);
    __syncwarp(t < 32 ? FULL : 0xffu);
    out[t] = sum;
}

Test(cpu_layer, last_warp_may_be_partial)
{
    int out[40];
    RUN(partial_warp, out, 40, 1, 40);
    for (int t = 0; t < 40; t++) EXPECT(out[t], 8 * (t / 8 * 8) + 28, "thread %d", t);
}

__global__ void returned_lanes(int *out)
{
    if (lane >= 20) return;
    const unsigned there = __ballot_sync(FULL, 1);  // a lane that has returned is not waited for
    out[lane] = __popc(there);
}

Test(cpu_layer, returned_lanes_are_not_waited_for)
{
    int out[32];
    RUN(returned_lanes, out, 32, 1, 32);
    for (int l = 0; l < 32; l++) EXPECT(out[l], l < 20 ? 20 : 0, "lane %d", l);
}

__global__ void half_masks(int *out)
{
    const int l = lane;
    int x;
    if (l < 16)
        x = __shfl_xor_sync(0x0000ffffu, l, 1);
    else
        x = __shfl_xor_sync(0xffff0000u, l, 2);
    out[l] = x;
}

Test(cpu_layer, halves_of_a_warp_shuffle_apart)
{
    int out[32];
    RUN(half_masks, out, 32, 1, 32);
    for (int l = 0; l < 32; l++) EXPECT(out[l], l < 16 ? l ^ 1 : l ^ 2, "lane %d", l);
}

#ifdef __CUDACPU__
static void add_all(void **values, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++) sum = 10 * sum % 1000003 + *(int *)values[i];  // in lane order
    for (int i = 0; i < count; i++) *(int *)values[i] = 100 * sum + count;
}
#endif

__global__ void warp_call(int *out)
{
    int x = (threadIdx.x * 7 + 3) % 10;
#ifdef __CUDACPU__
    cudacpu::warp_call(add_all, &x);
#endif
    out[threadIdx.x] = x;
}

Test(cpu_layer, warp_call_sees_every_lane_in_order)
{
    int out[40];
    RUN(warp_call, out, 40, 1, 40);
    for (int w = 0; w < 2; w++) {
        const int count = w ? 8 : 32;
        int sum = 0;
        for (int i = 0; i < count; i++) sum = 10 * sum % 1000003 + ((32 * w + i) * 7 + 3) % 10;
        for (int i = 0; i < count; i++) EXPECT(out[32 * w + i], 100 * sum + count, "warp %d, lane %d", w, i);
    }
}

__global__ void local_arrays(int *out)
{
    int stack[64];
    for (int i = 0; i < 64; i++) stack[i] = threadIdx.x * 64 + i;
    __syncthreads();
    const int next = __shfl_down_sync(FULL, stack[5], 1);
    __syncthreads();
    int wrong = lane < 31 && next != (int)(threadIdx.x + 1) * 64 + 5;
    for (int i = 0; i < 64; i++) wrong += stack[i] != (int)threadIdx.x * 64 + i;
    out[threadIdx.x] = wrong;
}

Test(cpu_layer, every_thread_keeps_its_own_stack)
{
    int out[64];
    RUN(local_arrays, out, 64, 5, 64);
    for (int t = 0; t < 64; t++) EXPECT(out[t], 0, "thread %d", t);
}

// ------------------------------------------------------------------------------------------------------------ atomics and blocks

__global__ void atomics(float *f, double *d, int *i, unsigned *u, unsigned long long *l)
{
    __shared__ int inside;
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;  // 0 ... 671
    if (threadIdx.x == 0) inside = 0;
    __syncthreads();
    atomicAdd(&inside, 1);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&i[0], inside);
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicMax(&i[1], thread);
    atomicMin(&i[2], -thread);
    atomicCAS(&i[3], 0, 7);
    atomicSub(&i[4], 2);
    atomicAnd(&u[0], ~(1u << thread % 32));
    atomicOr(&u[1], 1u << thread % 5);
    atomicXor(&u[2], 1u << thread % 3);
    atomicInc(&u[3], 99);
    atomicAdd(&l[0], 1ull << 33);
    if (thread == 5) atomicExch(&u[4], 17u);
}

Test(cpu_layer, atomics)
{
    float f[1];
    double d[1];
    int i[5];
    unsigned u[5];
    unsigned long long l[1];
    {
        results<float> rf(f, 1);
        results<double> rd(d, 1);
        results<int> ri(i, 5);
        results<unsigned> ru(u, 5);
        results<unsigned long long> rl(l, 1);
        cudaMemset(ru.device, 0xff, 4);
        atomics<<<7, 96>>>(rf.device, rd.device, ri.device, ru.device, rl.device);
    }
    const double out[] = {f[0],         d[0],         (double)i[0], (double)i[1], (double)i[2],
                          (double)i[3], (double)i[4], (double)u[0], (double)u[1], (double)u[2],
                          (double)u[3], (double)u[4], (double)l[0]};
    const double want[] = {336, 168, 672, 671, -671, 7, -1344, 0, 31, 0, 72, 17, 672 * 8589934592.0};
    for (int n = 0; n < 13; n++) EXPECT(out[n], want[n], "atomic %d", n);
}

__global__ void every_block_once(int *out)
{
    if (threadIdx.x == 0) atomicAdd(&out[blockIdx.x + gridDim.x * blockIdx.y], 1);
}

Test(cpu_layer, every_block_runs_once)
{
    int out[1000];
    {
        results<int> r(out, 1000);
        for (int i = 0; i < 3; i++) every_block_once<<<dim3(100, 10), 33>>>(r.device);
    }
    for (int b = 0; b < 1000; b++) EXPECT(out[b], 3, "block %d after three launches", b);
}

// -------------------------------------------------------------------------------------------------------------- types and maths

__global__ void vectors(float *out)
{
    const float4 v = make_float4(threadIdx.x, 1, 2, 3);
    reinterpret_cast<float4 *>(out)[threadIdx.x] = v;
    const float4 w = __ldg(reinterpret_cast<const float4 *>(out) + threadIdx.x);
    const int2 i = make_int2(3, 4);
    out[4 * threadIdx.x + 3] = w.x + w.z * i.y;
}

Test(cpu_layer, vector_types)
{
    float out[64];
    RUN(vectors, out, 64, 1, 16);
    for (int t = 0; t < 16; t++) {
        EXPECT(out[4 * t], t, "x of thread %d", t);
        EXPECT(out[4 * t + 3], t + 8, "w of thread %d", t);
    }
#define LAID_OUT(type, size, alignment)                                                                                \
    EXPECT(sizeof(type), size, #type);                                                                                 \
    EXPECT(alignof(type), alignment, #type)
    LAID_OUT(float2, 8, 8);
    LAID_OUT(float3, 12, 4);
    LAID_OUT(float4, 16, 16);
    LAID_OUT(uchar4, 4, 4);
    LAID_OUT(double2, 16, 16);
    LAID_OUT(__nv_bfloat162, 4, 4);
}

template <class T> struct converter;
template <> struct converter<__nv_bfloat16> {
    static __device__ __nv_bfloat16 from(float x) { return __float2bfloat16(x); }
    static __device__ float to(__nv_bfloat16 x) { return __bfloat162float(x); }
};
template <> struct converter<__half> {
    static __device__ __half from(float x) { return __float2half(x); }
    static __device__ float to(__half x) { return __half2float(x); }
};

template <class T> __global__ void convert(unsigned short *out, const float *in, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const T x = converter<T>::from(in[i]);
    memcpy(&out[i], &x, 2);
}

static const float not_a_number = NAN;

template <class T> static void run_convert(unsigned short *out, const float *in, int count)
{
    results<unsigned short> r(out, count);
    float *x;
    cudaMalloc(&x, count * sizeof(float));
    cudaMemcpy(x, in, count * sizeof(float), cudaMemcpyHostToDevice);
    convert<T><<<(count + 63) / 64, 64>>>(r.device, x, count);
    cudaFree(x);
}

Test(cpu_layer, bf16_rounds_to_nearest_even)
{
    const float in[] = {1.0f, 1.00390625f, 1.01171875f, 1.0039065f, -2.5f, 3.4e38f, INFINITY, 0.0f, -0.0f, 1e-40f};
    const unsigned short want[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xc020, 0x7f80, 0x7f80, 0, 0x8000, 0x0001};
    unsigned short out[10], nan;
    run_convert<__nv_bfloat16>(out, in, 10);
    for (int i = 0; i < 10; i++) EXPECT(out[i], want[i], "%g", (double)in[i]);
    run_convert<__nv_bfloat16>(&nan, &not_a_number, 1);
    EXPECT(nan & 0x7fff, 0x7fff, "NaN stays NaN");
}

Test(cpu_layer, half_rounds_to_nearest_even)
{
    const float in[] = {1.0f,      1.00048828125f, 1.00146484375f,   65504.0f,
                        65519.0f,  65520.0f,       6.103515625e-05f, 5.9604645e-08f,
                        2.98e-08f, 2.99e-08f,      -0.333333343f,    6.0975552e-05f};
    const unsigned short want[] = {0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7bff, 0x7c00,
                                   0x0400, 0x0001, 0,      0x0001, 0xb555, 0x03ff};
    unsigned short out[12], nan;
    run_convert<__half>(out, in, 12);
    for (int i = 0; i < 12; i++) EXPECT(out[i], want[i], "%.9g", (double)in[i]);
    run_convert<__half>(&nan, &not_a_number, 1);
    EXPECT(nan & 0x7fff, 0x7fff, "NaN stays NaN");
}

template <class T> __global__ void round_trip(int *lost)
{
    const unsigned short bits = (unsigned short)(blockIdx.x * blockDim.x + threadIdx.x);
    T x, y;
    memcpy(&x, &bits, 2);
    const float f = converter<T>::to(x);
    y = converter<T>::from(f);
    unsigned short again;
    memcpy(&again, &y, 2);
    if (isnan(f) ? !isnan(converter<T>::to(y)) : again != bits) atomicAdd(lost, 1);
}

Test(cpu_layer, all_16_bit_patterns_survive)
{
    int lost[2];
    RUN(round_trip<__nv_bfloat16>, &lost[0], 1, 256, 256);
    RUN(round_trip<__half>, &lost[1], 1, 256, 256);
    EXPECT(lost[0], 0, "patterns of bf16");
    EXPECT(lost[1], 0, "patterns of half");
}

__global__ void half_arithmetic(float *out)
{
    const __half a = __float2half(1.5f), b = __float2half(0.25f);
    const __nv_bfloat16 c = __float2bfloat16(3), d = __float2bfloat16(-2);
    const __half2 p = __floats2half2_rn(1, 2);
    const __nv_bfloat162 q = __floats2bfloat162_rn(3, 4);
    const float2 u = __half22float2(__hadd2(p, p)), v = __bfloat1622float2(__hmul2(q, q));
    out[0] = __half2float(__hadd(a, b));
    out[1] = __half2float(__hmul(a, b));
    out[2] = __bfloat162float(c * d);
    out[3] = __half2float(__hfma(a, b, a));
    out[4] = u.x + 10 * u.y;
    out[5] = v.x + 100 * v.y;
    out[6] = __bfloat162float(__hmax(c, d));
    out[7] = (float)(d < c) + 2 * (float)(a < b);
    out[8] = __low2float(q) + 10 * __high2float(q);
    out[9] = __bfloat162float(-c);
    out[10] = __half2float(hexp2(__float2half(3)));
    out[11] = __bfloat162float(__float2bfloat16(1) + __float2bfloat16(0.00390625f));  // 1 + 2^-8: a tie, to even
}

Test(cpu_layer, half_arithmetic)
{
    float out[12];
    RUN(half_arithmetic, out, 12, 1, 1);
    const float want[] = {1.75f, 0.375f, -6, 1.875f, 42, 1609, 3, 1, 43, -3, 8, 1};
    for (int i = 0; i < 12; i++) EXPECT(out[i], want[i], "result %d", i);
}

__global__ void maths(float *out, float two)
{
    out[0] = __expf(two);
    out[1] = exp2f(two);
    out[2] = __logf(two);
    out[3] = __log2f(two);
    out[4] = rsqrtf(two);
    out[5] = __fdividef(1, two);
    out[6] = __frcp_rn(two);
    out[7] = fmaf(two, two, 1);
    out[8] = __powf(two, 3);
    out[9] = __saturatef(two) + __saturatef(-two) + __saturatef(two / 4);
    out[10] = __sinf(two);
    out[11] = fmaxf(NAN, two);
    out[12] = exp2f(-INFINITY);
    out[13] = __int_as_float(__float_as_int(two) + 1);
    out[14] = __uint_as_float(0x7f800000u);
    out[15] = isfinite(two * INFINITY) ? 1 : 0;
}

Test(cpu_layer, maths)
{
    float out[16];
    {
        results<float> r(out, 16);
        maths<<<1, 1>>>(r.device, 2.0f);
    }
    const double want[] = {exp(2), 4, log(2), 1, 1 / sqrt(2), 0.5, 0.5, 5, 8, 1.5, sin(2), 2, 0};
    for (int i = 0; i < 13; i++) NEAR(out[i], want[i], "result %d", i);
    EXPECT(out[13], nextafterf(2, 3), "bits of a float");
    EXPECT(out[14], INFINITY, "bits of infinity");
    EXPECT(out[15], 0, "isfinite");
}

__global__ void bits(int *out, int x)
{
    out[0] = __popc(x);
    out[1] = __clz(x);
    out[2] = __clz(0);
    out[3] = __ffs(x);
    out[4] = (int)__brev(1u);
    out[5] = __popcll(~0ull);
    out[6] = (int)__byte_perm(0x33221100u, 0x77665544u, 0x7142u);
    out[7] = __mulhi(1 << 20, 1 << 20);
    out[8] = __float2int_rn(2.5f);
    out[9] = __float2int_rz(-2.7f);
    out[10] = __float2int_rd(-2.2f);
    out[11] = __float2int_ru(2.2f);
    out[12] = warpSize;
}

Test(cpu_layer, bits)
{
    int out[16];
    {
        results<int> r(out, 16);
        bits<<<1, 1>>>(r.device, 0x50);
    }
    const int want[] = {2, 25, 32, 5, (int)0x80000000u, 64, 0x77114422, 256, 2, -2, -3, 3, 32};
    for (int i = 0; i < 13; i++) EXPECT(out[i], want[i], "result %d", i);
}

__global__ void min_max(double *out, int minus, unsigned big, long long wide)
{
    out[0] = min(minus, 2);
    out[1] = max(minus, 2);
    out[2] = max(big, 1u);
    out[3] = (double)max(wide, 5ll);
    out[4] = min(1.5f, 2.5f);
    out[5] = max(1.5f, 2.5);
    out[6] = max((unsigned)minus, big);
    out[7] = min(NAN, 3.0f);
}

Test(cpu_layer, min_and_max_of_mixed_types)
{
    double out[8];
    {
        results<double> r(out, 8);
        min_max<<<1, 1>>>(r.device, -3, 4000000000u, 1ll << 40);
    }
    const double want[] = {-3, 2, 4000000000.0, 1099511627776.0, 1.5, 2.5, 4294967293.0, 3};
    for (int i = 0; i < 8; i++) EXPECT(out[i], want[i], "result %d", i);
}

// -------------------------------------------------------------------------------------------------------- asynchronous copies

// Two groups of copies in flight; what is visible after waiting for none, one, all.
__global__ void async_copy(float *out, const float *in)
{
    __shared__ float x[2][32];
    const int t = threadIdx.x;
    x[0][t] = x[1][t] = -1;
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        if (t % 4 == 0) __pipeline_memcpy_async(&x[i][t], &in[32 * i + t], 16);
        __pipeline_commit();
    }
    __pipeline_wait_prior(2);
    __syncthreads();
    out[t] = x[0][t];
    __syncthreads();
    __pipeline_wait_prior(1);
    __syncthreads();
    out[32 + t] = x[0][31 - t];
    out[64 + t] = x[1][t];
    __syncthreads();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[96 + t] = x[1][31 - t];
}

Test(cpu_layer, asynchronous_copies_arrive_when_waited_for)
{
    float out[4][32];
    float *in, numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = (float)i;
    cudaMalloc(&in, sizeof numbers);
    cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    {
        results<float> r(&out[0][0], 128);
        async_copy<<<1, 32>>>(r.device, in);
    }
    cudaFree(in);
    for (int t = 0; t < 32; t++) {
        cr_assert(isnan(out[0][t]), "element %d of the first group is there before the wait", t);
        EXPECT(out[1][t], 31 - t, "first group, %d", t);
        cr_assert(isnan(out[2][t]), "element %d of the second group is there before its wait", t);
        EXPECT(out[3][t], 63 - t, "second group, %d", t);
    }
}

__global__ void async_zero_fill(float *out)
{
    __shared__ alignas(16) float x[4];
    out[0] = out[1] = out[2] = out[3] = 5;
    __pipeline_memcpy_async(x, out, 16, 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int i = 0; i < 4; i++) out[i] = x[i];
}

Test(cpu_layer, asynchronous_copies_fill_with_zeros)
{
    float out[4];
    RUN(async_zero_fill, out, 4, 1, 1);
    for (int i = 0; i < 4; i++) EXPECT(out[i], i < 2 ? 5 : 0, "element %d", i);
}

// --------------------------------------------------------------------------------------------------------------- host functions

__constant__ float constants[3];
__device__ int counter;

__global__ void symbols(float *out)
{
    *out = constants[0] + 10 * constants[2];
    atomicAdd(&counter, 3);
}

Test(cpu_layer, device_and_constant_variables)
{
    float out[2];
    const float values[3] = {1, 2, 3};
    int count = 4;
    cudaMemcpyToSymbol(constants, values, sizeof values);
    cudaMemcpyToSymbol(counter, &count, sizeof count);
    {
        results<float> r(out, 1);
        symbols<<<1, 5>>>(r.device);
    }
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    out[1] = (float)count;
    EXPECT(out[0], 31, "__constant__");
    EXPECT(out[1], 19, "__device__");
}

namespace inner
{
template <int VALUE, class T> __global__ void put(T *at) { *at = T(VALUE); }
}
__global__ void put_two(int *at) { *at = 2; }
__global__ void overloaded(int *at) { *at = 3; }
__global__ void overloaded(int *at, int value) { *at = value; }

template <int VALUE> static void launch_dependent(int *at)
{
    void (*kernel)(int *) = inner::put<VALUE + 1, int>;
    inner::put<VALUE><<<1, 1>>>(at);  // T is deduced
    kernel<<<1, 1>>>(at + 1);
}

#define PUT(at, value) overloaded<<<1, 1, 0>>>(at, value)

Test(cpu_layer, kernels_by_any_name)
{
    int out[6];
    const int want[] = {4, 5, 3, 6, 2, 2};
    {
        results<int> r(out, 6);
        void (*kernels[2])(int *) = {put_two, inner::put<(8 >> 2), int>};
        launch_dependent<4>(r.device);
        overloaded<<<1, 1>>>(r.device + 2);
        PUT(r.device + 3, 6);
        kernels[0]<<<1, 1>>>(r.device + 4);
        (r.count ? kernels[1] : kernels[0])<<<1, 1>>>(r.device + 5);
    }
    for (int i = 0; i < 6; i++) EXPECT(out[i], want[i], "launch %d", i);
}

namespace cg = cooperative_groups;

__global__ void groups(int *out)
{
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int t = block.thread_rank();
    out[3 * t] = cg::reduce(tile, t, cg::plus<int>());
    out[3 * t + 1] = tile.shfl(t, 2) * 100 + tile.thread_rank();
    block.sync();
    out[3 * t + 2] = tile.meta_group_rank() * 1000 + (int)tile.ballot(t % 2);
}

Test(cpu_layer, cooperative_groups)
{
    int out[64][3];
    RUN(groups, &out[0][0], 64 * 3, 1, 64);
    for (int t = 0; t < 64; t++) {
        EXPECT(out[t][0], 8 * (t / 8 * 8) + 28, "sum, thread %d", t);
        EXPECT(out[t][1], (t / 8 * 8 + 2) * 100 + t % 8, "shuffle, thread %d", t);
        EXPECT(out[t][2], t / 8 * 1000 + 0xaa, "ballot, thread %d", t);
    }
}

static float layer_events_and_streams(void)
{
    cudaStream_t stream;
    cudaEvent_t start, stop;
    float ms = -1;
    int values[6];
    cudaStreamCreate(&stream);
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start, stream);
    {
        results<int> r(values, 6);
        for (int i = 0; i < 100; i++) put_two<<<1, 1, 0, stream>>>(r.device);
        cudaEventRecord(stop, stream);
    }
    cudaEventSynchronize(stop);
    if (cudaEventElapsedTime(&ms, start, stop) != cudaSuccess) ms = -1;
    cudaStreamSynchronize(stream);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    cudaStreamDestroy(stream);
    return values[0] == 2 ? ms : -1;
}

Test(cpu_layer, events_measure_time)
{
    const float ms = layer_events_and_streams();
    cr_assert(ms > 0 && ms < 10000, "100 launches took %g ms", (double)ms);
}

__global__ void double_all(int *x) { x[threadIdx.x + blockDim.x * blockIdx.x] *= 2; }

static int layer_library_like(int x)
{
    int values[40];
    for (int i = 0; i < 40; i++) values[i] = x;
    int *device;
    cudaMalloc(&device, sizeof values);
    cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice);
    double_all<<<10, 4>>>(device);
    cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost);
    cudaFree(device);
    int sum = 0;
    for (int i = 0; i < 40; i++) sum += values[i];
    return sum;
}

Test(cpu_layer, works_in_a_child_after_its_parent_used_it)
{
    EXPECT(layer_library_like(3), 240, "parent");
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        _exit(layer_library_like(5) == 400 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x", (unsigned)status);
}

// ------------------------------------------------------------------------------------------------------------------------ memory

#ifdef __CUDACPU__  // the layer alone keeps these books
Test(cpu_layer, memory_is_counted)
{
    size_t out[5];
    const size_t want[] = {6000, 1000, 6000, 1000, 0};
    void *a, *b;
    wb_memory_reset_peak();
    const size_t before = wb_memory_current();
    cudaMalloc(&a, 1000);
    cudaMallocAsync(&b, 5000, 0);
    out[0] = wb_memory_current() - before;
    cudaFreeAsync(b, 0);
    out[1] = wb_memory_current() - before;
    out[2] = wb_memory_peak() - before;
    wb_memory_reset_peak();
    out[3] = wb_memory_peak() - before;
    cudaFree(a);
    out[4] = wb_memory_current() - before;
    for (int i = 0; i < 5; i++) EXPECT(out[i], want[i], "count %d", i);
}
#endif

Test(cpu_layer, fresh_device_memory_is_nan)
{
    unsigned char out[1000];
    unsigned char *x;
    cudaMalloc(&x, 1000);
    cudaMemcpy(out, x, 1000, cudaMemcpyDeviceToHost);
    cudaFree(x);
    for (int i = 0; i < 1000; i++) EXPECT(out[i], 0xff, "byte %d", i);
}

Test(cpu_layer, memory_runs_out)
{
    void *x;
    EXPECT(cudaMalloc(&x, (size_t)1 << 44), cudaErrorMemoryAllocation, "2^44 bytes");
    cudaGetLastError();
}

Test(cpu_layer, properties)
{
    int out[4];
    const int want[] = {1024, 227 * 1024, 32, 227 * 1024};
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    out[0] = p.maxThreadsPerBlock;
    out[1] = (int)p.sharedMemPerBlockOptin;
    out[2] = p.warpSize;
    out[3] = 0;
    cudaDeviceGetAttribute(&out[3], cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    for (int i = 0; i < 4; i++) EXPECT(out[i], want[i], "property %d", i);
}

// -------------------------------------------------------------------------------------------------------------- refused launches

#define PRINTS(...)                                                                                                    \
    do {                                                                                                               \
        const char *words_[] = {__VA_ARGS__};                                                                          \
        for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++) check_printed(words_[i_]);                      \
    } while (0)

// f must end with a report, status 66, that holds all these words.
#define REPORTS(f, ...)                                                                                                \
    do {                                                                                                               \
        check_reported(run_apart(f));                                                                                  \
        PRINTS(__VA_ARGS__);                                                                                           \
    } while (0)

__global__ void nothing() {}
__global__ void nothing_else() {}

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
    const int status = run_apart(launch_as_set);
    cr_assert(WIFEXITED(status));
    cr_assert_str_eq(error_name(WEXITSTATUS(status)), error);
}

Test(cpu_layer, too_many_threads)
{
    refused(1, 1024, 0, "cudaSuccess");
    refused(1, 1025, 0, "cudaErrorInvalidConfiguration");
    PRINTS("launch of nothing refused", "1025 x 1 x 1 threads", "layer.cu:");
    refused(1, 0, 0, "cudaErrorInvalidConfiguration");
}

Test(cpu_layer, too_many_blocks)
{
    refused(65536, 1, 0, "cudaErrorInvalidConfiguration");
    PRINTS("launch of nothing refused", "1 x 65536 x 1 blocks");
    refused(0, 1, 0, "cudaErrorInvalidConfiguration");
}

Test(cpu_layer, too_much_shared_memory)
{
    refused(1, 1, 49152, "cudaSuccess");
    refused(1, 1, 49153, "cudaErrorInvalidValue");
    PRINTS("launch of nothing refused", "49153 bytes of dynamic shared memory", "cudaFuncSetAttribute");
}

Test(cpu_layer, shared_memory_opt_in_is_per_kernel)
{
    int errors[4];
    errors[0] = cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
    nothing<<<1, 1, 100000>>>();
    errors[1] = cudaGetLastError();
    nothing_else<<<1, 1, 100000>>>();  // did not ask
    errors[2] = cudaGetLastError();
    errors[3] = cudaFuncSetAttribute(nothing_else, cudaFuncAttributeMaxDynamicSharedMemorySize, 240000);
    cudaGetLastError();
    const int want[] = {0, 0, 1, 1};
    for (int i = 0; i < 4; i++) EXPECT(errors[i], want[i], "call %d", i);
}

Test(cpu_layer, wrong_copies_are_refused)
{
    int out[9];
    char host[64], other[64] = {0};
    void *x = NULL, *y = NULL;
    cudaMalloc(&x, 64);
    out[0] = cudaMemcpy(x, other, 65, cudaMemcpyHostToDevice);
    out[1] = cudaMemcpy(host, other, 64, cudaMemcpyDeviceToHost);
    out[2] = cudaMemset(host, 0, 64);
    out[3] = cudaFree(host);
    out[4] = cudaMalloc(&y, 0);
    out[5] = y != NULL;
    out[6] = cudaMemcpy(x, other, 64, cudaMemcpyDefault);
    out[7] = cudaFree(x);
    out[8] = cudaFree(NULL);
    cudaGetLastError();
    const int want[] = {1, 1, 1, 1, 0, 0, 0, 0, 0};
    for (int i = 0; i < 9; i++) EXPECT(out[i], want[i], "call %d (%s)", i, error_name(out[i]));
}

// ---------------------------------------------------------------------------------------------------------------- broken kernels

static int int_result[1];
static float float_result[8];

__global__ void two_barriers()
{
    if (threadIdx.x < 32)
        __syncthreads();  // the first warp's
    else
        __syncthreads();  // the others'
}
static void broken_barrier(void) { two_barriers<<<2, 64>>>(); }

Test(cpu_layer, report_different_barriers)
{
    REPORTS(broken_barrier, "divergent barriers in kernel two_barriers, block (", "threads 0-31: at __syncthreads()",
            "threads 32-63", "layer.cu:", "__syncthreads();  // the first warp's", "__syncthreads();  // the others'");
}

__global__ void early_return(int n)
{
    if ((int)threadIdx.x >= n) return;
    __syncthreads();  // not for everybody
}
static void broken_early_return(void) { early_return<<<1, 64>>>(50); }

Test(cpu_layer, report_early_return)
{
    REPORTS(broken_early_return, "barrier after an early return in kernel early_return",
            "threads 50-63: returned from the kernel", "__syncthreads();  // not for everybody");
}

__global__ void deadlock(int *out)
{
    if (threadIdx.x < 16)
        *out = __shfl_sync(FULL, 1, 0);  // half of the warp
    else
        __syncthreads();
}
static void broken_deadlock(void) { RUN(deadlock, int_result, 1, 1, 32); }

Test(cpu_layer, report_deadlock)
{
    REPORTS(broken_deadlock, "deadlock", "kernel deadlock, block (0,0,0)",
            "threads 0-15: at __shfl_sync(), for lanes 0-31 of warp 0", "// half of the warp",
            "threads 16-31: at __syncthreads()");
}

__global__ void absent_lane(int *out)
{
    if (lane < 16) *out = __shfl_down_sync(0xffffu, 1, 8);  // lane 8 reads from lane 16
}
static void broken_absent_lane(void) { RUN(absent_lane, int_result, 1, 1, 32); }

Test(cpu_layer, report_absent_lane)
{
    REPORTS(broken_absent_lane, "absent lane", "kernel absent_lane, block (0,0,0), thread (8,0,0)",
            "lane 8 reads from lane 16", "is not in the mask", "// lane 8 reads from lane 16");
}

__global__ void returned_lane(int *out)
{
    if (lane == 31) return;
    *out = __shfl_sync(FULL, 1, 31);  // which is gone
}
static void broken_returned_lane(void) { RUN(returned_lane, int_result, 1, 1, 32); }

Test(cpu_layer, report_returned_lane)
{
    REPORTS(broken_returned_lane, "absent lane", "reads from lane 31", "has returned", "// which is gone");
}

__global__ void wrong_mask() { __syncwarp(0xfffffffeu); }
static void broken_mask(void) { wrong_mask<<<1, 32>>>(); }

Test(cpu_layer, report_lane_not_in_its_mask)
{
    REPORTS(broken_mask, "lane not in its own mask", "lane 0 calls with mask 0xfffffffe", "__syncwarp(0xfffffffeu)");
}

__global__ void wrong_width(int *out) { *out = __shfl_sync(FULL, 1, 0, 12); }
static void broken_width(void) { RUN(wrong_width, int_result, 1, 1, 32); }

Test(cpu_layer, report_bad_width) { REPORTS(broken_width, "bad width", "width 12"); }

__global__ void write_at(float *x, long i)
{
    if (threadIdx.x == 3) x[i] = 1;  // the wild write
}
static void broken_null(void)
{
    float *volatile null = NULL;               // a compiler that sees the null may do anything with the write
    void (*kernel)(float *, long) = write_at;  // a report names the kernel, not the variable
    kernel<<<1, 32>>>(null, 0);
}

Test(cpu_layer, report_null_pointer)
{
    REPORTS(broken_null, "illegal address in kernel write_at, block (0,0,0), thread (3,0,0)",
            "address 0: a null pointer", "at tests/layer.cu:", "// the wild write");
}

static void broken_past_end(void)
{
    float *x;
    cudaMalloc(&x, 1024 * sizeof(float));
    write_at<<<1, 32>>>(x, 1025);
}

Test(cpu_layer, report_past_the_end)
{
    REPORTS(broken_past_end, "illegal address", "4 bytes past the end of the 4096 bytes of cudaMalloc at",
            "// the wild write");
}

__global__ void read_vector(float4 *out, const float *x)
{
    *out = *reinterpret_cast<const float4 *>(x);  // not at a multiple of 16
}
static void broken_misaligned(void)
{
    results<float> r(float_result, 8);
    read_vector<<<1, 1>>>(reinterpret_cast<float4 *>(r.device), r.device + 1);
}

Test(cpu_layer, report_misaligned_vector)
{
#if defined(__x86_64__)
    REPORTS(broken_misaligned, "misaligned access in kernel read_vector", "// not at a multiple of 16");
#endif
}

// A GPU never asks for more than 16 bytes, whatever a type is declared with.
struct alignas(128) large_row {
    float4 x[8];
};
__global__ void at_sixteen(large_row *rows) { rows->x[threadIdx.x] = make_float4(1, 2, 3, 4); }

Test(cpu_layer, sixteen_bytes_are_aligned_enough)
{
    float out[36];
    {
        results<float> r(out, 36);
        at_sixteen<<<1, 8>>>(reinterpret_cast<large_row *>(r.device + 4));
    }
    for (int i = 0; i < 36; i++) EXPECT(out[i], i < 4 ? 0 : 1 + i % 4, "element %d", i);
}

static void broken_freed(void)
{
    float *x;
    cudaMalloc(&x, 1024 * sizeof(float));
    cudaFree(x);
    write_at<<<1, 32>>>(x, 5);
}

Test(cpu_layer, report_use_after_free)
{
    REPORTS(broken_freed, "illegal address", "byte 20 of the 4096 bytes", "have been freed");
}

__global__ void dynamic_past_end(int i)
{
    extern __shared__ float rows[];
    rows[i] = 1;  // too far
}
static void broken_dynamic_past_end(void) { dynamic_past_end<<<1, 32, 256 * sizeof(float)>>>(260); }

Test(cpu_layer, report_past_the_end_of_dynamic_shared)
{
    REPORTS(broken_dynamic_past_end, "illegal address", "16 bytes past the end of extern __shared__ rows (1024 bytes)",
            "// too far");
}
static void broken_no_dynamic(void) { dynamic_past_end<<<1, 32>>>(0); }

Test(cpu_layer, report_no_dynamic_shared)
{
    REPORTS(broken_no_dynamic, "illegal address", "rows has no memory", "<<<");
}

#ifdef __CUDACPU__  // nvcc's assembler refuses this kernel
__global__ void too_much_static(float *out)
{
    __shared__ float a[7000], b[7000];
    a[threadIdx.x] = b[threadIdx.x] = 1;
    *out = a[0] + b[0];
}
#endif
static void broken_static_shared(void)
{
#ifdef __CUDACPU__
    results<float> r(float_result, 1);
    too_much_static<<<1, 32>>>(r.device);
#endif
}

Test(cpu_layer, report_too_much_static_shared)
{
    REPORTS(broken_static_shared, "too much static shared memory",
            "b brings the kernel's __shared__ variables to 56000 bytes");
}

static void broken_host_read(void)
{
    float *x;
    cudaMalloc(&x, 4096);
    printf("%f\n", x[3]);  // on the host
}

Test(cpu_layer, report_host_access)
{
    REPORTS(broken_host_read, "host code touched device memory", "byte 12 of the 4096 bytes", "use cudaMemcpy",
            "// on the host");
}

__global__ void large_local_array(int *out, int n)
{
    volatile int large[100000];
    for (int i = 0; i < n; i++) large[i * 1000] = i;
    *out = large[n];
}
static void broken_stack(void)
{
    results<int> r(int_result, 1);
    large_local_array<<<1, 1>>>(r.device, 100);
}

Test(cpu_layer, report_stack_overflow)
{
    REPORTS(broken_stack, "stack overflow", "kernel large_local_array", "CUDACPU_STACK_KB");
}

__global__ void spin(volatile int *flag)
{
    if (threadIdx.x == 0)
        while (*flag == 0) {  // for thread 1
        }
    *flag = 1;
}
static void broken_spin(void) { RUN(spin, int_result, 1, 1, 2); }

extern "C" void wb_launch_seconds(long seconds);  // workbook/cpu/watchdog.cpp

Test(cpu_layer, report_timeout)
{
    wb_launch_seconds(1);
    REPORTS(broken_spin, "timeout", "kernel spin, block (0,0,0), thread (0,0,0)", "// for thread 1");
}

__global__ void async_misaligned(const float *in)
{
    __shared__ float x[8];
    __pipeline_memcpy_async(&x[1], in, 16);  // 4 bytes off
}
static void broken_async_misaligned(void) { RUN(async_misaligned, float_result, 8, 1, 1); }

Test(cpu_layer, report_misaligned_asynchronous_copy)
{
    REPORTS(broken_async_misaligned, "misaligned asynchronous copy", "destination lies 4", "// 4 bytes off");
}

#ifdef __CUDACPU__  // on a GPU the words of a paged cache are empty
// What is read of a row of the page table that no sequence has is no page, and the share of the keys is to blame.
__global__ void walks_past_the_end(bool sought)
{
    if (sought) expect_tile(0, 2);
    expect_page(-1, 5, sought ? 2 : 1, 7);
}
static void ends_behind_the_last_tile() { walks_past_the_end<<<1, 32>>>(true); }
static void no_page_for_a_key() { walks_past_the_end<<<1, 32>>>(false); }
Test(cpu_layer, report_no_such_page)
{
    REPORTS(ends_behind_the_last_tile, "no such tile", "ends behind the last tile", "gap share");
    REPORTS(no_page_for_a_key, "no such page", "page -1 for key 7 of sequence 1", "pages 0 to 4");
}
#endif

__global__ void async_destination(float *x) { __pipeline_memcpy_async(x + 4, x, 16); }
static void broken_async_destination(void) { RUN(async_destination, float_result, 8, 1, 1); }

Test(cpu_layer, report_asynchronous_copy_to_global)
{
    REPORTS(broken_async_destination, "bad asynchronous copy", "must be shared memory");
}

__global__ void divide(int *x, int y) { *x = 7 / y; }
static int zero;  // not known to the compiler
static void broken_division(void)
{
    results<int> r(int_result, 1);
    divide<<<1, 1>>>(r.device, zero);
}

Test(cpu_layer, report_division_by_zero)
{
#if defined(__x86_64__)
    REPORTS(broken_division, "integer division by zero", "kernel divide");
#endif
}

static void broken_host_null(void)
{
    signal(SIGSEGV, SIG_DFL);
    void *x;
    cudaMalloc(&x, 16);
    volatile int *null = NULL;
    *null = 1;
}

Test(cpu_layer, faults_of_the_host_are_left_alone)
{
    const int status = run_apart(broken_host_null);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x:\n%s", (unsigned)status, printed);
}
