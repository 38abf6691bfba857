// warpgroups.cpp - named barriers, and shares of the register file.
#include "engine.h"

namespace cudacpu
{
// ------------------------ named barriers

static bool barrier_is_over(const thread &, const void *barrier, long generation)
{
    return static_cast<const barrier_state *>(barrier)->generation != static_cast<unsigned>(generation);
}

static void tell_barrier(const thread &, const void *barrier, long, char *text, size_t size)
{
    const barrier_state &s = *static_cast<const barrier_state *>(barrier);
    snprintf(text, size, "at barrier %td for %d threads: %d have not arrived", &s - engine_here().barriers, s.threads,
             s.threads - s.arrived);
}

static const char *barrier_name(int barrier)
{
    static __thread char name[16];
    snprintf(name, sizeof name, "barrier %d", barrier);
    return name;
}

void named_barrier(int barrier, int threads, bool wait, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("a named barrier", site);
    if (barrier < 1 || barrier >= BARRIERS)
        report("bad barrier", site, "barrier %d: the number must be 1 to %d; 0 is __syncthreads()", barrier,
               BARRIERS - 1);
    barrier_state &s = e.barriers[barrier];
    if (s.arrived && s.threads != threads)
        report("barrier of two sizes", site, "barrier %d: this arrival expects %d threads, but the others expect %d",
               barrier, threads, s.threads);
    s.threads = threads;
    s.arrived++;
    publish(e, me, s.collecting);
    hook_publish(SIGNALS + barrier);
    const unsigned generation = s.generation;
    if (recording) record_event({"arrive", barrier_name(barrier), generation, threads, site});
    if (s.arrived == threads) {
        s.arrived = 0;
        s.generation++;
        s.over = s.collecting;
        hook_turn(SIGNALS + barrier);
        memset(&s.collecting, 0, sizeof s.collecting);
    }
    if (!wait) return;
    wait_until(barrier_is_over, tell_barrier, &s, generation, site);
    if (recording) record_event({"wait", barrier_name(barrier), generation, 0, site});
    join(e, e.know[me.number], s.over);
    hook_learn(SIGNALS + barrier, site);
}

// ------------------------ registers
// A block has what its launch took: equal shares, rounded down to 8 a thread. What a warp gives up comes back to that
// pool; what one that has returned still held does not. Where several blocks share a multiprocessor a warp says so by
// its first change.

static bool pool_holds(const thread &, const void *, long more) { return engine_here().pool >= more * WARP; }

static void tell_pool(const thread &t, const void *, long more, char *text, size_t size)
{
    const engine &e = engine_here();
    snprintf(text, size,
             "for %ld more registers per thread (it has %d), but those that the block has left are only %d per thread "
             "of one warp; with %u threads, a launch can give each at most %d",
             more, e.registers[warp_number(t)], e.pool / WARP, current->thread_count,
             REGISTERS / static_cast<int>(current->thread_count) / 8 * 8);
}

struct registers_wanted {
    int registers;
    bool take;
    int blocks;
    call_site site;
};

static void change_for_warp(void **lanes, int)
{
    engine &e = engine_here();
    const registers_wanted &q = *static_cast<registers_wanted *>(lanes[0]);
    int &mine = e.registers[warp_number(*current->running)];
    const int threads = static_cast<int>(current->thread_count), alone = REGISTERS / threads / 8 * 8;
    if (q.blocks > 1 && mine == (alone > 255 ? 255 : alone)) mine = REGISTERS / q.blocks / threads / 8 * 8;
    if (q.registers < 24 || q.registers > 256 || q.registers % 8)
        report("bad number of registers", q.site, "%d registers: the number must be a multiple of 8 from 24 to 256",
               q.registers);
    if (q.take ? q.registers < mine : q.registers > mine)
        report("bad number of registers", q.site, "this warp already has %d registers per thread, and cannot %s %d",
               mine, q.take ? "increase them to" : "reduce them to", q.registers);
    if (q.take) wait_until(pool_holds, tell_pool, nullptr, q.registers - mine, q.site);
    e.pool -= (q.registers - mine) * WARP;
    mine = q.registers;
}

void registers_change(int registers, bool take, int blocks, call_site site)
{
    engine_thread("a change of registers", site);
    registers_wanted mine = {registers, take, blocks, site};
    warp_call(change_for_warp, &mine, site);
}
}
