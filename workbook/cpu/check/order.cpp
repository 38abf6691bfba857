// order.cpp - which of two accesses comes first in every run, whatever the GPU does. Nothing else can be relied on.
//
// Time passes in epochs: one ends where all threads of the block meet, and where a block or a launch begins. Within one
// lanes of a warp are ordered by __syncwarp(): each counts its own (`clock`), and knows how far it has seen other
// threads (`seen`). A shuffle or a vote orders nothing: so says the programming guide. Of other warps a thread learns
// by signals and named barriers: an arrival publishes how far it has seen everybody, itself included, and who waits for
// that phase has seen as far.
#include "check.h"

#include <map>

namespace cudacpu
{
uint32_t epoch = 1, block_epoch = 1, launch_epoch = 1;
uint16_t seen[MAX_THREADS][MAX_THREADS];
bool learned;

struct channel {
    bool used;
    uint16_t collecting[MAX_THREADS], over[MAX_THREADS];  // of the phase now, of the last one
};
static channel channels[CHANNELS];

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

static place of_block, of_warp[MAX_THREADS / WARP];  // the last barriers
// Of each barrier of a block, by its place: the block that has passed it last, and whether one did again.
static auto &passed = *new std::map<std::pair<uint32_t, uint32_t>, std::pair<uint32_t, bool>>;

last_barrier barrier_before(unsigned t, unsigned other)
{
    return {t / WARP == other / WARP && of_warp[t / WARP].code ? of_warp[t / WARP] : of_block, !learned};
}
bool in_a_loop(place barrier) { return passed[{barrier.code, barrier.calls}].second; }

// Nobody has seen anything of the others in this epoch.
static void new_epoch(const block &b)
{
    epoch++;
    for (unsigned t = 0; t < b.thread_count; t++) {
        if (learned)
            memset(seen[t], 0, b.thread_count * sizeof **seen);
        else
            memset(seen[t] + t / WARP * WARP, 0, WARP * sizeof **seen);
        seen[t][t] = 1;
    }
    learned = false;
    for (channel &c : channels)
        if (c.used) memset(&c, 0, sizeof c);
}

void hook_launch_begin()
{
    launch_epoch = block_epoch = ++epoch;
    blocks().clear();
}

void hook_launch_end() { epoch++; }

void order_block_begin(const block &b)
{
    if (learned) memset(seen, 0, sizeof seen);  // of the block before, which may have had more threads
    new_epoch(b);
    block_epoch = epoch;
    blocks().push_back({epoch, b.index});
    of_block = {};
    memset(of_warp, 0, sizeof of_warp);
}

void hook_barrier(block &b)
{
    new_epoch(b);
    const warp *w = b.warps;
    while (!w->at_barrier) w++;
    const thread &t = w->threads[__builtin_ctz(w->at_barrier)];
    of_block = place_of(t.code, t);
    auto &[last, again] = passed[{of_block.code, of_block.calls}];
    again |= last == block_epoch, last = block_epoch;
    memset(of_warp, 0, sizeof of_warp);
}

void hook_warp(block &b, warp &w, unsigned lanes, warp_operation operation)
{
    found_absent(b, w, lanes);
    if (operation != SYNC_WARP) return;
    // Until a thread has learned something of another warp, its own warp is all that there is to compare.
    const unsigned first = w.threads[0].number, from = learned ? 0 : first,
                   count = learned ? b.thread_count : unsigned{WARP};
    const thread &lowest = w.threads[__builtin_ctz(lanes)];
    of_warp[first / WARP] = place_of(lowest.code, lowest);
    uint16_t together[MAX_THREADS] = {};
    bool full = false;
    for (unsigned left = lanes; left; left &= left - 1)
        raise(together, seen[first + unsigned(__builtin_ctz(left))] + from, count);
    for (unsigned left = lanes; left; left &= left - 1) {
        const unsigned t = first + unsigned(__builtin_ctz(left));
        memcpy(seen[t] + from, together, count * sizeof *together);
        full |= ++seen[t][t] == 0xffff;
    }
    if (full) new_epoch(b);  // a clock is about to run over: forget what came before, which at worst hides a race
}

void hook_publish(int number)
{
    const thread &t = *current->running;
    channel &c = channels[number];
    c.used = true;
    raise(c.collecting, seen[t.number], current->thread_count);
    if (++seen[t.number][t.number] == 0xffff) new_epoch(*current);
}

void hook_turn(int number)
{
    channel &c = channels[number];
    memcpy(c.over, c.collecting, sizeof c.over);
    memset(c.collecting, 0, sizeof c.collecting);
}

void hook_learn(int number, call_site)
{
    const thread &t = *current->running;
    if (!channels[number].used) return;
    learned = true;
    raise(seen[t.number], channels[number].over, current->thread_count);
}

// CUDACPU_ORDER: see ../scheduler.cpp. One host thread, whatever the order: what is said about a run needs no locks.
__attribute__((constructor)) static void begin()
{
    wb_run_in_order(environment("CUDACPU_ORDER", 0));
    one_host_thread = true;
}
}
