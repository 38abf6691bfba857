// runtime_api.cpp - the device's properties, streams and events. Nothing here runs later than it is called, but for copies within
// device memory on a stream that waits for no other: they happen when something else on their stream does, or waits for it.
#include "layer.h"

#include "../asks.h"

#include <algorithm>
#include <vector>

struct later_copy {
    void *to;
    const void *from;
    size_t bytes;
    cudacpu::call_site site;
};

struct CUstream_st {
    bool waits_for_none, had_queued;
    std::vector<later_copy> queued;
};

struct CUevent_st {
    double seconds;   // when it was recorded; 0: never
    bool had_queued;  // as its stream then
};

namespace cudacpu
{
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

// ------------------------------------------------------------------------------------------------------------- what is queued

static std::vector<cudaStream_t> &streams()
{
    static std::vector<cudaStream_t> &all = *new std::vector<cudaStream_t>;
    return all;
}

static bool waited;  // the host, for a stream on which something had been queued
static bool astray;  // a kernel was launched where it does not wait for that

void cudacpu::catch_up(cudaStream_t stream)
{
    if (!stream) return;
    std::vector<later_copy> queued;
    queued.swap(stream->queued);
    for (const later_copy &c : queued) copy(c.to, c.from, c.bytes, cudaMemcpyDeviceToDevice, c.site);
}

static void wait_for(cudaStream_t stream)
{
    if (stream && stream->had_queued) waited = true;
    catch_up(stream);
}

cudaError_t cudacpu::copy_async(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                                call_site site)
{
    if (stream && stream->waits_for_none && kind == cudaMemcpyDeviceToDevice) {
        stream->had_queued = true;
        stream->queued.push_back({to, from, bytes, site});
        return cudaSuccess;
    }
    // To memory of the host that is not pinned the call itself waits; to pinned memory its caller will have to.
    if (kind == cudaMemcpyDeviceToHost || (kind == cudaMemcpyDefault && !is_device_address(to)))
        wait_for(stream);
    else
        catch_up(stream);
    return copy(to, from, bytes, kind, site);
}

void cudacpu::launched_on(cudaStream_t stream)
{
    for (cudaStream_t other : streams()) astray = astray || (other->had_queued && !(stream && stream->had_queued));
    catch_up(stream);
}

extern "C" int wb_late_waited(void) { return waited; }
extern "C" int wb_late_astray(void) { return astray; }

// -------------------------------------------------------------------------------------------------------------------- the device

static int processors = MULTIPROCESSORS;

extern "C" void wb_have_processors(int count) { processors = count ? count : MULTIPROCESSORS; }

cudaError_t cudaDeviceSynchronize()
{
    for (cudaStream_t stream : streams()) wait_for(stream);
    return cudaSuccess;
}
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : set_error(cudaErrorInvalidDevice); }

static cudaError_t answer(int *to, int what)
{
    *to = what;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) { return answer(device, 0); }
cudaError_t cudaGetDeviceCount(int *count) { return answer(count, 1); }
cudaError_t cudaRuntimeGetVersion(int *version) { return answer(version, CUDART_VERSION); }
cudaError_t cudaDriverGetVersion(int *version) { return answer(version, CUDART_VERSION); }

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
    p.multiProcessorCount = processors;
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

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    *stream = new CUstream_st{flags == cudaStreamNonBlocking, false, {}};
    streams().push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    catch_up(stream);
    streams().erase(std::remove(streams().begin(), streams().end(), stream), streams().end());
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    wait_for(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (stream && event->had_queued) stream->had_queued = true;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    catch_up(stream);
    function(argument);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new CUevent_st{0, false};
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    catch_up(stream);  // so that whoever waits for the event need not
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    event->had_queued = stream && stream->had_queued;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    waited = waited || event->had_queued;
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    if (start->seconds == 0 || stop->seconds == 0) return set_error(cudaErrorInvalidResourceHandle);
    *milliseconds = static_cast<float>((stop->seconds - start->seconds) * 1e3);
    return cudaSuccess;
}
