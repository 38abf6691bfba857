// memory.c - the bookkeeping of memory.h. On the cpu backend the execution layer keeps the device's books
// (cpu/memory.cpp). On cuda (WB_BACKEND_CUDA) this file stands between the program and the CUDA runtime's shared
// library: a program that links it has every allocation counted, a student's included.
#include "memory.h"

#include <stdio.h>
#include <sys/resource.h>

// Not getrusage where there is another way: its peak outlives exec, so a worker would start with that of the test.
size_t wb_host_memory_peak(void)
{
    char line[128];
    size_t kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %zu", &kilobytes) == 1) break;
    if (status) fclose(status);
    if (kilobytes) return kilobytes * 1024;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

// The linker says the number as an address, so many bytes behind another; null where it has not been asked.
__attribute__((visibility("default"))) char wb_statics_from[1];
extern char wb_statics[] __attribute__((weak));

size_t wb_static_memory(void) { return wb_statics ? (size_t)(wb_statics - wb_statics_from) : 0; }

#ifdef WB_BACKEND_CUDA

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static struct {
    void *pointer;
    size_t bytes;
} * live;  // unordered; a workbook program holds a few dozen allocations
static size_t count, capacity, current, peak;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cudaError_t born(cudaError_t error, void *const *pointer, size_t bytes)
{
    if (error != cudaSuccess || !*pointer) return error;
    pthread_mutex_lock(&lock);
    if (count == capacity && !(live = realloc(live, (capacity = 2 * capacity + 64) * sizeof *live))) abort();
    live[count].pointer = *pointer;
    live[count++].bytes = bytes;
    current += bytes;
    if (current > peak) peak = current;
    pthread_mutex_unlock(&lock);
    return error;
}

static void died(void *pointer)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (live[i].pointer == pointer) {
            current -= live[i].bytes;
            live[i] = live[--count];
            break;
        }
    pthread_mutex_unlock(&lock);
}

size_t wb_memory_current(void) { return current; }
size_t wb_memory_peak(void) { return peak; }
void wb_memory_reset_peak(void) { peak = current; }

// Calls the runtime's own function behind ours of the same name.
#define RUNTIME(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

#define ALLOCATES(name, parameters, ...) \
    cudaError_t name parameters { return born(RUNTIME(name, __VA_ARGS__), pointer, bytes); }
ALLOCATES(cudaMalloc, (void **pointer, size_t bytes), pointer, bytes)
ALLOCATES(cudaMallocAsync, (void **pointer, size_t bytes, cudaStream_t stream), pointer, bytes, stream)
ALLOCATES(cudaMallocFromPoolAsync, (void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream), pointer,
          bytes, pool, stream)
ALLOCATES(cudaMallocManaged, (void **pointer, size_t bytes, unsigned flags), pointer, bytes, flags)

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    const cudaError_t error = RUNTIME(cudaMallocPitch, pointer, pitch, width, height);
    return born(error, pointer, error == cudaSuccess ? *pitch * height : 0);
}

#define FREES(name, parameters, ...) \
    cudaError_t name parameters { return died(pointer), RUNTIME(name, __VA_ARGS__); }
FREES(cudaFree, (void *pointer), pointer)
FREES(cudaFreeAsync, (void *pointer, cudaStream_t stream), pointer, stream)

#endif
