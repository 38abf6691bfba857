// signals.cpp - mbarriers: arrivals, promised bytes, phases.
#include "engine.h"

namespace cudacpu
{
enum : uint64_t {
    MARK = 0x5167ull << 48
};  // in the signal's own 8 bytes, with its number: shows that nobody overwrote it

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
    hook_turn(static_cast<int>(*s.word ^ MARK));
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
    hook_publish(static_cast<int>(*word ^ MARK));
    turn_if_complete(s, site);
}

bool signal_is_over(const thread &, const void *word, long phase)
{
    const uint64_t number = *static_cast<const uint64_t *>(word) ^ MARK;
    const engine &e = engine_here();
    return number < e.signals.size() && (e.signals[number].phase & 1) != static_cast<unsigned>(phase);
}

static void tell(const thread &t, const void *word, long phase, char *text, size_t size)
{
    const uint64_t number = *static_cast<const uint64_t *>(word) ^ MARK;
    const engine &e = engine_here();
    const signal_state &s = e.signals[number];
    const bool all = s.phase && e.know[t.number].at[WARPS + number] == s.phase;
    int n = snprintf(text, size, "for phase %ld of %s (completed phases: %u%s): ", phase, name_of(word), s.phase,
                     all ? "; it has seen them all, and waits for one more" : "");
    if (s.missing)
        n += snprintf(text + n, size - static_cast<size_t>(n), "%d of %d arrivals are missing", s.missing, s.count);
    if (s.promised != s.come)
        n += snprintf(text + n, size - static_cast<size_t>(n), "%s%ld of %ld promised bytes have arrived",
                      s.missing ? "; " : "", s.come, s.promised);
    const signal_state *const full = at_other_end(e, s, "empty", "full");  // what never was filled is never given back
    if (!full || s.phase) return;
    const std::string name = name_of(word), ring = name.substr(0, name.find("empty[") + 6);
    bool begun = false;  // the first wait for a tile of this ring was right
    for (const signal_state &x : e.signals)
        begun |= x.before && ring == std::string(name_of(x.word)).substr(0, ring.size());
    if (!full->phase && full->missing == full->count)
        snprintf(text + n, size - static_cast<size_t>(n), ". Nothing was sent there: %s",
                 begun ? "the phase must change once per round, when the first tile's turn comes again"
                       : "the first wait must be for the phase before the first");
}

void signal_wait(const uint64_t *word, unsigned phase, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("signal::wait()", site);
    signal_state &waited = find_signal(e, word, site, "a wait");
    waited.before |= phase & 1 && !waited.phase;
    wait_until(signal_is_over, tell, word, phase & 1, site);
    const signal_state &s = find_signal(e, word, site, "a wait");
    if (recording) record_event({"wait", name_of(word), s.phase - 1l, 0, site});
    join(e, e.know[me.number], s.over);
    hook_learn(static_cast<int>(*word ^ MARK), site);
}
}
