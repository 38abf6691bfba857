// runtime_api.cpp - the device's properties, errors, streams and events. What is queued on a stream that waits for no
// other happens when somebody waits for it, and of several such streams by turns, one thing of each: as late, and as
// mixed, as a GPU may. On any other nothing runs later than it is called.
#include "flight.h"

#include <deque>
#include <memory>
#include <stdarg.h>

struct CUstream_st {
    int number;  // flight.h: a row of clocks
    bool waits_for_none, had_queued;
    std::deque<std::function<void()>> queued;
};

struct CUevent_st {
    double seconds;   // when it was recorded; 0: never
    bool had_queued;  // as its stream then
    cudacpu::flight_clock clock;
    void *recorded;  // the instruction
};

namespace cudacpu
{
static __thread cudaError_t last_error;

cudaError_t set_error(cudaError_t error)
{
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t refuse(const char *call, call_site site, cudaError_t error, const char *format, ...)
{
    char why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    const char *const of = strncmp(call, "cuda", 4) == 0 ? "" : "launch of ";
    if (!hook_refused(call, why, site))
        fprintf(stderr, "cudacpu: %s%s refused: %s  at %s:%d\n", of, call, why, site.file, site.line);
    return set_error(error);
}

cudaError_t blocks_per_multiprocessor(int *blocks, int threads, size_t shared)
{
    if (!blocks || threads < 1 || threads > MAX_THREADS) return set_error(cudaErrorInvalidValue);
    const size_t by_threads = 2048 / size_t((threads + WARP - 1) / WARP * WARP);
    const size_t by_shared = SHARED_PER_MULTIPROCESSOR / (shared + 1024);  // a block costs 1 KB more than it asks for
    *blocks = int(std::min({by_threads, by_shared, size_t{32}}));
    return cudaSuccess;
}
}

using namespace cudacpu;

// ------------------------ errors

struct error_text {
    cudaError_t error;
    const char *name, *text;
};

#define ROW(name, number, text) {name, #name, text},
static const error_text error_texts[] = {CUDACPU_ERRORS(ROW)};

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

// ------------------------ what is queued

static std::vector<cudaStream_t> &streams()
{
    static std::vector<cudaStream_t> &all = *new std::vector<cudaStream_t>;
    return all;
}

// Rows of clocks are given out in turn, so that one is used again as late as may be.
static cudaStream_t rows[STREAMS];

static int free_row()
{
    static int last;
    for (int tries = 1; tries < STREAMS; tries++) {
        last = last % (STREAMS - 1) + 1;
        if (!rows[last]) return last;
    }
    report("too many streams", {}, "at most %d streams per rank are supported", STREAMS - 1);
}

int cudacpu::stream_number(cudaStream_t stream) { return stream ? stream->number : 0; }
bool cudacpu::stream_waits(int number) { return rows[number] && !rows[number]->waits_for_none; }

static bool waited;           // the host, for any stream
static bool astray;           // something was asked for on a stream that does not wait for what another has queued
static const void *not_this;  // or on this one
extern "C" void wb_not_on(const void *stream) { not_this = stream; }

static bool one_thing(cudaStream_t stream)
{
    if (!stream || stream->queued.empty()) return false;
    const std::function<void()> next = std::move(stream->queued.front());
    stream->queued.pop_front();
    next();
    return true;
}

static void catch_up(cudaStream_t stream)
{
    while (one_thing(stream)) {}
}

void cudacpu::catch_up_all()
{
    for (bool any = true; any;) {
        any = false;
        for (cudaStream_t stream : streams()) any |= one_thing(stream);
        waited |= any;
    }
}

static void use(cudaStream_t stream)
{
    astray = astray || (stream && stream == not_this);
    for (cudaStream_t other : streams()) astray = astray || (other->had_queued && !(stream && stream->had_queued));
}

void cudacpu::in_turn(cudaStream_t stream, std::function<void()> what)
{
    use(stream);
    if (!stream || !stream->waits_for_none) {
        catch_up(stream);
        return what();
    }
    stream->had_queued = true;
    stream->queued.push_back(std::move(what));
}

static void wait_for(cudaStream_t stream)
{
    waited = true;
    if (flying) flight_host_waits_for(stream);
    catch_up(stream);
}

// Of a rank, what the device reads and writes is told when it is queued; elsewhere it waits for its turn.
static void queue(const char *call, cudaStream_t stream, std::vector<flight_range> ranges, call_site site,
                  std::function<void()> run)
{
    if (flying)
        flight_work(call, site, stream, std::move(ranges), std::move(run));
    else
        in_turn(stream, std::move(run));
}

cudaError_t cudacpu::copy_async(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                                call_site site)
{
    const bool to_host = kind == cudaMemcpyDeviceToHost || (kind == cudaMemcpyDefault && !is_device_address(to));
    const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost ||
                           (kind == cudaMemcpyDefault && !is_device_address(from));
    if (to_host && !flying) wait_for(stream);  // to pinned memory the call would not, but its caller will have to
    if (!flying && (to_host || !stream || !stream->waits_for_none)) {
        use(stream);
        catch_up(stream);
        return copy(to, from, bytes, kind, site);
    }
    const char *const call = stream ? "cudaMemcpyAsync()" : "cudaMemcpy()";
    const char *const now = chars(from);
    std::vector<flight_range> ranges;
    if (is_device_address(from)) ranges.push_back({now, bytes, false, call, site, -1});
    if (is_device_address(to)) ranges.push_back({static_cast<char *>(to), bytes, true, call, site, -1});
    // memory of the host is read at once
    const auto staged = std::make_shared<std::vector<char>>(now, from_host && from ? now + bytes : now);
    const auto error = std::make_shared<cudaError_t>(cudaSuccess);
    queue(call, stream, std::move(ranges), site,
          [=] { *error = copy(to, staged->empty() ? from : staged->data(), bytes, kind, site); });
    if (to_host) wait_for(stream);
    return *error;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes, call_site site)
{
    return cudaMemsetAsync(to, value, bytes, nullptr, site);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream, call_site site)
{
    const char *const call = "cudaMemset()";
    const auto error = std::make_shared<cudaError_t>(cudaSuccess);  // of one that happens now
    queue(call, stream, {{static_cast<char *>(to), bytes, true, call, site, -1}}, site,
          [=] { *error = set(to, value, bytes, site); });
    return *error;
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream, call_site site)
{
    const char *const call = "cudaFreeAsync()";
    queue(call, stream, {{static_cast<char *>(pointer), buffer_bytes(pointer), true, call, site, -1}}, site,
          [=] { release(pointer, site); });
    return cudaSuccess;
}

extern "C" wb_asked wb_what_was_asked(void)
{
    wb_asked since = {};
    count_launches(since);
    since.waited = waited, since.astray = astray;
    since.sent = nccl_sent();
    flight_count(since);
    waited = astray = false;
    return since;
}

// ------------------------ the device

static int processors = MULTIPROCESSORS;

extern "C" void wb_have_processors(int count) { processors = count ? count : MULTIPROCESSORS; }

cudaError_t cudaDeviceSynchronize()
{
    waited = true;
    if (flying) flight_host_waits_for_all();
    catch_up(nullptr);
    catch_up_all();
    return cudaSuccess;
}
cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : set_error(cudaErrorInvalidDevice); }

static cudaError_t answer(int *to, int what) { return *to = what, cudaSuccess; }
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
    p.sharedMemPerBlockOptin = shared_at_most();
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
    p.l2CacheSize = processors * (384 << 10);  // 132 have 50 MB
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
#define CASE(name, number, property) \
    case name: *value = p.property; return cudaSuccess;
    switch (attribute) {
        CUDACPU_ATTRIBUTES(CASE)
    }
    return set_error(cudaErrorInvalidValue);
}

// ------------------------ streams and events

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    const int row = flying ? free_row() : 0;
    *stream = new CUstream_st{row, flags == cudaStreamNonBlocking, false, {}};
    if (row) rows[row] = *stream;
    streams().push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    catch_up(stream);
    if (stream->number) rows[stream->number] = nullptr;
    streams().erase(std::remove(streams().begin(), streams().end(), stream), streams().end());
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return wait_for(stream), cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    if (flying) flight_wait(stream, event->clock, __builtin_return_address(0), event->recorded);
    if (stream && event->had_queued) stream->had_queued = true;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    queue("cudaLaunchHostFunc()", stream, {}, {}, [=] { function(argument); });
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = new CUevent_st{}, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    catch_up(stream);  // so that whoever waits for the event need not
    if (flying) flight_record(event->clock, stream);
    event->recorded = __builtin_return_address(0);
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->seconds = double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
    event->had_queued = stream && stream->had_queued;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)  // what came before it has happened
{
    waited = true;
    if (flying) flight_host_waits(event->clock);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    if (start->seconds == 0 || stop->seconds == 0) return set_error(cudaErrorInvalidResourceHandle);
    *milliseconds = float((stop->seconds - start->seconds) * 1e3);
    return cudaSuccess;
}
