// knowledge.cpp - who can know what, and so who may overwrite, use or send a tile.
#include "engine.h"
#include "report.h"

namespace cudacpu
{
void publish(engine &e, const thread &t, clocks &into)
{
    const int w = warp_number(t);
    into.join(e.know[t.number]);
    if (e.clock[w] > into.at[w]) into.at[w] = e.clock[w];
    e.clock[w]++;  // what the warp does from now on is not in it
}

bool overlap(const tile_rows &x, const tile_rows &y)
{
    for (int i = 0; i < x.panels; i++)
        for (int j = 0; j < y.panels; j++) {
            const char *a = static_cast<const char *>(x.at) + i * x.panel_bytes + x.row0 * 128;
            const char *b = static_cast<const char *>(y.at) + j * y.panel_bytes + y.row0 * 128;
            if (a < b + y.rows * 128 && b < a + x.rows * 128) return true;
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
        for (int i = 0; i < GROUP_WARPS; i++) {
            if (!overlap(r.quarters ? quarter(r.what, i) : r.what, what)) continue;
            const int warp = r.group * GROUP_WARPS + i;
            if (r.done[i] && knows(e, t, warp, r.done[i])) continue;
            char was[64];
            snprintf(was, sizeof was, "the product of warp %d was issued", warp);
            report_two("tile overwritten too early", site, r.site, was,
                       "%s overwrites %s while a product may still read it: %s", who, name_of(what.at),
                       r.done[i] ? "its end was never announced to this thread" : "nobody has waited for its end");
        }
    for (const copy_from_shared &c : e.stores) {
        if (!overlap(c.from, what)) continue;
        if (c.done && (c.thread == t.number || e.know[t.number].at[c.thread / WARP] >= c.clock)) continue;
        report_two("tile overwritten too early", site, c.site, "it was sent",
                   "%s overwrites %s while the copy engine may still read it: %s", who, name_of(what.at),
                   c.done ? "the thread that sent it has told nobody that it was read" : "stores_read() is missing");
    }
}

void check_arrival(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who)
{
    for (const copy_to_shared &c : e.copies) {
        if (!overlap(c.to, what)) continue;
        const signal_state &s = e.signals[c.signal];
        if (c.done && e.know[t.number].at[WARPS + c.signal] > c.phase) continue;
        report_two("tile used before it arrived", site, c.site, "the copy engine was told to fill it",
                   "%s %s, but thread %u has not waited for it: phase %u of %s", who, name_of(what.at), t.number,
                   (c.done ? c.phase : s.phase) & 1, name_of(s.word));
    }
}

void check_fences(engine &e, const tile_rows &what, const thread &t, call_site site, const char *who)
{
    for (const writing &x : e.writings) {
        if (!overlap(x.what, what)) continue;
        if (!x.unfenced && knows(e, t, x.warp, x.clock)) continue;
        report_two("written tile not visible", site, x.site, "it was written", "%s %s, which warp %d wrote %s", who,
                   name_of(what.at), x.warp,
                   x.unfenced ? "without a fence for the copy engine and the tensor cores after it"
                              : "and has not met this warp since");
    }
}

// ---------------------------------------------------------------------------------------------------------- plain stores

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
}
