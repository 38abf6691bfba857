// stuck.cpp - what is wrong when threads wait for each other and nobody comes.
#include "engine.h"

namespace cudacpu
{
enum whereabouts { RETURNED, PARKED, BARRIER_WAIT, WARP_WAIT };

// Whose patience says why t does not go on: it may be that of the lane that does the work for its warp.
static const thread &speaker(const block &b, const thread &t)
{
    const warp &w = b.warps[t.number / WARP];
    const unsigned inside = w.parked & w.waiting;
    return inside && w.waiting & lane_bit(t) ? w.threads[__builtin_ctz(inside)] : t;
}

static whereabouts where_is(block &b, const thread &any)
{
    const thread &t = speaker(b, any);
    const warp &w = warp_of(b, t);
    if (w.exited & lane_bit(t)) return RETURNED;
    if (w.parked & lane_bit(t)) return PARKED;
    return w.at_barrier & lane_bit(t) ? BARRIER_WAIT : WARP_WAIT;
}

static bool same_site(call_site x, call_site y)
{
    return x.line == y.line && (x.file == y.file || strcmp(x.file, y.file) == 0);
}

static bool wait_alike(block &b, const thread &any_x, const thread &any_y)
{
    const thread &x = speaker(b, any_x), &y = speaker(b, any_y);
    const whereabouts where = where_is(b, x);
    if (where != where_is(b, y)) return false;
    if (where == RETURNED) return true;
    if (!same_site(x.site, y.site)) return false;
    if (where == PARKED) return x.patience.what == y.patience.what && x.patience.number == y.patience.number;
    return where == BARRIER_WAIT || x.request.mask == y.request.mask;
}

// Threads that wait alike: "threads 0-31, 64-95", the first few runs of them; how many, and the last.
struct waiting {
    std::string who;
    unsigned count, last;
};

// Those that wait as `first` does. Notes them in `told`.
static waiting all_alike(block &b, unsigned first, std::vector<bool> &told)
{
    waiting all = {"", 0, first};
    unsigned runs = 0;
    const auto alike = [&](unsigned n) {
        return n < b.thread_count && !told[n] && wait_alike(b, b.threads[first], b.threads[n]);
    };
    for (unsigned n = first; n < b.thread_count; n++) {
        if (!alike(n)) continue;
        const unsigned from = n;
        while (alike(n + 1)) n++;
        for (unsigned i = from; i <= n; i++) told[i] = true;
        all.count += n - from + 1;
        all.last = n;
        if (++runs > 7) continue;
        all.who += runs > 1 ? ", " : "";
        all.who += runs == 7 ? "..." : std::to_string(from) + (n > from ? "-" + std::to_string(n) : "");
    }
    all.who = (all.count == 1 ? "thread " : "threads ") + all.who;
    return all;
}

// A line for all threads that wait alike, the first few.
static void list_threads(block &b)
{
    enum { LINES = 8 };
    std::vector<bool> told(b.thread_count);
    unsigned first = 0;
    for (int line = 0; first < b.thread_count; first++) {
        if (told[first]) continue;
        if (line++ == LINES) break;
        const thread &t = b.threads[first];
        const waiting all = all_alike(b, first, told);
        const char *const who = all.who.c_str();
        switch (where_is(b, t)) {
        case RETURNED: report_line("%s: returned from the kernel", who); break;
        case PARKED: {
            const thread &speaks = speaker(b, t);
            char what[400] = "";
            speaks.patience.tell(speaks, speaks.patience.what, speaks.patience.number, what, sizeof what);
            report_line("%s wait%s %s", who, all.count == 1 ? "s" : "", what);
            report_place(hook_place(speaks.site, &speaks));
            break;
        }
        case BARRIER_WAIT: report_line("%s: at __syncthreads()", who), report_place(hook_place(t.site, &t)); break;
        case WARP_WAIT:
            char lanes[128];
            lane_list(t.request.mask, lanes, sizeof lanes);
            report_line("%s: at %s, for lanes %s of %s", who, operation_name(t.request.operation), lanes,
                        all.last / WARP != first / WARP ? "their warps"
                                                        : ("warp " + std::to_string(first / WARP)).c_str());
            report_place(hook_place(t.site, &t));
            break;
        }
    }
    if (first < b.thread_count) report_line("... and others");
}

// A tile is given back once for each time that it was filled, and perhaps once before.
static void name_excess()
{
    const engine &e = engine_here();
    for (const signal_state &s : e.signals) {
        const signal_state *const full = at_other_end(e, s, "empty", "full");
        if (!full || s.phase <= full->phase + 1) continue;
        report_line("more arrivals than expected: %s counts %d a phase, and has completed %u phases, but %s only %u",
                    name_of(s.word), s.count, s.phase, name_of(full->word), full->phase);
        report_place(hook_place(s.arrival, nullptr));
        return;
    }
}

// It is about the block, not about the thread that happened to be last.
[[noreturn]] static void report_threads(block &b, const char *kind, const char *advice)
{
    b.running = nullptr;
    report_begin(kind);
    name_excess();
    list_threads(b);
    report_line("%s", advice);
    report_end();
}

void report_deadlock(block &b)
{
    for (unsigned i = 0; i < b.warp_count; i++)
        if (b.warps[i].parked)
            report_threads(b, "deadlock", "No thread can continue, and no copy that a thread waits for is in flight.");
    report_threads(b, "deadlock",
                   "No thread can continue. Every thread of a block must reach the same barrier, and every lane of a "
                   "mask the same operation.");
}

void check_barrier(block &b)
{
    const thread *first = nullptr;
    bool same = true;
    for (unsigned i = 0; i < b.thread_count; i++) {
        const thread &t = b.threads[i];
        if (where_is(b, t) != BARRIER_WAIT) continue;
        if (!first) first = &t;
        same &= same_site(t.site, first->site);
    }
    if (!same) report_threads(b, "divergent barriers", "Every thread of a block must reach the same __syncthreads().");
    if (b.exited && !environment("CUDACPU_EARLY_EXIT", 0))
        report_threads(b, "barrier that some threads never reach",
                       "Every thread must reach a barrier equally often: a loop with a barrier needs the same bounds "
                       "for the whole\n   block, not bounds that depend on the warp or the row. Put conditions around "
                       "loads and stores instead of returning early.");
}
}
