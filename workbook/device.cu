// device.cu - device memory for callers without CUDA headers (workbook.h), and its bookkeeping (memory.h).
#include "memory.h"
#include "workbook.h"

extern "C" wb_status wb_device_alloc(void **pointer, size_t bytes)
{
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
