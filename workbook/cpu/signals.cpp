// signals.cpp - what threads wait for beside products: mbarriers, named barriers, registers, their turn among blocks.
#include "engine.h"

#include <mutex>

namespace cudacpu
{
// ------------------------ mbarriers: arrivals, promised bytes, phases

// In the signal's own 8 bytes, with its number: shows that nobody overwrote it.
enum : uint64_t { MARK = 0x5167ull << 48 };

signal_state &find_signal(engine &e, const uint64_t *word, call_site site, const char *what)
{
    const thread &me = *current->running;
    const uint64_t number = *word ^ MARK;
    if (number >= e.signals.size() || e.signals[number].word != word)
        report("no signal", site, "%s uses %s, but this mbarrier was never initialized, or was overwritten", what,
               name_of(word));
    signal_state &s = e.signals[number];
    if (s.init_thread != me.number && e.know[me.number].at[s.init_thread / WARP] < s.init_clock)
        report_two("signal not ready", site, s.init_site, "init()",
                   "%s uses %s, but this thread has not synchronized with the thread that initialized the mbarrier: "
                   "__syncthreads() is missing",
                   what, name_of(word));
    return s;
}

static void turn_if_complete(signal_state &s, call_site site)
{
    if (!s.missing && s.come > s.promised)
        report("bytes not promised", site,
               "%ld bytes have arrived at %s, but only %ld were promised: on a GPU the phase can end when these have "
               "arrived, while the others are still in flight",
               s.come, name_of(s.word), s.promised);
    if (s.missing || s.promised != s.come) return;
    for (const copy_to_shared &c : engine_here().copies)
        if (!c.done && c.signal == (*s.word ^ MARK))
            report("bytes not promised", c.site,
                   "the %ld promised bytes have arrived at %s, but this copy is still in flight: the phase ends "
                   "without it",
                   s.come, name_of(s.word));
    s.phase++;
    s.missing = s.count;
    s.promised = s.come = 0;
    s.over = s.collecting;
    s.over.at[WARPS + (*s.word ^ MARK)] = s.phase;
    memset(&s.collecting, 0, sizeof s.collecting);
    hook_turn(*s.word ^ MARK);
}

void bytes_came(signal_state &s, long bytes, call_site site)
{
    s.come += bytes;
    turn_if_complete(s, site);
}

void signal_init(uint64_t *word, int arrivals, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("signal::init()", site);
    if (e.signals.size() == SIGNALS) report("too many signals", site, "a block may have at most %d mbarriers", SIGNALS);
    if (arrivals < 1) report("bad signal", site, "init(%d): a phase must expect at least 1 arrival", arrivals);
    *word = MARK | e.signals.size();
    signal_state s = {};
    s.word = word;
    s.count = s.missing = arrivals;
    s.init_thread = me.number;
    s.init_clock = e.clock[me.number / WARP];
    s.init_site = site;
    e.signals.push_back(s);
}

void signals_ready(call_site site)
{
    const thread &me = engine_thread("signals_ready()", site);
    for (signal_state &s : engine_here().signals) s.ready |= s.init_thread == me.number;
}

void signal_arrive(uint64_t *word, long bytes, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("signal::arrive()", site);
    signal_state &s = find_signal(e, word, site, "an arrival");
    if (!s.missing)
        report_two("too many arrivals", site, s.init_site, "init()",
                   "one arrival too many: %s expects %d per phase, and bytes of this phase are still in flight",
                   name_of(word), s.count);
    if (recording) record_event({"arrive", name_of(word), s.phase, bytes, site});
    s.arrival = site;
    s.missing--;
    s.promised += bytes;
    publish(e, me, s.collecting);
    hook_publish(*word ^ MARK);
    turn_if_complete(s, site);
}

bool signal_is_over(const thread &, const void *word, long phase)
{
    const uint64_t number = *static_cast<const uint64_t *>(word) ^ MARK;
    const engine &e = engine_here();
    return number < e.signals.size() && (e.signals[number].phase & 1) != unsigned(phase);
}

static void tell(const thread &t, const void *word, long phase, char *text, size_t size)
{
    const uint64_t number = *static_cast<const uint64_t *>(word) ^ MARK;
    const engine &e = engine_here();
    const signal_state &s = e.signals[number];
    const bool all = s.phase && e.know[t.number].at[WARPS + number] == s.phase;
    int n = snprintf(text, size, "for phase %ld of %s (completed phases: %u%s): ", phase, name_of(word), s.phase,
                     all ? "; it has seen them all, and waits for one more" : "");
    if (s.missing) n += snprintf(text + n, size - n, "%d of %d arrivals are missing", s.missing, s.count);
    if (s.promised != s.come)
        n += snprintf(text + n, size - n, "%s%ld of %ld promised bytes have arrived", s.missing ? "; " : "", s.come,
                      s.promised);
    const signal_state *const full = at_other_end(e, s, "empty", "full");  // what never was filled is never given back
    if (!full || s.phase) return;
    const std::string name = name_of(word), ring = name.substr(0, name.find("empty[") + 6);
    bool begun = false;  // the first wait for a tile of this ring was right
    for (const signal_state &x : e.signals)
        begun |= x.before && ring == std::string(name_of(x.word)).substr(0, ring.size());
    if (!full->phase && full->missing == full->count)
        snprintf(text + n, size - n, ". Nothing was sent there: %s",
                 begun ? "the phase must change once per round, when the first tile's turn comes again"
                       : "the first wait must be for the phase before the first");
}

void signal_wait(const uint64_t *word, unsigned phase, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("signal::wait()", site);
    signal_state &waited = find_signal(e, word, site, "a wait");
    waited.before |= phase & 1 && !waited.phase, waited.wait = site, waited.waited = phase & 1;
    wait_until(signal_is_over, tell, word, phase & 1, site);
    const signal_state &s = find_signal(e, word, site, "a wait");
    if (recording) record_event({"wait", name_of(word), s.phase - 1l, 0, site});
    join(e, e.know[me.number], s.over);
    hook_learn(*word ^ MARK, site);
}

// ------------------------ named barriers

static bool barrier_is_over(const thread &, const void *barrier, long generation)
{
    return static_cast<const barrier_state *>(barrier)->generation != unsigned(generation);
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
// pool; what one that has returned still held does not. A warp's first change says how many blocks share an SM.

static bool pool_holds(const thread &, const void *, long more) { return engine_here().pool >= more * WARP; }

static void tell_pool(const thread &t, const void *, long more, char *text, size_t size)
{
    const engine &e = engine_here();
    snprintf(text, size,
             "for %ld more registers per thread (it has %d), but those that the block has left are only %d per thread "
             "of one warp; with %u threads, a launch can give each at most %d",
             more, e.registers[warp_number(t)], e.pool / WARP, current->thread_count,
             REGISTERS / int(current->thread_count) / 8 * 8);
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
    const int threads = current->thread_count, alone = REGISTERS / threads / 8 * 8;
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

// ------------------------ turns of blocks, by a counter in device memory
// A block in which nobody can go on, and one waits for another block, sleeps until that one has gone on. If all who run
// blocks of this launch sleep so, and the turn of none has come, none ever will.

static std::mutex mutex;
static int runners;  // host threads that run blocks of this launch, or are about to
static std::vector<block *> asleep;

void runners_under_way(int more)
{
    const std::lock_guard<std::mutex> lock(mutex);
    runners += more;
}

static unsigned read(const void *counter)
{
    return __atomic_load_n(static_cast<const unsigned *>(counter), __ATOMIC_ACQUIRE);
}

static bool turn_has_come(const thread &, const void *counter, long turn) { return read(counter) == unsigned(turn); }

static void tell_turn(const thread &, const void *counter, long turn, char *text, size_t size)
{
    snprintf(text, size, "for a counter in device memory to become %ld, but it is %u", turn, read(counter));
}

void await(const unsigned *counter, unsigned turn, call_site site)
{
    engine_thread("await()", site);
    wait_until(turn_has_come, tell_turn, counter, turn, site);
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
    std::unique_lock<std::mutex> lock(mutex);
    asleep.push_back(&b);
    const auto may_go_on = [](block *one) { return any_turn(*one, true); };
    while (!may_go_on(&b) &&
           (asleep.size() < size_t(runners) || std::any_of(asleep.begin(), asleep.end(), may_go_on))) {
        lock.unlock();
        usleep(NAP);
        lock.lock();
    }
    asleep.erase(std::find(asleep.begin(), asleep.end(), &b));
    return may_go_on(&b);
}
}
