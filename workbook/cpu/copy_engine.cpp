// copy_engine.cpp - boxes of tensors into shared memory, and tiles out of it.
#include "engine.h"
#include "report.h"

namespace cudacpu
{
bool tensor_describe(tensor_box &map, const void *tensor, int heads, int N, int D, int rows)
{
    if (reinterpret_cast<uintptr_t>(tensor) % 16 || heads < 1 || N < 1 || D < 64 || D % 64 || rows < 1 || rows > 256)
        return false;
    map = {static_cast<const char *>(tensor), heads, N, D, rows};
    return true;
}

static tile_rows whole(const void *tile, const tensor_box &m) { return {tile, m.D / 64, m.rows * 128, 0, m.rows}; }
static int box_bytes(const tensor_box &m) { return m.rows * m.D * 2; }

// f(place in shared memory, place in global memory or null) for each piece of 16 bytes. Beyond the ends of the tensor there is nothing.
template <class F> static void each_piece(const void *tile, const tensor_box &m, int row, int head, F f)
{
    const char *line = static_cast<const char *>(tile);
    for (int panel = 0; panel < m.D / 64; panel++)
        for (int r = 0; r < m.rows; r++, line += 128) {
            const bool inside = row + r >= 0 && row + r < m.N && head >= 0 && head < m.heads;
            const long at = (static_cast<long>(head) * m.N + row + r) * m.D * 2 + panel * 128;
            for (int piece = 0; piece < 8; piece++)
                f(line + (piece ^ r % 8) * 16, inside ? m.base + at + piece * 16 : nullptr);
        }
}

static void check_tile(const void *tile, int bytes, const tensor_box &m, call_site site)
{
    if (reinterpret_cast<uintptr_t>(tile) % 1024)
        report("misaligned tile", site, "%s must lie at a multiple of 1024 bytes", name_of(tile));
    if (bytes != box_bytes(m))
        report("box of another size", site, "%s has %d bytes, a box of this tensor map %d x %d x 2 = %d", name_of(tile),
               bytes, m.rows, m.D, box_bytes(m));
}

void copy_in(void *tile, int bytes, const tensor_box &map, int row, int head, uint64_t *arrived, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("load_async()", site);
    check_tile(tile, bytes, map, site);
    signal_state &s = find_signal(e, arrived, site, "a load");
    if (!s.ready)
        report_two("signal not ready", site, s.init_site, "init()",
                   "the copy engine does not see %s: signals_ready() is missing after init()", name_of(arrived));
    const tile_rows to = whole(tile, map);
    check_readers(e, to, me, site, "the copy engine");
    check_arrival(e, to, me, site, "the copy engine overwrites");
    check_fences(e, to, me, site, "the copy engine overwrites");
    for (size_t i = e.copies.size(); i-- > 0;)
        if (overlap(e.copies[i].to, to)) e.copies.erase(e.copies.begin() + static_cast<long>(i));
    for (size_t i = e.writings.size(); i-- > 0;)
        if (overlap(e.writings[i].what, to)) e.writings.erase(e.writings.begin() + static_cast<long>(i));
    e.copies.push_back({to, map, row, head, static_cast<size_t>(&s - e.signals.data()), false, 0, site});
    memset(tile, 0xff, static_cast<size_t>(bytes));
}

// The oldest that somebody waits for; in the backward order of threads (../asks.h) the newest.
bool copy_one(engine &e, bool (*waited_for)(size_t))
{
    for (size_t n = 0; n < e.copies.size(); n++) {
        copy_to_shared &c = e.copies[order == 1 ? e.copies.size() - 1 - n : n];
        if (c.done || !waited_for(c.signal)) continue;
        each_piece(c.to.at, c.map, c.row, c.head, [](const char *to, const char *from) {
            if (from)
                memcpy(const_cast<char *>(to), from, 16);
            else
                memset(const_cast<char *>(to), 0, 16);
        });
        signal_state &s = e.signals[c.signal];
        c.done = true;
        c.phase = s.phase;
        bytes_came(s, box_bytes(c.map), c.site);
        return true;
    }
    return false;
}

void copy_out(const void *tile, int bytes, const tensor_box &map, int row, int head, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("store_async()", site);
    check_tile(tile, bytes, map, site);
    const tile_rows from = whole(tile, map);
    check_arrival(e, from, me, site, "the copy engine is told to send");
    check_fences(e, from, me, site, "the copy engine is told to send");
    for (size_t i = e.stores.size(); i-- > 0;)
        if (e.stores[i].done && overlap(e.stores[i].from, from))
            e.stores.erase(e.stores.begin() + static_cast<long>(i));
    e.stores.push_back({from, map, row, head, me.number, false, 0, site});
}

// As late as may be: what is sent is read when its thread waits for that.
void stores_read(call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread("stores_read()", site);
    for (copy_from_shared &c : e.stores) {
        if (c.thread != me.number || c.done) continue;
        each_piece(c.from.at, c.map, c.row, c.head, [](const char *from, const char *to) {
            if (to) memcpy(const_cast<char *>(to), from, 16);
        });
        c.done = true;
        c.clock = e.clock[warp_number(me)];
    }
}
}
