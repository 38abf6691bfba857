// engine.h - what runs on its own on a Hopper GPU, while threads go on: the copy engine, and the tensor cores of a
// warpgroup. Everything is played as late as the hardware may: a copy when no thread can go on and one waits for its
// signal, a product, for each warp, when its products_done makes it due. Until then tile and result are NaN, and
// factors are read then. So what is used without having been waited for is wrong every time.
//
// What is right only because nothing here is preempted is found by clocks, what each thread can know: an arrival at a
// signal or barrier publishes that, a wait adds it. Whoever overwrites, reads or sends a tile must know that those
// before have ended.
#pragma once

#include "hooks.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define FOR_THIS_PROCESSOR
#endif

namespace cudacpu
{
enum { WARPS = MAX_THREADS / WARP, SIGNALS = 64, GROUP_WARPS = 4, BARRIERS = 16, REGISTERS = 65536 };

// What a thread knows: of warp w all before it published for the at[w]-th time; of signal s phases, at[WARPS + s].
struct clocks {
    unsigned at[WARPS + SIGNALS];
};

struct signal_state {
    const uint64_t *word;
    int count, missing;   // arrivals of a phase
    long promised, come;  // bytes of this phase
    unsigned phase;       // phases that are over
    bool ready;           // signals_ready() since the init
    bool before;          // a wait for the phase before the first was let through
    unsigned init_thread, init_clock;
    call_site init_site, arrival, wait;  // arrival, wait: the latest
    unsigned waited;                     // for which phase that was
    clocks collecting, over;
};

struct copy_to_shared {
    tile_rows to;
    const char *source;  // contiguous bytes; null: a box of map
    tensor_box map;
    int row, head, bytes;
    size_t signal;
    call_site site;
    bool done = false;
    unsigned phase = 0;  // of the signal, that it belonged to; once done
};

struct copy_from_shared {
    tile_rows from;
    char *target;  // contiguous bytes; null: a box of map
    bool add;      // floats, to those that are there
    tensor_box map;
    int row, head;
    unsigned thread;
    call_site site;
    bool done = false, written = false;  // it has been read; and can be seen by others
    unsigned clock = 0;                  // of its warp when it knew that it was done
};

// The latest product of a group that reads these rows.
struct reading {
    tile_rows what;
    bool quarters;  // each warp only its quarter of the rows
    int group;
    unsigned number;
    unsigned done[GROUP_WARPS];  // clock of each warp when it was done; 0: not yet
    call_site site;
};

// Plain stores, which the copy engine and the tensor cores see only after a fence.
struct writing {
    tile_rows what;
    int warp;
    unsigned unfenced;  // lanes
    unsigned clock;     // of the warp at the last fence
    call_site site;
};

struct product {
    product_request of;  // the lowest lane's
    float *c[WARP];
    const uint32_t *weights[WARP];
    std::vector<float> saved;              // C as it was when the product was issued
    std::vector<uint32_t> weights_issued;  // the weights as they were then, and what the tiles were like:
    uint64_t a_hash, b_hash;
    unsigned number;
    uint32_t tag;   // what stands in C until it is due: a signalling NaN that no computation makes
    product *next;  // goes on with the same C, and was issued before this one was due
};

// A product that is done, whose result no products_done has named yet.
struct unnamed_result {
    const float *c;  // of the lowest lane
    call_site site;
};

// What the first warp of a group did as its n-th; the others must do the same.
struct group_step {
    const void *a, *b;
    int cols, depth, warp;
    unsigned issued;
    uint64_t b_hash;
    call_site site;
};

struct barrier_state {
    int arrived, threads;
    unsigned generation;
    clocks collecting, over;
};

struct named_part {
    const char *at;
    size_t bytes;
    char name[128];
};

// Of the block that runs on this host thread.
struct engine {
    bool used;  // by this block
    unsigned threads;
    int warps;              // of the block
    unsigned clock[WARPS];  // grows whenever a thread of the warp publishes
    clocks know[MAX_THREADS];
    std::vector<signal_state> signals;
    std::vector<copy_to_shared> copies;
    std::vector<copy_from_shared> stores;
    std::vector<reading> readings;
    std::vector<writing> writings;
    std::vector<product *> queue[WARPS], idle;
    std::vector<unnamed_result> unnamed[WARPS];
    unsigned issued[WARPS], waited[WARPS];
    std::vector<group_step> issues[WARPS / GROUP_WARPS], waits[WARPS / GROUP_WARPS];
    barrier_state barriers[BARRIERS];
    int registers[WARPS], pool;
    void (*name_all)(void *);
    void *named;
    std::vector<named_part> parts;
    uint64_t multiplied;  // numbers, by products
    call_site copying;    // the copy that the engine is carrying out; no thread is running then
};

engine &engine_here();
inline int warp_number(const thread &t) { return int(t.number / WARP); }

// ------------------------ engine.cpp
// The running thread, and from here on the block counts as one that uses the engine.
thread &engine_thread(const char *what, call_site site);
const char *name_of(const void *at);  // "K.full[1]"

// Whether a thread that satisfies `is` is parked; `go_on`: all these do.
template <class Is> bool any_parked(block &b, bool go_on, Is is)
{
    bool any = false;
    for (unsigned i = 0; i < b.warp_count; i++)
        for (unsigned left = b.warps[i].parked; left; left &= left - 1) {
            const unsigned lane = left & -left;
            thread &t = b.warps[i].threads[__builtin_ctz(left)];
            if (!is(t)) continue;
            any = true;
            if (!go_on) return true;
            b.warps[i].parked &= ~lane;
            b.warps[i].ready |= lane;
        }
    return any;
}

// The running thread waits until over(t, what, number); tell says for what, after "waits".
void wait_until(bool (*over)(const thread &, const void *, long),
                void (*tell)(const thread &, const void *, long, char *, size_t), const void *what, long number,
                call_site site);

// A report: a sentence and its place, then another place and what happened there.
[[noreturn]] void report_two(const char *kind, call_site site, call_site other, const char *was, const char *format,
                             ...) __attribute__((format(printf, 5, 6)));

// ------------------------ knowledge.cpp
void join(const engine &e, clocks &mine, const clocks &other);  // each at least what the other is
void forget(const engine &e, clocks &all);
void publish(engine &e, const thread &t, clocks &into);
bool overlap(const tile_rows &x, const tile_rows &y);
tile_rows quarter(tile_rows r, int warp);  // a warp's rows of a left factor
// A tile's other signal: "K.full[1]" where one is "K.empty[1]"; null: there is none.
const char *last_wait(const signal_state &s);
const signal_state *at_other_end(const engine &e, const signal_state &one, const char *end, const char *other);
// Thread t, or `threads` from it on, are about to overwrite, use or send these rows: a report if one cannot know that.
void check_readers(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who);
void check_arrival(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who, int threads = 1);
void check_fences(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who);
void plain_access(const char *at, bool store, call_site site);  // by the running thread: only the check build sees them

// ------------------------ signals.cpp
signal_state &find_signal(engine &e, const uint64_t *word, call_site site, const char *what);
void bytes_came(signal_state &s, long bytes, call_site site);
bool signal_is_over(const thread &, const void *, long);

// ------------------------ copy_engine.cpp
bool copy_one(engine &e, bool (*waited_for)(size_t signal));  // whether there was one

// ------------------------ warpgroup_products.cpp
void trap_early_reads(bool on);

// ------------------------ record.cpp
// What the running thread, or its whole warp, does: a row of the record (../timeline/README.md). event null: it ends.
// phase, number (-1: none): what it is part of or waits for. amount: bytes, operations or elements. box: of the tensor.
struct recorded {
    const char *event, *phase;
    long number, amount;
    call_site site;
    const void *tile = nullptr;
    long box = -1;
    bool whole_warp = false;
};

extern bool recording;  // the functions below are called only then
void record_block_begin();
void record_event(const recorded &x);
void record_issue(const product &p);
void record_wait(long number, call_site site);  // for the group's products up to this one
void record_result(const product &p, call_site waited);
void record_meeting(block &b);

// ------------------------ launch.cpp
void count_products(const block &b, uint64_t products);

void runners_under_way(int more);
bool another_block_may_help(block &b);  // nobody here can go on

// ------------------------ called by the scheduler
void engine_block_begin(block &b);
void engine_barrier(block &b);                        // all threads have met
void engine_warp(block &b, warp &w, unsigned lanes);  // these lanes have, at __syncwarp()
void engine_thread_end(const thread &t);
bool engine_step(block &b);  // nobody is ready: whether that changed
void engine_block_end(block &b);
bool early_read(void *context);  // a floating-point exception: whether the thread goes on
}
