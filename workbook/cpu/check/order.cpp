// order.cpp - which of two accesses comes first in every run, whatever the GPU does. Nothing else can be relied on.
//
// Time passes in epochs: one ends where all threads of the block meet, and where a block or a launch begins. Within an epoch threads
// of different warps are not ordered. Lanes of a warp are where __syncwarp() orders them: each lane counts its own (`clock`), and
// knows how far it has seen the other lanes of its warp (`seen`). A shuffle or a vote orders nothing: so says the programming guide.
#include "check.h"

#include <algorithm>
#include <vector>

namespace cudacpu
{
uint32_t epoch = 1, block_epoch = 1, launch_epoch = 1;
uint16_t seen[MAX_THREADS][WARP];

struct block_begin {
    uint32_t epoch;
    uint3 index;
};

static std::vector<block_begin> &blocks()  // of this launch
{
    static std::vector<block_begin> &all = *new std::vector<block_begin>;
    return all;
}

uint3 block_at(uint32_t then)
{
    const auto after = std::upper_bound(blocks().begin(), blocks().end(), then,
                                        [](uint32_t e, const block_begin &b) { return e < b.epoch; });
    return after == blocks().begin() ? uint3{0, 0, 0} : (after - 1)->index;
}

// Nobody has seen anything of the others in this epoch.
static void new_epoch(const block &b)
{
    epoch++;
    memset(seen, 0, b.thread_count * sizeof *seen);
    for (unsigned t = 0; t < b.thread_count; t++) seen[t][t % WARP] = 1;
}

static void seed_order();

void hook_launch_begin(const kernel &, const launch_config &)
{
    launch_epoch = block_epoch = ++epoch;
    blocks().clear();
    seed_order();
}

void hook_launch_end() { epoch++; }

void order_block_begin(const block &b)
{
    new_epoch(b);
    block_epoch = epoch;
    blocks().push_back({epoch, b.index});
}

void hook_barrier(block &b) { new_epoch(b); }

void hook_warp(block &b, warp &w, unsigned lanes, warp_operation operation)
{
    if (operation != SYNC_WARP) return;
    const unsigned first = w.threads[0].number;
    uint16_t together[WARP] = {};
    bool full = false;
    for (unsigned left = lanes; left; left &= left - 1) {
        const uint16_t *one = seen[first + static_cast<unsigned>(__builtin_ctz(left))];
        for (unsigned i = 0; i < WARP; i++) together[i] = std::max(together[i], one[i]);
    }
    for (unsigned left = lanes; left; left &= left - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
        memcpy(seen[first + lane], together, sizeof together);
        full |= ++seen[first + lane][lane] == 0xffff;
    }
    if (full) new_epoch(b);  // a clock is about to run over: forget what came before, which at worst hides a race
}

// ------------------------------------------------------------------------------------------------------------- in which order
// CUDACPU_ORDER: 0 forward, 1 backward, any other number shuffles by it.

static long order()
{
    static const char *text = getenv("CUDACPU_ORDER");
    static const long given = text ? atol(text) : 0;
    return given;
}

static uint32_t dice;
static void seed_order() { dice = static_cast<uint32_t>(order()) * 2654435761u | 1; }

unsigned hook_choose(unsigned ready)
{
    if (order() == 0) return ready & -ready;
    if (order() == 1) return 1u << (31 - __builtin_clz(ready));
    dice = dice * 1664525u + 1013904223u;
    unsigned skip = (dice >> 16) % static_cast<unsigned>(__builtin_popcount(ready));
    while (skip--) ready &= ready - 1;
    return ready & -ready;
}

// The n-th of a fixed rearrangement of 0 ... count - 1: steps of a width that has no divisor in common with count.
static unsigned long rearranged(unsigned long n, unsigned long count)
{
    if (order() == 0 || count < 2) return n;
    if (order() == 1) return count - 1 - n;
    unsigned long step = static_cast<unsigned long>(order()) * 7919 % count;
    while (std::__gcd(step, count) != 1) step++;
    return (n * (step % count) + static_cast<unsigned long>(order())) % count;
}

unsigned hook_warp_order(unsigned n, unsigned count) { return static_cast<unsigned>(rearranged(n, count)); }
unsigned long hook_block_order(unsigned long n, unsigned long count) { return rearranged(n, count); }

// One host thread: the same run every time, and what is said about it needs no locks.
__attribute__((constructor)) static void one_host_thread() { setenv("CUDACPU_THREADS", "1", 1); }
}
