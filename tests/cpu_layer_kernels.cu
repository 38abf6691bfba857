// cpu_layer_kernels.cu - small kernels, one for each feature of the CPU execution layer, and broken ones for its reports. Valid CUDA.
#include "cpu_layer_kernels.h"
#include "memory.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FULL 0xffffffffu
// Names that students use, as macros: they must not reach into the layer's headers.
#define N    24
#define lane (threadIdx.x % 32)

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

// ---------------------------------------------------------------------------------------------------------- who am I, arguments

__global__ void indices(int *out)
{
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * N + thread] = 1000 * block + thread;
}

void layer_indices(int *out) { RUN(indices, out, 12 * N, dim3(2, 3, 2), dim3(4, 2, 3)); }

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

void layer_arguments(float *out, int *evaluations)
{
    results<float> r(out, 8);
    pair p = {1, 2};
    evaluated = 0;
    arguments<<<1, 2>>>(r.device, p, count_evaluations(), 0);
    arguments<<<1, 2>>>(r.device + 2, {3, 4},  // a brace
                        0, NULL);
    arguments<<<1, 4>>>(first_of<float *, int>(r.device + 4, 0), p,  // a comma inside < >
                        count_evaluations(), out);
    *evaluations = evaluated;
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

void layer_static_shared(float *out) { RUN(reverse<64>, out, 3 * 64, 3, 64); }

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

void layer_shared_is_nan(int *out) { RUN(look_at_fresh_shared, out, 2, 4, 2, 50 * sizeof(float)); }

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

void layer_dynamic_shared(int *out) { RUN(dynamic_shared_sum, out, 100, 1, 100, 100 * sizeof(int)); }

// ----------------------------------------------------------------------------------------------------------- barriers and warps

__global__ void barrier_votes(int *out)
{
    const int t = threadIdx.x;
    out[3 * t] = __syncthreads_count(t % 3 == 0);
    out[3 * t + 1] = __syncthreads_and(t < 96) + 2 * __syncthreads_and(t < 95);
    out[3 * t + 2] = __syncthreads_or(t == 95) + 2 * __syncthreads_or(t > 95);
}

void layer_barrier_votes(int *out) { RUN(barrier_votes, out, 96 * 3, 1, 96); }

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

void layer_shuffles(int *out) { RUN(shuffles, out, 32 * 8, 1, 32); }

__global__ void shuffle_types(double *out)
{
    const int l = lane;
    out[4 * l] = __shfl_xor_sync(FULL, l + 0.25, 1);
    out[4 * l + 1] = __shfl_xor_sync(FULL, (float)l + 0.5f, 1);
    out[4 * l + 2] = (double)__shfl_xor_sync(FULL, (1ull << 40) + l, 1);
    out[4 * l + 3] = __bfloat162float(__shfl_xor_sync(FULL, __float2bfloat16((float)l), 1));
}

void layer_shuffle_types(double *out) { RUN(shuffle_types, out, 32 * 4, 1, 32); }

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

void layer_votes(unsigned *out) { RUN(votes, out, 32 * 6, 1, 32); }

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

void layer_reductions(int *out) { RUN(reductions, out, 32 * 9, 1, 32); }

__global__ void partial_warp(int *out)
{
    const int t = threadIdx.x;  // the second warp has 8 lanes
    int sum = t;
    for (int by = 4; by > 0; by /= 2) sum += __shfl_xor_sync(t < 32 ? FULL : 0xffu, sum, by);
    __syncwarp(t < 32 ? FULL : 0xffu);
    out[t] = sum;
}

void layer_partial_warp(int *out) { RUN(partial_warp, out, 40, 1, 40); }

__global__ void returned_lanes(int *out)
{
    if (lane >= 20) return;
    const unsigned there = __ballot_sync(FULL, 1);  // a lane that has returned is not waited for
    out[lane] = __popc(there);
}

void layer_returned_lanes(int *out) { RUN(returned_lanes, out, 32, 1, 32); }

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

void layer_half_masks(int *out) { RUN(half_masks, out, 32, 1, 32); }

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

void layer_warp_call(int *out) { RUN(warp_call, out, 40, 1, 40); }

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

void layer_local_arrays(int *out) { RUN(local_arrays, out, 64, 5, 64); }

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

void layer_atomics(double *out)
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
    const double all[] = {f[0],         d[0],         (double)i[0], (double)i[1], (double)i[2],
                          (double)i[3], (double)i[4], (double)u[0], (double)u[1], (double)u[2],
                          (double)u[3], (double)u[4], (double)l[0]};
    memcpy(out, all, sizeof all);
}

__global__ void every_block_once(int *out)
{
    if (threadIdx.x == 0) atomicAdd(&out[blockIdx.x + gridDim.x * blockIdx.y], 1);
}

void layer_every_block_once(int *out)
{
    results<int> r(out, 1000);
    for (int i = 0; i < 3; i++) every_block_once<<<dim3(100, 10), 33>>>(r.device);
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

void layer_vectors(float *out, size_t *sizes)
{
    {
        results<float> r(out, 64);
        vectors<<<1, 16>>>(r.device);
    }
    const size_t all[6][2] = {{sizeof(float2), alignof(float2)},   {sizeof(float3), alignof(float3)},
                              {sizeof(float4), alignof(float4)},   {sizeof(uchar4), alignof(uchar4)},
                              {sizeof(double2), alignof(double2)}, {sizeof(__nv_bfloat162), alignof(__nv_bfloat162)}};
    memcpy(sizes, all, sizeof all);
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

template <class T> static void run_convert(unsigned short *out, const float *in, int count)
{
    results<unsigned short> r(out, count);
    float *x;
    cudaMalloc(&x, count * sizeof(float));
    cudaMemcpy(x, in, count * sizeof(float), cudaMemcpyHostToDevice);
    convert<T><<<(count + 63) / 64, 64>>>(r.device, x, count);
    cudaFree(x);
}

void layer_bf16(unsigned short *out, const float *in, int count) { run_convert<__nv_bfloat16>(out, in, count); }
void layer_half(unsigned short *out, const float *in, int count) { run_convert<__half>(out, in, count); }

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

int layer_sixteen_bits_round_trip(void)
{
    int lost = -1;
    {
        results<int> r(&lost, 1);
        round_trip<__nv_bfloat16><<<256, 256>>>(r.device);
        round_trip<__half><<<256, 256>>>(r.device);
    }
    return lost;
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

void layer_half_arithmetic(float *out) { RUN(half_arithmetic, out, 12, 1, 1); }

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

void layer_maths(float *out)
{
    results<float> r(out, 16);
    maths<<<1, 1>>>(r.device, 2.0f);
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

void layer_bits(int *out)
{
    results<int> r(out, 16);
    bits<<<1, 1>>>(r.device, 0x50);
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

void layer_min_max(double *out)
{
    results<double> r(out, 8);
    min_max<<<1, 1>>>(r.device, -3, 4000000000u, 1ll << 40);
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

void layer_async_copy(float *out)
{
    float *in, numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = (float)i;
    cudaMalloc(&in, sizeof numbers);
    cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    {
        results<float> r(out, 128);
        async_copy<<<1, 32>>>(r.device, in);
    }
    cudaFree(in);
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

void layer_async_zero_fill(float *out) { RUN(async_zero_fill, out, 4, 1, 1); }

// --------------------------------------------------------------------------------------------------------------- host functions

__constant__ float constants[3];
__device__ int counter;

__global__ void symbols(float *out)
{
    *out = constants[0] + 10 * constants[2];
    atomicAdd(&counter, 3);
}

void layer_symbols(float *out)
{
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

void layer_kernel_names(int *out)
{
    results<int> r(out, 6);
    void (*kernels[2])(int *) = {put_two, inner::put<(8 >> 2), int>};
    launch_dependent<4>(r.device);
    overloaded<<<1, 1>>>(r.device + 2);
    PUT(r.device + 3, 6);
    kernels[0]<<<1, 1>>>(r.device + 4);
    (out ? kernels[1] : kernels[0])<<<1, 1>>>(r.device + 5);
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

void layer_cooperative_groups(int *out) { RUN(groups, out, 64 * 3, 1, 64); }

float layer_events_and_streams(void)
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

__global__ void double_all(int *x) { x[threadIdx.x + blockDim.x * blockIdx.x] *= 2; }

int layer_library_like(int x)
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

// ------------------------------------------------------------------------------------------------------------------------ memory

void layer_memory_counts(size_t *out)
{
#ifdef __CUDACPU__
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
#else
    (void)out;  // the layer alone keeps these books
#endif
}

void layer_fresh_memory(unsigned char *out)
{
    unsigned char *x;
    cudaMalloc(&x, 1000);
    cudaMemcpy(out, x, 1000, cudaMemcpyDeviceToHost);
    cudaFree(x);
}

void layer_memory_errors(int *out)
{
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
}

int layer_too_much_memory(void)
{
    void *x;
    const cudaError_t error = cudaMalloc(&x, (size_t)1 << 44);
    cudaGetLastError();
    return error;
}

void layer_properties(int *out)
{
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    out[0] = p.maxThreadsPerBlock;
    out[1] = (int)p.sharedMemPerBlockOptin;
    out[2] = p.warpSize;
    out[3] = 0;
    cudaDeviceGetAttribute(&out[3], cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
}

// -------------------------------------------------------------------------------------------------------------- refused launches

__global__ void nothing() {}
__global__ void nothing_else() {}

void layer_launch(int grid_y, int threads, int shared_bytes, int *errors)
{
    nothing<<<dim3(1, grid_y), threads, shared_bytes>>>();
    errors[0] = cudaGetLastError();
    errors[1] = cudaGetLastError();
}

void layer_shared_opt_in(int *errors)
{
    errors[0] = cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
    nothing<<<1, 1, 100000>>>();
    errors[1] = cudaGetLastError();
    nothing_else<<<1, 1, 100000>>>();  // did not ask
    errors[2] = cudaGetLastError();
    errors[3] = cudaFuncSetAttribute(nothing_else, cudaFuncAttributeMaxDynamicSharedMemorySize, 240000);
    cudaGetLastError();
}

const char *layer_error_name(int error) { return cudaGetErrorName((cudaError_t)error); }

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
void broken_barrier(void) { two_barriers<<<2, 64>>>(); }

__global__ void early_return(int n)
{
    if ((int)threadIdx.x >= n) return;
    __syncthreads();  // not for everybody
}
void broken_early_return(void) { early_return<<<1, 64>>>(50); }

__global__ void deadlock(int *out)
{
    if (threadIdx.x < 16)
        *out = __shfl_sync(FULL, 1, 0);  // half of the warp
    else
        __syncthreads();
}
void broken_deadlock(void) { RUN(deadlock, int_result, 1, 1, 32); }

__global__ void absent_lane(int *out)
{
    if (lane < 16) *out = __shfl_down_sync(0xffffu, 1, 8);  // lane 8 reads from lane 16
}
void broken_absent_lane(void) { RUN(absent_lane, int_result, 1, 1, 32); }

__global__ void returned_lane(int *out)
{
    if (lane == 31) return;
    *out = __shfl_sync(FULL, 1, 31);  // which is gone
}
void broken_returned_lane(void) { RUN(returned_lane, int_result, 1, 1, 32); }

__global__ void wrong_mask() { __syncwarp(0xfffffffeu); }
void broken_mask(void) { wrong_mask<<<1, 32>>>(); }

__global__ void wrong_width(int *out) { *out = __shfl_sync(FULL, 1, 0, 12); }
void broken_width(void) { RUN(wrong_width, int_result, 1, 1, 32); }

__global__ void write_at(float *x, long i)
{
    if (threadIdx.x == 3) x[i] = 1;  // the wild write
}
void broken_null(void)
{
    float *volatile null = NULL;  // a compiler that sees the null may do anything with the write
    write_at<<<1, 32>>>(null, 0);
}

void broken_past_end(void)
{
    float *x;
    cudaMalloc(&x, 1024 * sizeof(float));
    write_at<<<1, 32>>>(x, 1025);
}

__global__ void read_vector(float4 *out, const float *x)
{
    *out = *reinterpret_cast<const float4 *>(x);  // not at a multiple of 16
}
void broken_misaligned(void)
{
    results<float> r(float_result, 8);
    read_vector<<<1, 1>>>(reinterpret_cast<float4 *>(r.device), r.device + 1);
}

// A GPU never asks for more than 16 bytes, whatever a type is declared with.
struct alignas(128) large_row {
    float4 x[8];
};
__global__ void at_sixteen(large_row *rows) { rows->x[threadIdx.x] = make_float4(1, 2, 3, 4); }
void layer_aligned_at_sixteen(float *out)
{
    results<float> r(out, 36);
    at_sixteen<<<1, 8>>>(reinterpret_cast<large_row *>(r.device + 4));
}

void broken_freed(void)
{
    float *x;
    cudaMalloc(&x, 1024 * sizeof(float));
    cudaFree(x);
    write_at<<<1, 32>>>(x, 5);
}

__global__ void dynamic_past_end(int i)
{
    extern __shared__ float rows[];
    rows[i] = 1;  // too far
}
void broken_dynamic_past_end(void) { dynamic_past_end<<<1, 32, 256 * sizeof(float)>>>(260); }
void broken_no_dynamic(void) { dynamic_past_end<<<1, 32>>>(0); }

#ifdef __CUDACPU__  // nvcc's assembler refuses this kernel
__global__ void too_much_static(float *out)
{
    __shared__ float a[7000], b[7000];
    a[threadIdx.x] = b[threadIdx.x] = 1;
    *out = a[0] + b[0];
}
#endif
void broken_static_shared(void)
{
#ifdef __CUDACPU__
    results<float> r(float_result, 1);
    too_much_static<<<1, 32>>>(r.device);
#endif
}

void broken_host_read(void)
{
    float *x;
    cudaMalloc(&x, 4096);
    printf("%f\n", x[3]);  // on the host
}

__global__ void large_local_array(int *out, int n)
{
    volatile int large[100000];
    for (int i = 0; i < n; i++) large[i * 1000] = i;
    *out = large[n];
}
void broken_stack(void)
{
    results<int> r(int_result, 1);
    large_local_array<<<1, 1>>>(r.device, 100);
}

__global__ void spin(volatile int *flag)
{
    if (threadIdx.x == 0)
        while (*flag == 0) {  // for thread 1
        }
    *flag = 1;
}
void broken_spin(void) { RUN(spin, int_result, 1, 1, 2); }

__global__ void async_misaligned(const float *in)
{
    __shared__ float x[8];
    __pipeline_memcpy_async(&x[1], in, 16);  // 4 bytes off
}
void broken_async_misaligned(void) { RUN(async_misaligned, float_result, 8, 1, 1); }

__global__ void async_destination(float *x) { __pipeline_memcpy_async(x + 4, x, 16); }
void broken_async_destination(void) { RUN(async_destination, float_result, 8, 1, 1); }

__global__ void divide(int *x, int y) { *x = 7 / y; }
void broken_division(int zero)
{
    results<int> r(int_result, 1);
    divide<<<1, 1>>>(r.device, zero);
}

void broken_host_null(void)
{
    void *x;
    cudaMalloc(&x, 16);
    volatile int *null = NULL;
    *null = 1;
}
