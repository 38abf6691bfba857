// copy_engine.cpp - boxes of tensors into shared memory, and tiles out of it; and bytes that are not in tiles.
#include "engine.h"

#include <mutex>

namespace cudacpu
{
bool tensor_describe(tensor_box &map, const tensor_box &m)
{
    const int row_bytes = m.D * m.bytes;
    if (address_of(m.base) % 16 || m.heads < 1 || m.N < 1 || m.rows < 1 || m.rows > 256) return false;
    if (row_bytes < m.line || row_bytes % m.line) return false;
    if (m.box_heads < 1 || m.box_heads > 256 || (m.box_heads > 1 && row_bytes > m.line))
        return false;  // panels would stand inside of heads
    map = m;
    return true;
}

static int box_rows(const tensor_box &m) { return m.rows * m.box_heads; }  // as rows of a tile
static tile_rows whole(const void *tile, const tensor_box &m)
{
    return {tile, m.D * m.bytes / m.line, box_rows(m) * m.line, 0, box_rows(m), m.line};
}
static int box_bytes(const tensor_box &m) { return box_rows(m) * m.D * m.bytes; }
static tile_rows lines(const void *at, int bytes) { return {at, 1, bytes, 0, bytes / 128}; }

// f(place in shared memory, place in global memory or, beyond the tensor, null) for each piece of 16 bytes.
template <class F> static void each_piece(const void *tile, const tensor_box &m, int row, int head, F f)
{
    const char *line = chars(tile);
    const int row_bytes = m.D * m.bytes, pieces = m.line / 16;
    for (int panel = 0; panel < row_bytes / m.line; panel++)
        for (int r = 0; r < box_rows(m); r++, line += m.line) {
            const int i = row + r % m.rows, h = head + r / m.rows;
            const bool inside = i >= 0 && i < m.N && h >= 0 && h < m.heads;
            const long at = (long(h) * m.N + i) * row_bytes + panel * m.line;
            const int exchanged = r * m.line / 128 % pieces;
            for (int piece = 0; piece < pieces; piece++)
                f(line + (piece ^ exchanged) * 16, inside ? m.base + at + piece * 16 : nullptr);
        }
}

static void check_tile(const void *tile, int bytes, const tensor_box &m, call_site site)
{
    if (address_of(tile) % 1024)
        report("misaligned tile", site, "the address of %s must be a multiple of 1024", name_of(tile));
    if (bytes != box_bytes(m))
        report("box of another size", site, "%s has %d bytes, but a box of this tensor map has %d x %d x %d = %d bytes",
               name_of(tile), bytes, box_rows(m), m.D, m.bytes, box_bytes(m));
}

static void begin_copy(const copy_to_shared &c, const thread &me)
{
    engine &e = engine_here();
    const signal_state &s = e.signals[c.signal];
    if (!s.ready)
        report_two("signal not ready", c.site, s.init_site, "init()",
                   "the copy engine does not see %s: signals_ready() is missing after init()", name_of(s.word));
    check_readers(e, c.to, me, c.site, "the copy engine");
    check_arrival(e, c.to, me, c.site, "the copy engine overwrites");
    check_fences(e, c.to, me, c.site, "the copy engine overwrites");
    hook_engine(c.to, true, c.site, "the copy engine overwrites");
    hook_copied(c.bytes, true, c.site);
    erase_if(e.copies, [&](const copy_to_shared &x) { return overlap(x.to, c.to); });
    erase_if(e.writings, [&](const writing &x) { return overlap(x.what, c.to); });
    e.copies.push_back(c);
    memset(const_cast<void *>(c.to.at), 0xff, c.bytes);
    if (recording)
        record_event({"load", name_of(s.word), s.phase, c.bytes, c.site, c.to.at, c.source ? 0 : c.row / c.map.rows});
}

static size_t signal_number(uint64_t *arrived, call_site site)
{
    engine &e = engine_here();
    return &find_signal(e, arrived, site, "a load") - e.signals.data();
}

void copy_in(void *tile, int bytes, const tensor_box &map, int row, int head, uint64_t *arrived, call_site site)
{
    const thread &me = engine_thread("load_async()", site);
    check_tile(tile, bytes, map, site);
    begin_copy({whole(tile, map), nullptr, map, row, head, bytes, signal_number(arrived, site), site}, me);
}

static void check_bytes(const void *a, const void *b, int bytes, call_site site)
{
    if (address_of(a) % 16 || address_of(b) % 16 || bytes % 128 || bytes < 1)
        report("misaligned copy", site,
               "a copy of %d bytes: addresses must be multiples of 16 bytes, and sizes multiples of 128 bytes", bytes);
}

void copy_bytes_in(void *to, const void *src, int bytes, uint64_t *arrived, call_site site)
{
    const thread &me = engine_thread("send_with()", site);
    check_bytes(to, src, bytes, site);
    const char *const source = chars(src);
    begin_copy({lines(to, bytes), source, {}, 0, 0, bytes, signal_number(arrived, site), site}, me);
}

// The oldest that somebody waits for; in the backward order of threads (../layer_requests.h) the newest.
bool copy_one(engine &e, bool (*waited_for)(size_t))
{
    for (size_t n = 0; n < e.copies.size(); n++) {
        copy_to_shared &c = e.copies[order == 1 ? e.copies.size() - 1 - n : n];
        if (c.done || !waited_for(c.signal)) continue;
        char *const to = static_cast<char *>(const_cast<void *>(c.to.at));
        e.copying = c.site;
        if (c.source)
            memcpy(to, c.source, c.bytes);
        else
            each_piece(to, c.map, c.row, c.head, [](const char *at, const char *from) {
                if (from)
                    memcpy(const_cast<char *>(at), from, 16);
                else
                    memset(const_cast<char *>(at), 0, 16);
            });
        e.copying = {};
        hook_host_wrote(to, c.bytes);
        signal_state &s = e.signals[c.signal];
        c.done = true;
        c.phase = s.phase;
        bytes_came(s, c.bytes, c.site);
        return true;
    }
    return false;
}

static void begin_store(const copy_from_shared &c, const thread &me)
{
    engine &e = engine_here();
    check_arrival(e, c.from, me, c.site, "the copy engine is told to send");
    check_fences(e, c.from, me, c.site, "the copy engine is told to send");
    hook_engine(c.from, false, c.site, "the copy engine is told to send");
    hook_copied(c.from.rows * c.from.line * c.from.panels, false, c.site);
    erase_if(e.stores, [&](const copy_from_shared &x) { return x.done && overlap(x.from, c.from); });
    e.stores.push_back(c);
    if (recording) record_event({"send", nullptr, 0, c.from.rows * c.from.line * c.from.panels, c.site});
}

void copy_out(const void *tile, int bytes, const tensor_box &map, int row, int head, call_site site)
{
    const thread &me = engine_thread("store_async()", site);
    check_tile(tile, bytes, map, site);
    if (row < 0 || head < 0)
        report("store before the tensor", site,
               "%s would begin at row %d of head %d: a load may begin before row 0, but a store must not (illegal "
               "instruction)",
               name_of(tile), row, head);
    begin_store({whole(tile, map), nullptr, false, map, row, head, me.number, site}, me);
}

void copy_bytes_out(void *to, const void *src, int bytes, bool add, call_site site)
{
    const thread &me = engine_thread(add ? "add_async()" : "put_async()", site);
    check_bytes(to, src, bytes, site);
    begin_store({lines(src, bytes), static_cast<char *>(to), add, {}, 0, 0, me.number, site}, me);
}

// Blocks on several host threads add to the same numbers.
static void add_floats(char *to, const char *from, size_t bytes)
{
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    float *const sum = reinterpret_cast<float *>(to);
    for (size_t i = 0; i < bytes / sizeof *sum; i++) sum[i] += reinterpret_cast<const float *>(from)[i];
}

static void carry_out(const copy_from_shared &c)
{
    const char *const from = chars(c.from.at);
    const size_t bytes = c.from.rows * c.from.line;
    if (c.target && c.add)
        add_floats(c.target, from, bytes);
    else if (c.target)
        memcpy(c.target, from, bytes);
    else
        each_piece(from, c.map, c.row, c.head, [](const char *at, const char *to) {
            if (to) memcpy(const_cast<char *>(to), at, 16);
        });
}

// As late as may be: what is sent is read when its thread waits for that.
void stores_read(bool and_written, call_site site)
{
    engine &e = engine_here();
    const thread &me = engine_thread(and_written ? "stores_done()" : "stores_read()", site);
    if (recording) record_event({"sent", nullptr, 0, 0, site});
    for (copy_from_shared &c : e.stores) {
        if (c.thread != me.number) continue;
        if (!c.done) {
            carry_out(c);
            c.done = true;
            c.clock = e.clock[warp_number(me)];
        }
        c.written |= and_written;
    }
}
}
