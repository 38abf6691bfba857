// timer.cu - see timer.h.
#include "timer.h"

#ifdef __CUDACPU__

static wb_status no_device(void) { return wb_fail(WB_UNSUPPORTED, "the cpu backend has no device time"); }

extern "C" bool wb_timer_available(void) { return false; }
extern "C" wb_status wb_timer_start(void) { return no_device(); }
extern "C" wb_status wb_timer_stop(double *) { return no_device(); }
extern "C" wb_status wb_device_free_bytes(size_t *) { return no_device(); }
extern "C" wb_status wb_timer_device(roofline_device *) { return no_device(); }
extern "C" wb_status wb_roof_copy(double *) { return no_device(); }
extern "C" wb_status wb_roof_gemm(double *) { return no_device(); }

#else

#include <algorithm>
#include <cstdio>
#include "reference/cublas_call.h"

// More than any L2 cache today.
static const size_t FLUSH_BYTES = (size_t)256 << 20;

static uint4 *flush_buffer;
static cudaEvent_t begin, end;
static long long spin_ticks;

// Keeps the device busy for a while.
__global__ void spin_kernel(long long ticks)
{
    const long long start = clock64();
    while (clock64() - start < ticks) {}
}

// Reads the whole buffer. It is all zeros, so nothing is ever written; the compiler cannot know that and keeps the
// loads.
__global__ void read_kernel(uint4 *x, size_t count)
{
    unsigned seen = 0;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const uint4 v = x[i];
        seen |= v.x | v.y | v.z | v.w;
    }
    if (seen) x[0].x = seen;
}

static wb_status prepare(void)
{
    if (flush_buffer) return WB_OK;
    int kilohertz;
    WB_CUDA(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0));
    WB_CUDA(cudaEventCreate(&begin));
    WB_CUDA(cudaEventCreate(&end));
    spin_ticks = kilohertz;  // one millisecond
    WB_CUDA(cudaMalloc(reinterpret_cast<void **>(&flush_buffer), FLUSH_BYTES));
    return WB_OK;
}

extern "C" bool wb_timer_available(void)
{
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

extern "C" wb_status wb_timer_start(void)
{
    const wb_status status = prepare();
    if (status != WB_OK) return status;
    spin_kernel<<<1, 1>>>(spin_ticks);
    WB_CUDA(cudaGetLastError());
    // Written, so that no line of the last run stays; then read, so that no written line waits to go to memory at our
    // cost.
    WB_CUDA(cudaMemsetAsync(flush_buffer, 0, FLUSH_BYTES));
    read_kernel<<<1024, 256>>>(flush_buffer, FLUSH_BYTES / sizeof(uint4));
    WB_CUDA(cudaGetLastError());
    WB_CUDA(cudaEventRecord(begin));
    return WB_OK;
}

extern "C" wb_status wb_timer_stop(double *ms)
{
    float elapsed;
    WB_CUDA(cudaEventRecord(end));
    WB_CUDA(cudaEventSynchronize(end));
    WB_CUDA(cudaGetLastError());
    WB_CUDA(cudaEventElapsedTime(&elapsed, begin, end));
    *ms = elapsed;
    return WB_OK;
}

extern "C" wb_status wb_device_free_bytes(size_t *bytes)
{
    size_t total;
    WB_CUDA(cudaMemGetInfo(bytes, &total));
    return WB_OK;
}

// Attributes, not cudaDeviceProp: CUDA 13 has taken the clocks out of that.
extern "C" wb_status wb_timer_device(roofline_device *device)
{
    int value[6];
    const cudaDeviceAttr which[6] = {cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor,
                                     cudaDevAttrMultiProcessorCount,    cudaDevAttrClockRate,
                                     cudaDevAttrMemoryClockRate,        cudaDevAttrGlobalMemoryBusWidth};
    for (int k = 0; k < 6; k++) WB_CUDA(cudaDeviceGetAttribute(&value[k], which[k], 0));
    *device = {{}, value[0], value[1], value[2], value[3], value[4], value[5]};
    snprintf(device->name, sizeof device->name, "%s", wb_device_name());
    return WB_OK;
}

// ------------------------ roofs

enum { ROOF_RUNS = 11, ROOF_N = 8192 };

// The median milliseconds of what `work` queues.
template <class Work> static wb_status time_roof(double *median, Work work)
{
    double ms[ROOF_RUNS];
    for (int run = -2; run < ROOF_RUNS; run++) {  // the first two only warm up
        wb_status status = wb_timer_start();
        if (status == WB_OK) status = work();
        if (status == WB_OK) status = wb_timer_stop(&ms[run < 0 ? 0 : run]);
        if (status != WB_OK) return status;
    }
    std::sort(ms, ms + ROOF_RUNS);
    *median = ms[ROOF_RUNS / 2];
    return WB_OK;
}

extern "C" wb_status wb_roof_copy(double *gb_per_s)
{
    size_t free_bytes;
    wb_status status = wb_device_free_bytes(&free_bytes);
    if (status != WB_OK) return status;
    const size_t bytes = std::min((size_t)1 << 31, free_bytes / 4);
    char *both;
    double ms = 0;
    WB_CUDA(cudaMalloc(reinterpret_cast<void **>(&both), 2 * bytes));
    status = time_roof(&ms, [=] {
        WB_CUDA(cudaMemcpyAsync(both + bytes, both, bytes, cudaMemcpyDeviceToDevice));
        return WB_OK;
    });
    *gb_per_s = 2 * (double)bytes / ms * 1e-6;
    WB_CUDA(cudaFree(both));
    return status;
}

// Uniform between -1 and 1: products of zeros would draw less power and clock higher than any real one.
__global__ void random_kernel(bf16 *x, size_t count)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned bits = (unsigned)i * 2654435761u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    bits ^= bits >> 13;
    x[i] = __float2bfloat16((float)(bits & 0xffff) / 32768 - 1);
}

extern "C" wb_status wb_roof_gemm(double *tflop_per_s)
{
    const size_t count = (size_t)ROOF_N * ROOF_N;
    const float one = 1, zero = 0;
    double ms = 0;
    cublasHandle_t handle;
    bf16 *x;
    WB_CUBLAS(cublasCreate(&handle));
    WB_CUDA(cudaMalloc(reinterpret_cast<void **>(&x), 3 * sizeof(bf16) * count));
    random_kernel<<<(unsigned)(2 * count / 256), 256>>>(x, 2 * count);
    WB_CUDA(cudaGetLastError());
    const wb_status status = time_roof(&ms, [=] {
        WB_CUBLAS(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, ROOF_N, ROOF_N, ROOF_N, &one, x, CUDA_R_16BF, ROOF_N,
                               x + count, CUDA_R_16BF, ROOF_N, &zero, x + 2 * count, CUDA_R_16BF, ROOF_N,
                               CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        return WB_OK;
    });
    *tflop_per_s = 2.0 * ROOF_N * ROOF_N * ROOF_N / ms * 1e-9;
    WB_CUDA(cudaFree(x));
    WB_CUBLAS(cublasDestroy(handle));
    return status;
}

#endif
