// layer.h - how the layer sees a launch: host threads run blocks, these have warps, warps threads, threads a fiber.
#pragma once

#ifndef CUDACPU_LAYER
#define CUDACPU_LAYER  // before any header of include/: the indices may be assigned here
#endif
#include "fiber.h"

#include "../layer_requests.h"

#pragma GCC visibility push(default)  // what a kernel's file may name (build.mk, JUDGED)
#include <cuda_pipeline.h>
#include <atomic>
#include <cuda_runtime.h>
#include <cudacpu/hopper.h>
#include <cudacpu/pages.h>
#include <cudacpu/tensor_cores.h>
#pragma GCC visibility pop
#include <algorithm>
#include <functional>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace cudacpu
{
enum {
    WARP = 32,
    MAX_THREADS = 1024,             // of a block
    MAX_SHARED_VARIABLES = 64,      // of a kernel
    SHARED_BY_DEFAULT = 48 * 1024,  // bytes a block may use without asking
    SHARED_AT_MOST = 227 * 1024,    // after cudaFuncSetAttribute; the figures are an H200's
    SHARED_PER_MULTIPROCESSOR = 228 * 1024,
    // Few, so that kernels which launch as many blocks as fit have work for each; on every machine as many.
    MULTIPROCESSORS = 4
};

// SHARED_AT_MOST, or what WB_SHARED_KB says: 64 is a GPU of sm_75, 99 one of sm_86, sm_89 or sm_120, 163 one of sm_80.
int shared_at_most();
inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
inline size_t page_size()
{
    static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
    return bytes;
}
inline const char *chars(const void *at) { return static_cast<const char *>(at); }
inline uintptr_t address_of(const void *at) { return reinterpret_cast<uintptr_t>(at); }
inline char *page_of(const void *at) { return reinterpret_cast<char *>(address_of(at) & -page_size()); }
template <class Type, class Is> void erase_if(std::vector<Type> &all, Is is)
{
    all.erase(std::remove_if(all.begin(), all.end(), is), all.end());
}
bool blocks_run();  // wb_launch_few(): not none

// What a thread brings to a warp operation, and what it takes away.
struct warp_request {
    warp_operation operation;
    unsigned mask;
    int argument, width;
    uint64_t value;
    uint64_t result;
    void (*function)(void **lanes, int count);  // of CALL; value is this lane's pointer
};

struct thread;

// What a parked thread waits for, in the engine's words (engine.h).
struct patience {
    bool (*over)(const thread &t, const void *what, long number);
    void (*tell)(const thread &t, const void *what, long number, char *text, size_t size);
    const void *what;
    long number;
};

struct thread {
    uint3 index;      // threadIdx
    unsigned number;  // in the block, x fastest
    bool started;     // and so has a fiber
    fiber *own;
    call_site site;  // of the last barrier or warp operation
    void *code;      // where the last call into the layer returns to
    warp_request request;
    struct patience patience;
};

// One bit for each lane says where it is: exactly one of these, or none for the lane that runs now.
struct warp {
    unsigned ready;    // could run
    unsigned waiting;  // in a warp operation
    unsigned at_barrier;
    unsigned exited;
    unsigned all;  // lanes that exist: 32 but in the last warp
    thread *threads;
    unsigned parked;  // wait for the engine; one that does so for its whole warp is in a warp operation, too
};

struct shared_slot {
    const shared_variable *variable;
    char *at;
};

struct barrier_votes {
    int count;
    bool all, any;
};

// What all blocks of a launch do.
struct kernel_work {
    const kernel *what;
    const launch_config *config;
    void (*body)(void *);
    void *arguments;
    size_t argument_bytes;
};

// One block under way, on one host thread. A host thread keeps its block's storage for the next.
struct block : kernel_work {
    uint3 index;  // blockIdx

    thread threads[MAX_THREADS];
    warp warps[MAX_THREADS / WARP];
    unsigned thread_count, warp_count;
    thread *running;  // null while the scheduler itself runs

    unsigned arrived, exited;     // threads at the barrier, threads that returned
    barrier_votes votes, result;  // collected so far; of the last barrier

    fiber host;  // where the scheduler runs
    fiber fibers[MAX_THREADS];
    fiber *idle[MAX_THREADS];
    unsigned fiber_count, idle_count;

    char *dynamic_shared;  // ends where a page begins that may not be touched
    char *static_shared;
    size_t static_used;   // with the gaps between variables
    size_t static_bytes;  // without
    shared_slot slots[MAX_SHARED_VARIABLES];
    unsigned slot_count;
    const char *dynamic_name;

    int sequences;  // of a paged cache, in which a tile was sought (expect_tile)
};

// The block under way on this host thread; null outside kernels.
extern __thread block *current __attribute__((tls_model("initial-exec")));

inline warp &warp_of(block &b, const thread &t) { return b.warps[t.number / WARP]; }
inline unsigned lane_bit(const thread &t) { return 1u << t.number % WARP; }

// The running thread; ends the process with a report if `what` was called by host code.
[[noreturn]] void report_on_host(const char *what, call_site site);
inline thread &running_thread(const char *what, call_site site)
{
    if (!current || !current->running) report_on_host(what, site);
    return *current->running;
}

// ------------------------ scheduler.cpp
void run_block(block &b, uint3 index);
void give_way(block &b);  // the running thread cannot go on: runs others until it can
size_t stack_bytes();     // of a fiber
extern long order;
void order_begin_launch();
unsigned long rearranged(unsigned long n, unsigned long count);  // which of `count` warps or blocks is the n-th to run

// ------------------------ stuck.cpp
void check_barrier(block &b);                 // all threads that are left are at barriers: at the same one?
[[noreturn]] void report_deadlock(block &b);  // no thread can go on

// ------------------------ warp.cpp
const char *operation_name(warp_operation operation);
void thread_left_warp(block &b, thread &t);  // those who waited for it need not

// ------------------------ products.cpp
extern std::atomic<uint64_t> multiplied;   // numbers, since count_launches()
float *product_begins(const matrices &m);  // what product_ends is given when it is done
void product_ends(float *to, const matrices &m);

// ------------------------ tensor_cores.cpp
void count_fetches(struct ::wb_asked &since);

// ------------------------ shared_memory.cpp
void shared_memory_begin(block &b);
bool is_shared_address(const block &b, const char *at);  // or of a guard page beside it
bool describe_shared_address(const block &b, const char *at, char *text, size_t size);

// ------------------------ async_copy.cpp
void async_copies_begin(block &b);

// ------------------------ watch.cpp
bool watching();
void watch_block();  // a block begins
void watch_block_end();
void watch_copied(const void *from, size_t bytes, call_site site);  // by the host
bool watch_touched(const char *at, void *code);  // whether the page of this fault, by that instruction, is now open

// ------------------------ runtime_api.cpp
cudaError_t set_error(cudaError_t error);  // for cudaGetLastError; returns it
// The same, and says why: of a call of the runtime's, or of a launch of this kernel.
cudaError_t refuse(const char *call, call_site site, cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void in_turn(cudaStream_t stream, std::function<void()> what);  // at once, or when somebody waits for the stream
void catch_up_all();                                            // whatever is queued has happened

// ------------------------ memory.cpp
cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, call_site site);
cudaError_t set(void *to, int value, size_t bytes, call_site site);
cudaError_t release(void *pointer, call_site site);
void open_device_memory(bool open);              // kernels may touch it, or nobody
bool guard_touched(const char *at, bool write);  // whether it is not closed, so that what faulted there goes on
bool describe_device_address(const char *at, char *text, size_t size);
size_t device_memory_limit();
bool is_device_address(const void *at);  // one of those that are never anything else
bool was_freed(const char *at);          // it is in a buffer that has been freed
bool is_before(const char *at);          // the nearest buffer
// What a worker's tensor is called, in the buffer that holds it; returns that one, or null.
struct tensor_name {
    const char *name, *type;
    size_t element, dim[4];
};
const char *name_tensor(const char *at, const tensor_name &is, size_t *bytes);

// ------------------------ launch.cpp
long environment(const char *name, long otherwise);
extern bool one_host_thread;  // the check build's
void count_launches(struct ::wb_asked &since);
void open_host_stack();
bool is_host_stack(const void *at);
extern bool strict;

// ------------------------ faults.cpp
void catch_faults();     // on this host thread
void watchdog(bool on);  // this host thread may have to tell where it is
}
