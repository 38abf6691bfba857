// scheduler.cpp - runs the threads of one block, one at a time, each until it has to wait. Nothing preempts a thread.
#include "engine.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

namespace cudacpu
{
__thread block *current;

size_t stack_bytes()
{
    static const size_t bytes = size_t(environment("CUDACPU_STACK_KB", 256)) << 10;
    return bytes;
}

// Fewer than the block has threads, if these do not wait: each returns its own.
static void add_fibers(block &b)
{
    enum { AT_ONCE = 32, GUARD_INSTALL = 102 };  // MADV_GUARD_INSTALL
    const size_t page = page_size(), each = page + stack_bytes();
    char *memory = static_cast<char *>(
        mmap(nullptr, AT_ONCE * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory == MAP_FAILED) report("out of host memory", {}, "no memory for the stacks of threads");
    for (unsigned i = 0; i < AT_ONCE; i++, memory += each) {
        // Nobody may touch the page below a stack; by Linux 6.13 and later it is no mapping of its own.
        if (madvise(memory, page, GUARD_INSTALL) != 0) mprotect(memory, page, PROT_NONE);
        fiber &f = b.fibers[b.fiber_count++];
        f.stack = memory + page;
        f.bytes = stack_bytes() - i % 16 * 256;  // or all stacks would begin in the same sets of the cache
        b.idle[b.idle_count++] = &f;
    }
}

// What every thread's fiber does.
static void thread_main()
{
    block &b = *current;
    b.body(b.arguments);
    thread &me = *b.running;
    engine_thread_end(me);
    warp_of(b, me).exited |= lane_bit(me);
    b.exited++;
    fiber_switch(*me.own, b.host);
    abort();
}

// ------------------------ in which order what nothing orders runs
// 0: forward, lane 0 first, blocks on all host threads; 1: backward; any other number shuffles by it. In an order other
// than 0 one host thread runs all, so that it is the same every time.

long order;
static uint32_t dice;

void order_begin_launch() { dice = uint32_t(order) * 2654435761u | 1; }

static unsigned choose_lane(unsigned ready)  // which of these comes next; one bit
{
    if (order == 0) return ready & -ready;
    if (order == 1) return 1u << (31 - __builtin_clz(ready));
    dice = dice * 1664525u + 1013904223u;
    unsigned skip = (dice >> 16) % unsigned(__builtin_popcount(ready));
    while (skip--) ready &= ready - 1;
    return ready & -ready;
}

// Steps of a width that has no divisor in common with count.
unsigned long rearranged(unsigned long n, unsigned long count)
{
    if (order == 0 || count < 2) return n;
    if (order == 1) return count - 1 - n;
    unsigned long step = static_cast<unsigned long>(order) * 7919 % count;
    while (std::__gcd(step, count) != 1) step++;
    return (n * (step % count) + static_cast<unsigned long>(order)) % count;
}

// ------------------------ threads

// Puts `from` to sleep and lets one of the warp's ready lanes run.
static inline void run_lane(block &b, warp &w, fiber &from)
{
    const unsigned lane = choose_lane(w.ready);
    thread &t = w.threads[__builtin_ctz(lane)];
    w.ready &= ~lane;
    if (!t.started) {
        t.started = true;
        if (!b.idle_count) add_fibers(b);
        t.own = b.idle[--b.idle_count];
        fiber_prepare(*t.own, thread_main);
    }
    b.running = &t;
    threadIdx = t.index;
    fiber_switch(from, *t.own);
}

// Lanes of one warp hand over to each other directly; when none is ready, the scheduler picks another warp.
void give_way(block &b)
{
    thread &me = *b.running;
    warp &w = warp_of(b, me);
    if (w.ready)
        run_lane(b, w, *me.own);
    else
        fiber_switch(*me.own, b.host);
}

void report_on_host(const char *what, call_site site)
{
    report("device code on the host", site, "%s was called outside a kernel", what);
}

// ------------------------ the barrier

static void open_barrier(block &b)
{
    check_barrier(b);
    hook_barrier(b);
    engine_barrier(b);
    b.result = b.votes;
    b.votes = {0, true, false};
    b.arrived = 0;
    for (unsigned i = 0; i < b.warp_count; i++) {
        b.warps[i].ready |= b.warps[i].at_barrier;
        b.warps[i].at_barrier = 0;
    }
}

int block_barrier(barrier_kind kind, bool predicate, call_site site)
{
    thread &me = running_thread("__syncthreads()", site);
    block &b = *current;
    me.site = site;
    me.code = __builtin_return_address(0);
    b.votes.count += predicate;
    b.votes.all &= predicate;
    b.votes.any |= predicate;
    warp_of(b, me).at_barrier |= lane_bit(me);
    b.arrived++;
    if (b.arrived + b.exited == b.thread_count) {
        open_barrier(b);
        warp_of(b, me).ready &= ~lane_bit(me);  // runs on
    } else {
        give_way(b);
    }
    // The next barrier cannot open, and change the result, before this thread has arrived there.
    if (kind == BARRIER_COUNT) return b.result.count;
    return kind == BARRIER_AND ? b.result.all : b.result.any;
}

// ------------------------ the block

static void begin_block(block &b, uint3 index)
{
    const dim3 size = b.config->block;
    b.index = blockIdx = index;
    blockDim = size;
    gridDim = b.config->grid;
    b.thread_count = size.x * size.y * size.z;
    b.warp_count = (b.thread_count + WARP - 1) / WARP;
    b.arrived = b.exited = 0;
    b.sequences = 0;
    b.votes = {0, true, false};
    for (unsigned i = 0; i < b.thread_count; i++) {
        thread &t = b.threads[i];
        t.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
        t.number = i;
        t.started = false;
        t.site = {};
    }
    for (unsigned i = 0; i < b.warp_count; i++) {
        const unsigned lanes = b.thread_count - i * WARP;
        const unsigned all = lanes < WARP ? (1u << lanes) - 1 : 0xffffffffu;
        b.warps[i] = {all, 0, 0, 0, all, b.threads + i * WARP, 0};
    }
    shared_memory_begin(b);
    async_copies_begin(b);
    engine_block_begin(b);
    watch_block();
    hook_block_begin(b);
}

// Runs one warp until none of its lanes can go on.
static void run_warp(block &b, warp &w)
{
    while (w.ready) {
        run_lane(b, w, b.host);
        thread &last = *b.running;  // lanes may have handed over to each other
        b.running = nullptr;
        if (w.exited & lane_bit(last)) {
            b.idle[b.idle_count++] = last.own;
            thread_left_warp(b, last);
        }
    }
}

void run_block(block &b, uint3 index)
{
    begin_block(b, index);
    while (b.exited < b.thread_count) {
        unsigned ready = 0;
        for (unsigned n = 0; n < b.warp_count; n++) {
            const unsigned long i = rearranged(n, b.warp_count);
            ready |= b.warps[i].ready;
            run_warp(b, b.warps[i]);
        }
        if (b.arrived && b.arrived + b.exited == b.thread_count)
            open_barrier(b);
        else if (!ready && !engine_step(b))
            report_deadlock(b);
    }
    hook_block_end(b);
    engine_block_end(b);
    watch_block_end();
}

extern "C" void wb_run_in_order(long wanted)
{
    if (order) report("a call reserved for the tests", {}, "wb_run_in_order() was called twice");
    order = wanted;
}
}
