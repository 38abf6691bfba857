// engine.cpp - the engine's state for one block, who waits for it, and what the parts of shared memory are called.
#include "engine.h"

#include <stdarg.h>

namespace cudacpu
{
engine &engine_here()
{
    static __thread engine *mine;
    if (!mine) mine = new engine();
    return *mine;
}

thread &engine_thread(const char *what, call_site site)
{
    thread &me = running_thread(what, site);
    engine_here().used = true;
    return me;
}

// ------------------------ names

static __thread engine *being_named;

void name_part(const char *path, const void *at, size_t bytes)
{
    named_part p = {chars(at), bytes, ""};
    snprintf(p.name, sizeof p.name, "%s", path);
    being_named->parts.push_back(p);
}

void name_element(char (&part)[128], const char *path, size_t i) { snprintf(part, sizeof part, "%.90s[%zu]", path, i); }

void name_member(char (&part)[128], const char *path, const char *name)
{
    snprintf(part, sizeof part, "%.60s%s%.60s", path, *path ? "." : "", name);
}

void shared_type(void (*name)(void *), void *at)
{
    engine &e = engine_here();
    e.name_all = name;
    e.named = at;
}

const char *name_of(const void *where)
{
    engine &e = engine_here();
    const char *at = chars(where);
    if (e.parts.empty() && e.name_all) {
        being_named = &e;
        e.name_all(e.named);
    }
    for (const named_part &p : e.parts)
        if (at >= p.at && at < p.at + p.bytes) return p.name;
    static __thread char text[4][64];
    static __thread unsigned next;
    char *t = text[next++ % 4];
    snprintf(t, sizeof text[0], "shared memory + %td", at - current->dynamic_shared);
    return t;
}

void report_two(const char *kind, call_site site, call_site other, const char *was, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);  // before the report begins: it may name things
    va_end(arguments);
    report_begin(kind);
    report_line("%s", text);
    report_place(hook_place(site, current ? current->running : nullptr));
    if (other.file) {
        report_line("%s", was);
        report_place(other);
    }
    report_end();
}

// ------------------------ waiting

void wait_until(bool (*over)(const thread &, const void *, long),
                void (*tell)(const thread &, const void *, long, char *, size_t), const void *what, long number,
                call_site site)
{
    block &b = *current;
    thread &me = *b.running;
    if (over(me, what, number)) return;
    me.site = site;
    me.patience = {over, tell, what, number};
    warp_of(b, me).parked |= lane_bit(me);
    give_way(b);
}

bool engine_step(block &b)
{
    if (any_parked(b, true, [](thread &t) { return t.patience.over(t, t.patience.what, t.patience.number); }))
        return true;
    if (copy_one(engine_here(), [](size_t signal) {
            const signal_state &s = engine_here().signals[signal];
            return any_parked(*current, false, [&](thread &t) {
                return t.patience.over == signal_is_over && t.patience.what == s.word;
            });
        }))
        return true;
    return another_block_may_help(b);
}

// ------------------------ the block

void engine_block_begin(block &b)
{
    engine &e = engine_here();
    if (recording) record_block_begin();
    e.multiplied = 0;
    if (!e.used && e.threads == b.thread_count) return;  // as it was left
    e.used = false;
    if (e.threads != b.thread_count)
        memset(e.know, 0, sizeof e.know);
    else
        for (unsigned i = 0; i < e.threads; i++) forget(e, e.know[i]);
    e.threads = b.thread_count;
    e.warps = b.warp_count;
    memset(e.barriers, 0, sizeof e.barriers);
    const int share = REGISTERS / int(b.thread_count) / 8 * 8;
    for (unsigned w = 0; w < WARPS; w++) {
        e.clock[w] = 1;
        e.issued[w] = e.waited[w] = 0;
        e.registers[w] = share > 255 ? 255 : share;
        e.idle.insert(e.idle.end(), e.queue[w].begin(), e.queue[w].end());
        e.queue[w].clear();
        e.unnamed[w].clear();
        e.issues[w / GROUP_WARPS].clear();
        e.waits[w / GROUP_WARPS].clear();
    }
    e.pool = 0;
    e.name_all = nullptr;
    e.parts.clear();
    e.signals.clear();
    e.copies.clear();
    e.stores.clear();
    e.readings.clear();
    e.writings.clear();
}

// Everybody knows what anybody knew.
static void meet(engine &e, const thread *const *all, unsigned count)
{
    clocks together = {};
    for (unsigned i = 0; i < count; i++) publish(e, *all[i], together);
    for (unsigned i = 0; i < count; i++) join(e, e.know[all[i]->number], together);
}

void engine_barrier(block &b)
{
    engine &e = engine_here();
    if (!e.used) return;
    const thread *all[MAX_THREADS];
    unsigned count = 0;
    for (unsigned i = 0; i < b.thread_count; i++)
        if (!(warp_of(b, b.threads[i]).exited & lane_bit(b.threads[i]))) all[count++] = &b.threads[i];
    meet(e, all, count);
    if (recording) record_meeting(b);
}

void engine_warp(block &, warp &w, unsigned lanes)
{
    engine &e = engine_here();
    if (!e.used) return;
    const thread *all[WARP];
    unsigned count = 0;
    for (; lanes; lanes &= lanes - 1) all[count++] = &w.threads[__builtin_ctz(lanes)];
    meet(e, all, count);
}

void engine_thread_end(const thread &t)
{
    engine &e = engine_here();
    if (!e.used) return;
    if (recording) record_event({nullptr, nullptr, 0, 0, {}});
    for (const copy_from_shared &c : e.stores)
        if (c.thread == t.number && !c.done)
            report("returned too early", c.site,
                   "the thread returned before the copy engine had read the data that this line sends: stores_read() "
                   "is missing");
    if (!e.queue[warp_number(t)].empty())
        report("returned too early", e.queue[warp_number(t)].back()->of.site,
               "the warp returned while this product was in flight: products_done is missing");
    if (!e.unnamed[warp_number(t)].empty())
        report("result thrown away", e.unnamed[warp_number(t)].back().site,
               "the result of this product was never passed to products_done, so the compiler may use its registers "
               "for other values while the product runs");
}

void engine_block_end(block &b)
{
    engine &e = engine_here();
    if (!e.used) return;
    b.running = nullptr;
    trap_early_reads(false);
    count_products(b, e.multiplied);
    for (const copy_to_shared &c : e.copies)
        if (const signal_state &s = e.signals[c.signal]; !c.done)
            report_two("returned too early", s.wait.file ? s.wait : c.site, s.wait.file ? c.site : s.wait, "the copy",
                       "the block ended while the copy engine was filling %s: no thread waited for this copy, phase %u "
                       "of %s; %s",
                       name_of(c.to.at), s.phase & 1, name_of(s.word), last_wait(s));
}
}
