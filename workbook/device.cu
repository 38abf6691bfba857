// device.cu - device memory for callers without CUDA headers (workbook.h), and its bookkeeping (memory.h).
#include "memory.h"
#include "predict.h"

#include <algorithm>
#include <mutex>

extern "C" wb_status wb_device_alloc(void **pointer, size_t bytes)
{
    if (!pointer) return wb_fail(WB_BAD_ARGUMENT, "wb_device_alloc: pointer is null");
    *pointer = nullptr;
    WB_CUDA(cudaMalloc(pointer, bytes));
    return WB_OK;
}

extern "C" wb_status wb_device_free(void *pointer)
{
    WB_CUDA(cudaFree(pointer));
    return WB_OK;
}

extern "C" wb_status wb_copy_to_device(void *device, const void *host, size_t bytes)
{
    WB_CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    return WB_OK;
}

extern "C" wb_status wb_copy_to_host(void *host, const void *device, size_t bytes)
{
    WB_CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    return WB_OK;
}

extern "C" wb_status wb_device_fill(void *at, int byte, size_t bytes)
{
    WB_CUDA(cudaMemset(at, byte, bytes));
    return WB_OK;
}

extern "C" wb_status wb_device_synchronize(void)
{
    WB_CUDA(cudaDeviceSynchronize());
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

extern "C" const char *wb_device_name(void)
{
#ifdef __CUDACPU__
    return "CPU execution layer";
#else
    static cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "no device";
#endif
}

extern "C" int wb_device_capability(void)
{
#ifdef __CUDACPU__
    return 9;
#else
    int device, major;
    const bool known = cudaGetDevice(&device) == cudaSuccess &&
                       cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
    return known ? major : 0;
#endif
}

extern "C" wb_device wb_this_device(void)
{
#ifdef __CUDACPU__
    int processors = 132;  // unless a case has others
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    return {9, processors, 1980, 4814, nullptr};
#else
    constexpr int MOST = 64;
    static wb_device known[MOST];
    static std::once_flag asked[MOST];
    int now = -1;
    if (cudaGetDevice(&now) != cudaSuccess || now < 0 || now >= MOST) return {0, 1, 1000, 100, nullptr};
    std::call_once(asked[now], [now] {
        int value[5] = {};
        const cudaDeviceAttr which[5] = {cudaDevAttrComputeCapabilityMajor, cudaDevAttrMultiProcessorCount,
                                         cudaDevAttrClockRate, cudaDevAttrMemoryClockRate,
                                         cudaDevAttrGlobalMemoryBusWidth};
        for (int k = 0; k < 5; k++) cudaDeviceGetAttribute(&value[k], which[k], now);
        // kHz, and bits, twice a clock; what a driver does not say counts as little
        const int bandwidth = (int)(2.0 * value[3] * value[4] / 8e6);
        known[now] = {value[0], std::max(1, value[1]), std::max(1, value[2] / 1000), std::max(1, bandwidth), nullptr};
    });
    return known[now];
#endif
}
