// runtime_api.cpp - errors, the device's properties, streams and events. Nothing here runs later than it is called.
#include "layer.h"

struct CUstream_st {
    int unused;
};

struct CUevent_st {
    double seconds;  // when it was recorded; 0: never
};

namespace cudacpu
{
static __thread cudaError_t last_error;

cudaError_t set_error(cudaError_t error)
{
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t blocks_per_multiprocessor(int *blocks, int threads, size_t shared)
{
    if (!blocks || threads < 1 || threads > MAX_THREADS) return set_error(cudaErrorInvalidValue);
    const size_t by_threads = 2048 / static_cast<size_t>((threads + WARP - 1) / WARP * WARP);
    const size_t by_shared = SHARED_PER_MULTIPROCESSOR / (shared + 1024);  // a block costs 1 KB more than it asks for
    *blocks = static_cast<int>(by_threads < by_shared ? by_threads : by_shared);
    if (*blocks > 32) *blocks = 32;
    return cudaSuccess;
}
}

using namespace cudacpu;

// ------------------------------------------------------------------------------------------------------------------------ errors

struct error_text {
    cudaError_t error;
    const char *name, *text;
};

static const error_text error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

static const error_text &text_of(cudaError_t error)
{
    static const error_text unknown = {cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
    for (const error_text &x : error_texts)
        if (x.error == error) return x;
    return unknown;
}

const char *cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char *cudaGetErrorString(cudaError_t error) { return text_of(error).text; }

cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetLastError()
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

// -------------------------------------------------------------------------------------------------------------------- the device

cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : set_error(cudaErrorInvalidDevice); }

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    if (!properties || device != 0) return set_error(cudaErrorInvalidDevice);
    cudaDeviceProp p = {};
    snprintf(p.name, sizeof p.name, "CPU execution layer");
    p.totalGlobalMem = device_memory_limit();
    p.sharedMemPerBlock = SHARED_BY_DEFAULT;
    p.sharedMemPerBlockOptin = static_cast<size_t>(shared_at_most());
    p.sharedMemPerMultiprocessor = SHARED_PER_MULTIPROCESSOR;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = WARP;
    p.maxThreadsPerBlock = MAX_THREADS;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = MAX_THREADS;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.maxThreadsPerMultiProcessor = 2048;
    p.maxBlocksPerMultiProcessor = 32;
    p.multiProcessorCount = host_threads();
    p.l2CacheSize = 50 << 20;
    p.memoryBusWidth = 64;
    p.major = 9;
    p.integrated = 1;
    p.unifiedAddressing = p.managedMemory = 1;
    *properties = p;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    cudaDeviceProp p;
    if (!value || cudaGetDeviceProperties(&p, device) != cudaSuccess) return set_error(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(p.sharedMemPerMultiprocessor); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    default: return set_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

// ------------------------------------------------------------------------------------------------------------ streams and events

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    *stream = new CUstream_st{0};
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return cudaStreamCreate(stream); }

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }

cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void *argument)
{
    function(argument);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new CUevent_st{0};
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    if (start->seconds == 0 || stop->seconds == 0) return set_error(cudaErrorInvalidResourceHandle);
    *milliseconds = static_cast<float>((stop->seconds - start->seconds) * 1e3);
    return cudaSuccess;
}
