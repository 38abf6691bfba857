// runtime_api.h - the part of the CUDA runtime that host code needs: memory, errors, streams, events, the device's
// properties. All is finished when it returns, but on a stream that waits for no other (cudaStreamNonBlocking): there,
// when somebody waits for it.
#pragma once

#include "keywords.h"
#include "vectors.h"

#define CUDART_VERSION 12000

// Name, number, what cudaGetErrorString() says.
// clang-format off
#define CUDACPU_ERRORS(row_) \
    row_(cudaSuccess, 0, "no error") \
    row_(cudaErrorInvalidValue, 1, "invalid argument") \
    row_(cudaErrorMemoryAllocation, 2, "out of memory") \
    row_(cudaErrorInvalidConfiguration, 9, "invalid configuration argument") \
    row_(cudaErrorInvalidSymbol, 13, "invalid device symbol") \
    row_(cudaErrorInvalidDevicePointer, 17, "invalid device pointer") \
    row_(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
    row_(cudaErrorInvalidDeviceFunction, 98, "invalid device function") \
    row_(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") \
    row_(cudaErrorInvalidDevice, 101, "invalid device ordinal") \
    row_(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") \
    row_(cudaErrorNotReady, 600, "device not ready") \
    row_(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
    row_(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
    row_(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
    row_(cudaErrorLaunchFailure, 719, "unspecified launch failure") \
    row_(cudaErrorNotSupported, 801, "operation not supported") \
    row_(cudaErrorUnknown, 999, "unknown error")
// clang-format on
#define CUDACPU_ENUMERATOR(name_, number_, ...) name_ = number_,
typedef enum cudaError { CUDACPU_ERRORS(CUDACPU_ENUMERATOR) } cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};

// Name, number, the property that it is.
// clang-format off
#define CUDACPU_ATTRIBUTES(row_) \
    row_(cudaDevAttrMaxThreadsPerBlock, 1, maxThreadsPerBlock) \
    row_(cudaDevAttrMaxSharedMemoryPerBlock, 8, sharedMemPerBlock) \
    row_(cudaDevAttrWarpSize, 10, warpSize) \
    row_(cudaDevAttrMultiProcessorCount, 16, multiProcessorCount) \
    row_(cudaDevAttrL2CacheSize, 38, l2CacheSize) \
    row_(cudaDevAttrMaxThreadsPerMultiProcessor, 39, maxThreadsPerMultiProcessor) \
    row_(cudaDevAttrComputeCapabilityMajor, 75, major) \
    row_(cudaDevAttrComputeCapabilityMinor, 76, minor) \
    row_(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, sharedMemPerMultiprocessor) \
    row_(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, sharedMemPerBlockOptin)
// clang-format on
enum cudaDeviceAttr { CUDACPU_ATTRIBUTES(CUDACPU_ENUMERATOR) };

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    size_t sharedMemPerBlockOptin;
    size_t sharedMemPerMultiprocessor;
    int regsPerBlock;
    int regsPerMultiprocessor;
    int warpSize;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int maxThreadsPerMultiProcessor;
    int maxBlocksPerMultiProcessor;
    int multiProcessorCount;
    int l2CacheSize;
    int memoryBusWidth;
    int major, minor;
    int integrated;
    int concurrentKernels;
    int asyncEngineCount;
    int unifiedAddressing;
    int managedMemory;
    int cooperativeLaunch;
};

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef void (*cudaHostFn_t)(void *);

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum { cudaHostAllocDefault = 0, cudaMemAttachGlobal = 1 };

// ------------------------ memory

namespace cudacpu
{
cudaError_t allocate(void **pointer_, size_t bytes_, bool managed_, call_site site_);
cudaError_t copy_async(void *to_, const void *from_, size_t bytes_, cudaMemcpyKind kind_, cudaStream_t stream_,
                       call_site site_);
cudaError_t set_shared_limit(const void *kernel_, int bytes_, call_site site_);
cudaError_t blocks_per_multiprocessor(int *blocks_, int threads_, size_t shared_);
}

template <class Type_>
cudaError_t cudaMalloc(Type_ **pointer_, size_t bytes_, cudacpu::call_site site_ = cudacpu::here())
{
    return cudacpu::allocate(reinterpret_cast<void **>(pointer_), bytes_, false, site_);
}
template <class Type_>
cudaError_t cudaMallocAsync(Type_ **pointer_, size_t bytes_, cudaStream_t, cudacpu::call_site site_ = cudacpu::here())
{
    return cudacpu::allocate(reinterpret_cast<void **>(pointer_), bytes_, false, site_);
}
template <class Type_> cudaError_t cudaMallocManaged(Type_ **pointer_, size_t bytes_, unsigned = cudaMemAttachGlobal,
                                                     cudacpu::call_site site_ = cudacpu::here())
{
    return cudacpu::allocate(reinterpret_cast<void **>(pointer_), bytes_, true, site_);
}
cudaError_t cudaFree(void *pointer_, cudacpu::call_site site_ = cudacpu::here());
cudaError_t cudaFreeAsync(void *pointer_, cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());
cudaError_t cudaMemset(void *to_, int value_, size_t bytes_, cudacpu::call_site site_ = cudacpu::here());
cudaError_t cudaMemsetAsync(void *to_, int value_, size_t bytes_, cudaStream_t stream_ = nullptr,
                            cudacpu::call_site site_ = cudacpu::here());
cudaError_t cudaMemGetInfo(size_t *free_, size_t *total_);

inline cudaError_t cudaMemcpy(void *to_, const void *from_, size_t bytes_, cudaMemcpyKind kind_,
                              cudacpu::call_site site_ = cudacpu::here())
{
    return cudacpu::copy_async(to_, from_, bytes_, kind_, nullptr, site_);
}
inline cudaError_t cudaMemcpyAsync(void *to_, const void *from_, size_t bytes_, cudaMemcpyKind kind_,
                                   cudaStream_t stream_ = nullptr, cudacpu::call_site site_ = cudacpu::here())
{
    return cudacpu::copy_async(to_, from_, bytes_, kind_, stream_, site_);
}

// Pinned host memory is as scarce as device memory, and kernels may touch it: it counts as that.
template <class Type_>
cudaError_t cudaMallocHost(Type_ **pointer_, size_t bytes_, cudacpu::call_site site_ = cudacpu::here())
{
    return cudacpu::allocate(reinterpret_cast<void **>(pointer_), bytes_, true, site_);
}
template <class Type_>
cudaError_t cudaHostAlloc(Type_ **pointer_, size_t bytes_, unsigned, cudacpu::call_site site_ = cudacpu::here())
{
    return cudaMallocHost(pointer_, bytes_, site_);
}
inline cudaError_t cudaFreeHost(void *pointer_, cudacpu::call_site site_ = cudacpu::here())
{
    return cudaFree(pointer_, site_);
}

// A __device__ or __constant__ variable is an ordinary variable.
template <class Type_> cudaError_t cudaMemcpyToSymbolAsync(Type_ &symbol_, const void *from_, size_t bytes_,
                                                           size_t offset_, cudaMemcpyKind kind_, cudaStream_t stream_,
                                                           cudacpu::call_site site_ = cudacpu::here())
{
    if (offset_ > sizeof(Type_) || bytes_ > sizeof(Type_) - offset_) return cudaErrorInvalidValue;
    void *at_ = const_cast<char *>(reinterpret_cast<const volatile char *>(&symbol_) + offset_);
    return cudacpu::copy_async(at_, from_, bytes_,
                               kind_ == cudaMemcpyDeviceToDevice ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost,
                               stream_, site_);
}
template <class Type_> cudaError_t cudaMemcpyToSymbol(Type_ &symbol_, const void *from_, size_t bytes_,
                                                      size_t offset_ = 0, cudaMemcpyKind kind_ = cudaMemcpyHostToDevice,
                                                      cudacpu::call_site site_ = cudacpu::here())
{
    return cudaMemcpyToSymbolAsync(symbol_, from_, bytes_, offset_, kind_, nullptr, site_);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream_);
template <class Type_> cudaError_t cudaMemcpyFromSymbol(void *to_, const Type_ &symbol_, size_t bytes_,
                                                        size_t offset_ = 0,
                                                        cudaMemcpyKind kind_ = cudaMemcpyDeviceToHost,
                                                        cudacpu::call_site site_ = cudacpu::here())
{
    if (offset_ > sizeof(Type_) || bytes_ > sizeof(Type_) - offset_) return cudaErrorInvalidValue;
    const void *at_ = const_cast<const char *>(reinterpret_cast<const volatile char *>(&symbol_) + offset_);
    if (kind_ != cudaMemcpyDeviceToDevice) cudaStreamSynchronize(nullptr);
    return cudacpu::copy_async(to_, at_, bytes_,
                               kind_ == cudaMemcpyDeviceToDevice ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost,
                               nullptr, site_);
}

// ------------------------ errors and the device

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char *cudaGetErrorName(cudaError_t error_);
const char *cudaGetErrorString(cudaError_t error_);

cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceReset();
cudaError_t cudaSetDevice(int device_);
cudaError_t cudaGetDevice(int *device_);
cudaError_t cudaGetDeviceCount(int *count_);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties_, int device_);
cudaError_t cudaDeviceGetAttribute(int *value_, cudaDeviceAttr attribute_, int device_);
cudaError_t cudaRuntimeGetVersion(int *version_);
cudaError_t cudaDriverGetVersion(int *version_);

inline cudaError_t cudaFuncSetAttribute(const void *kernel_, cudaFuncAttribute attribute_, int value_,
                                        cudacpu::call_site site_ = cudacpu::here())
{
    if (attribute_ != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    return cudacpu::set_shared_limit(kernel_, value_, site_);
}
template <class Result_, class... Parameters_>
cudaError_t cudaFuncSetAttribute(Result_ (*kernel_)(Parameters_...), cudaFuncAttribute attribute_, int value_,
                                 cudacpu::call_site site_ = cudacpu::here())
{
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel_), attribute_, value_, site_);
}
template <class Kernel_> cudaError_t cudaFuncSetCacheConfig(Kernel_ *, cudaFuncCache) { return cudaSuccess; }

// As an H200 would answer for a kernel whose registers are no limit.
template <class Kernel_>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_, Kernel_ *, int threads_, size_t shared_)
{
    return cudacpu::blocks_per_multiprocessor(blocks_, threads_, shared_);
}

// ------------------------ streams and events

cudaError_t cudaStreamCreate(cudaStream_t *stream_);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream_, unsigned flags_);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream_, unsigned flags_, int priority_);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least_, int *greatest_);
cudaError_t cudaStreamDestroy(cudaStream_t stream_);
cudaError_t cudaStreamSynchronize(cudaStream_t stream_);
cudaError_t cudaStreamQuery(cudaStream_t stream_);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_, cudaEvent_t event_, unsigned flags_ = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream_, cudaHostFn_t function_, void *argument_);

cudaError_t cudaEventCreate(cudaEvent_t *event_);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event_, unsigned flags_);
cudaError_t cudaEventDestroy(cudaEvent_t event_);
cudaError_t cudaEventRecord(cudaEvent_t event_, cudaStream_t stream_ = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event_);
cudaError_t cudaEventQuery(cudaEvent_t event_);
cudaError_t cudaEventElapsedTime(float *milliseconds_, cudaEvent_t start_, cudaEvent_t stop_);
