// order.cpp - which of two accesses comes first in every run, whatever the GPU does. Nothing else can be relied on.
//
// Time passes in epochs: one ends where all threads of the block meet, and where a block or a launch begins. Within an epoch threads
// of different warps are not ordered. Lanes of a warp are where __syncwarp() orders them: each lane counts its own (`clock`), and
// knows how far it has seen the other lanes of its warp (`seen`). A shuffle or a vote orders nothing: so says the programming guide.
#include "check.h"

#include "../../asks.h"

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

void hook_launch_begin(const kernel &, const launch_config &)
{
    launch_epoch = block_epoch = ++epoch;
    blocks().clear();
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

// CUDACPU_ORDER: see ../order.cpp. One host thread, whatever the order: what is said about a run needs no locks.
__attribute__((constructor)) static void begin()
{
    wb_run_in_order(environment("CUDACPU_ORDER", 0));
    one_host_thread = true;
}
}
