// turns.cpp - blocks that take turns, by a counter in device memory. A block in which nobody can go on, and one waits
// for another block, sleeps until that one has gone on. If all who run blocks of this launch sleep so, and the turn of
// none has come, none ever will.
#include "engine.h"

#include <pthread.h>

namespace cudacpu
{
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int runners;  // host threads that run blocks of this launch, or are about to
static std::vector<block *> asleep;

void runners_under_way(int more)
{
    pthread_mutex_lock(&mutex);
    runners += more;
    pthread_mutex_unlock(&mutex);
}

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
    snprintf(text, size, "for a counter in device memory to become %ld, but it is %u", turn, read(counter));
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
                       "the data that this thread has sent may not have been written yet: stores_done() is missing");
    __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
}

void copy_past_cache(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

// Whether a thread waits for its turn; `come`: and has it.
static bool any_turn(block &b, bool come)
{
    return any_parked(b, false, [&](thread &t) {
        return t.patience.over == turn_has_come && (!come || turn_has_come(t, t.patience.what, t.patience.number));
    });
}

bool another_block_may_help(block &b)
{
    enum { NAP = 100 };  // microseconds
    if (!any_turn(b, false)) return false;
    pthread_mutex_lock(&mutex);
    asleep.push_back(&b);
    const auto may_go_on = [](block *one) { return any_turn(*one, true); };
    while (!may_go_on(&b) &&
           (asleep.size() < static_cast<size_t>(runners) || std::any_of(asleep.begin(), asleep.end(), may_go_on))) {
        pthread_mutex_unlock(&mutex);
        usleep(NAP);
        pthread_mutex_lock(&mutex);
    }
    asleep.erase(std::find(asleep.begin(), asleep.end(), &b));
    pthread_mutex_unlock(&mutex);
    return may_go_on(&b);
}
}
