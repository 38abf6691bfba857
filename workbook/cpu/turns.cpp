// turns.cpp - blocks that take turns, by a counter in device memory. A block in which nobody can go on, and one waits
// for another block, sleeps until that one has gone on; if all blocks under way sleep, none ever will.
#include "engine.h"
#include "report.h"

#include <atomic>
#include <unistd.h>

namespace cudacpu
{
static std::atomic<int> under_way, asleep;  // blocks of this launch

void blocks_under_way(int more) { under_way += more; }

static unsigned read(const void *counter)
{
    return __atomic_load_n(static_cast<const unsigned *>(counter), __ATOMIC_ACQUIRE);
}

static bool turn_has_come(const thread &, const void *counter, long turn)
{
    return read(counter) == static_cast<unsigned>(turn);
}

static void tell(const thread &, const void *counter, long turn, char *text, size_t size)
{
    snprintf(text, size, "for a counter in device memory to become %ld; it is %u", turn, read(counter));
}

void await(const unsigned *counter, unsigned turn, call_site site)
{
    engine_thread("await()", site);
    wait_until(turn_has_come, tell, counter, turn, site);
}

bool is_turn(const unsigned *counter, unsigned turn, call_site site)
{
    return turn_has_come(engine_thread("is_turn()", site), counter, turn);
}

void announce(unsigned *counter, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("announce()", site);
    for (const copy_from_shared &c : e.stores)
        if (c.thread == me.number && !c.written)
            report_two("announced too early", site, c.site, "it was sent",
                       "what this thread has sent may not have been written yet: stores_done() is missing");
    __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
}

void copy_past_cache(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

// Whether a thread waits for its turn; `come`: and has it.
static bool any_turn(block &b, bool come)
{
    for (unsigned i = 0; i < b.warp_count; i++)
        for (unsigned left = b.warps[i].parked; left; left &= left - 1) {
            const thread &t = b.warps[i].threads[__builtin_ctz(left)];
            if (t.patience.over != turn_has_come) continue;
            if (!come || turn_has_come(t, t.patience.what, t.patience.number)) return true;
        }
    return false;
}

bool another_block_may_help(block &b)
{
    if (!any_turn(b, false)) return false;
    enum {
        NAP = 100,
        NAPS = 1000
    };  // microseconds; naps of all blocks at once, after which nobody can be about to wake up
    asleep++;
    int all = 0;
    while (!any_turn(b, true) && all < NAPS) {
        usleep(NAP);
        all = asleep == under_way ? all + 1 : 0;
    }
    asleep--;
    return any_turn(b, true);
}
}
