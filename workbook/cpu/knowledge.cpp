// knowledge.cpp - who can know what, and so who may overwrite, use or send a tile.
#include "engine.h"

namespace cudacpu
{
// Only the warps and signals that there are: the rest is 0.
void join(const engine &e, clocks &mine, const clocks &other)
{
    raise(mine.at, other.at, e.warps);
    raise(mine.at + WARPS, other.at + WARPS, e.signals.size());
}

void forget(const engine &e, clocks &all)
{
    memset(all.at, 0, sizeof(unsigned) * size_t(e.warps));
    memset(all.at + WARPS, 0, sizeof(unsigned) * e.signals.size());
}

void publish(engine &e, const thread &t, clocks &into)
{
    const int w = warp_number(t);
    join(e, into, e.know[t.number]);
    if (e.clock[w] > into.at[w]) into.at[w] = e.clock[w];
    e.clock[w]++;  // what the warp does from now on is not in it
}

bool overlap(const tile_rows &x, const tile_rows &y)
{
    const auto first = [](const tile_rows &r) { return chars(r.at) + r.row0 * r.line; };
    const auto end = [&](const tile_rows &r) { return first(r) + (r.panels - 1) * r.panel_bytes + r.rows * r.line; };
    if (first(x) >= end(y) || first(y) >= end(x)) return false;
    for (int i = 0; i < x.panels; i++)
        for (int j = 0; j < y.panels; j++) {
            const char *a = first(x) + i * x.panel_bytes, *b = first(y) + j * y.panel_bytes;
            if (a < b + y.rows * y.line && b < a + x.rows * x.line) return true;
        }
    return false;
}

tile_rows quarter(tile_rows r, int warp)
{
    r.rows /= GROUP_WARPS;
    r.row0 += r.rows * (warp % GROUP_WARPS);
    return r;
}

static bool knows(const engine &e, const thread &t, int warp, unsigned clock)
{
    return warp == warp_number(t) || e.know[t.number].at[warp] >= clock;
}

void check_readers(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who)
{
    for (const reading &r : e.readings)
        for (int i = 0; i < GROUP_WARPS && overlap(r.what, what); i++) {
            if (r.quarters && !overlap(quarter(r.what, i), what)) continue;
            const int warp = r.group * GROUP_WARPS + i;
            if (r.done[i] && knows(e, t, warp, r.done[i])) continue;
            char was[64];
            snprintf(was, sizeof was, "the product of warp %d was issued", warp);
            report_two("tile overwritten too early", site, r.site, was,
                       "%s overwrites %s while a product may still read it: %s", who, name_of(what.at),
                       r.done[i] ? "this thread has not waited for the product, directly or indirectly"
                                 : "no thread has waited for the product");
        }
    for (const copy_from_shared &c : e.stores) {
        if (!overlap(c.from, what)) continue;
        if (c.done && (c.thread == t.number || e.know[t.number].at[c.thread / WARP] >= c.clock)) continue;
        report_two("tile overwritten too early", site, c.site, "it was sent",
                   "%s overwrites %s while the copy engine may still read it: %s", who, name_of(what.at),
                   c.done                 ? "after the sender's stores_read(), a barrier or mbarrier is missing"
                   : c.thread == t.number ? "stores_read() is missing"
                                          : "the sender's stores_read(), or a barrier after it, is missing");
    }
}

const signal_state *at_other_end(const engine &e, const signal_state &one, const char *end, const char *other)
{
    std::string name = name_of(one.word);
    const size_t at = name.find(std::string(end) + "[");
    if (at != std::string::npos) name.replace(at, strlen(end), other);
    for (const signal_state &s : e.signals)
        if (&s != &one && name == name_of(s.word)) return &s;
    return nullptr;
}

// What the place is that a copy into a tile is told with: of the latest wait for it, or, without one, of the copy.
const char *last_wait(const signal_state &s)
{
    static char text[80];
    snprintf(text, sizeof text, "the latest wait for that mbarrier was for phase %u", s.waited);
    return s.wait.file ? text : "the copy engine was told to fill it";
}

void check_arrival(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who, int threads)
{
    for (const copy_to_shared &c : e.copies) {
        if (!overlap(c.to, what)) continue;
        const signal_state &s = e.signals[c.signal];
        for (unsigned n = t.number; n < t.number + unsigned(threads); n++) {
            const unsigned known = e.know[n].at[WARPS + c.signal], phase = c.done ? c.phase : s.phase;
            if (c.done && known > phase) continue;
            const signal_state *const empty = phase && known == phase ? at_other_end(e, s, "full", "empty") : nullptr;
            if (empty)
                report_two(
                    "tile used before it arrived", site, empty->arrival, "an arrival let it begin",
                    "%s %s, but thread %u has only waited for an earlier copy into it, not for the latest (phase "
                    "%u of %s): was it released too early, or is a wait missing?",
                    who, name_of(what.at), n, phase & 1, name_of(s.word));
            report_two("tile used before it arrived", site, s.wait.file ? s.wait : c.site, last_wait(s),
                       "%s %s, but thread %u has not waited for the copy that fills it: phase %u of %s", who,
                       name_of(what.at), n, phase & 1, name_of(s.word));
        }
    }
}

void check_fences(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who)
{
    for (const writing &x : e.writings) {
        if (!overlap(x.what, what)) continue;
        if (!x.unfenced && knows(e, t, x.warp, x.clock)) continue;
        report_two("written tile not visible", site, x.site, "it was written", "%s %s, which warp %d wrote%s", who,
                   name_of(what.at), x.warp,
                   x.unfenced ? " without a later fence for the copy engine and the tensor cores"
                              : ", but the two warps have not synchronized since");
    }
}

// ------------------------ plain stores

void tile_written(const tile_rows &rows, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("store()", site);
    check_readers(e, rows, me, site, "store()");
    check_arrival(e, rows, me, site, "store() overwrites");
    for (writing &x : e.writings)
        if (x.warp == warp_number(me) && x.what.at == rows.at && x.what.row0 == rows.row0) {
            x.unfenced |= lane_bit(me);
            x.site = site;
            return;
        }
    e.writings.push_back({rows, warp_number(me), lane_bit(me), 0, site});
}

void plain_access(const char *at, bool store, call_site site)
{
    engine &e = engine_here();
    const thread &me = *current->running;
    const tile_rows line = {at - address_of(at) % 128, 1, 128, 0, 1};
    check_arrival(e, line, me, site, store ? "this store overwrites" : "this load reads");
    if (!store) return;
    check_readers(e, line, me, site, "this store");
    writing *mine = nullptr;
    for (writing &x : e.writings) {
        if (x.warp != warp_number(me) || !overlap(x.what, line)) continue;
        if (x.unfenced & lane_bit(me)) return;  // store() has said so, for all of its rows
        if (x.what.at == line.at) mine = &x;
    }
    if (mine)
        mine->unfenced |= lane_bit(me);
    else
        e.writings.push_back({line, warp_number(me), lane_bit(me), 0, {}});
}

void writes_visible(call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("a fence", site);
    for (writing &x : e.writings)
        if (x.warp == warp_number(me) && x.unfenced & lane_bit(me)) {  // only what it newly covers
            x.unfenced &= ~lane_bit(me);
            x.clock = e.clock[x.warp];
        }
}

struct blocks_of_lane {
    char *at;
    const uint32_t *x;
};

// Lane 4 g + t has of each block columns 2 t, 2 t + 1 of row g; lane 8 i + r says where column r of block i goes.
static void store_for_warp(void **lanes, int)
{
    const auto lane = [&](int n) { return static_cast<const blocks_of_lane *>(lanes[n]); };
    for (int to = 0; to < WARP; to++)
        for (int j = 0; j < 8; j++) {
            const int col = to % 8;
            const uint32_t pair = lane(4 * j + col / 2)->x[to / 8];
            const uint16_t x = (col % 2 ? pair >> 16 : pair);
            memcpy(lane(to)->at + 2 * j, &x, 2);
        }
}

void store_8x8s(const tile_rows &rows, void *at, const uint32_t *x, call_site site)
{
    tile_written(rows, site);
    blocks_of_lane mine = {static_cast<char *>(at), x};
    warp_call(store_for_warp, &mine, site);
}
}
