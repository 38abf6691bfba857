// access.cpp - one load or store: may it be, and does any other that is not ordered with it touch the same bytes.
//
// Of each 4 bytes two writes and two reads are remembered. A record is given up for one that comes after it in every
// run. Of three that nothing orders, as three atomics, or of three pieces of 4 bytes, one is lost.
#include "check.h"

#include "../engine.h"

extern "C" char __executable_start[], _end[];

namespace cudacpu
{
void order_block_begin(const block &b);
void shadow_block_begin(block &b);

enum { LINE = 128, LINES = 2048, LOADED = 1, STORED = 2 };
static uint8_t touched[LINES];  // see "the engine's accesses"
static uint32_t last_arrival;   // the epoch in which a thread last waited for a copy

void hook_block_begin(block &b)
{
    order_block_begin(b);
    shadow_block_begin(b);
    calls_begin(b);
    memset(touched, 0, sizeof touched);
}

// ------------------------ 4 bytes

static void found_race(const char *word, const access_record &then, const place &now, access_kind kind)
{
    const thread &t = *current->running;
    finding *f = new_finding(RACE, now, kind, {then.code, then.calls});
    const bool blocks = then.epoch < block_epoch, warps = then.thread / WARP != t.number / WARP;
    if (!f || (!f->farther(blocks, warps, then.kind == ASYNC || kind == ASYNC) && f->times > 1)) return;
    f->sides[1] = {now, current->index, t.number, kind};
    f->since = barrier_before(t.number, then.thread);
    f->sides[0].where = {then.code, then.calls};
    f->sides[0].thread = then.thread;
    f->sides[0].kind = static_cast<access_kind>(then.kind);
    f->sides[0].block = then.epoch < block_epoch ? block_at(then.epoch) : current->index;
    describe_memory(word, 4, f->memory, sizeof f->memory);
}

static inline bool conflict(const access_record &then, const access_record &now, bool shared)
{
    return (then.bytes & now.bytes) && !ordered(then, now.thread, shared) &&
           !(then.kind == ATOMIC && now.kind == ATOMIC);
}

static inline bool same_moment(const access_record &a, const access_record &b)
{
    return a.epoch == b.epoch && a.clock == b.clock && a.thread == b.thread && a.kind == b.kind;
}

// Whether it need not be kept: whoever can race with it races with what happens now, too.
static inline bool gives_way(access_record &then, const access_record &now, bool shared)
{
    if (then.epoch < (shared ? epoch : launch_epoch)) return true;
    if ((now.kind != ATOMIC || then.kind == ATOMIC) && ordered(then, now.thread, shared))
        then.bytes = then.bytes & ~now.bytes & 15;
    return !then.bytes;
}

// Of these two, in the way of a third, the one that matters less. A plain one stays: every atomic races with it. One of
// another block does: all that follows races with it. One of another warp: more does than with one of this.
static inline access_record &dispensable(access_record &x, access_record &y, const access_record &now)
{
    if (now.kind == ATOMIC && (x.kind == ATOMIC) != (y.kind == ATOMIC)) return x.kind == ATOMIC ? x : y;
    if (x.epoch < block_epoch || y.epoch < block_epoch) return y.epoch < block_epoch ? x : y;
    if (x.epoch < epoch || y.epoch < epoch) return x.epoch < epoch ? x : y;
    if (x.thread / WARP == y.thread / WARP) return x.bytes & ~now.bytes ? y : x;
    return x.thread / WARP == now.thread / WARP ? x : y;
}

static inline void remember(access_record (&of)[2], const access_record &now, bool shared)
{
    access_record &x = of[0], &y = of[1];
    unsigned bytes = now.bytes;
    access_record *to = gives_way(x, now, shared) ? &x : gives_way(y, now, shared) ? &y : nullptr;
    if (!to) {
        to = same_moment(x, now) ? &x : same_moment(y, now) ? &y : &dispensable(x, y, now);
        if (same_moment(*to, now)) bytes |= to->bytes;
    }
    *to = now;
    to->bytes = bytes & 15;
}

static inline void check_word(const char *word, word_history &h, const access_record &now, bool shared)
{
    const place here = {now.code, now.calls};
    const access_kind kind = static_cast<access_kind>(now.kind);
    for (const access_record &w : h.writes)
        if (conflict(w, now, shared)) found_race(word, w, here, kind);
    for (const access_record &r : h.reads)
        if (kind != READ && conflict(r, now, shared)) found_race(word, r, here, kind);
    remember(kind == READ ? h.reads : h.writes, now, shared);
}

// ------------------------ the engine's accesses, and others
// Of the copy engine and the tensor cores engine.h keeps account. Both look at the other's accesses, in lines of 128
// bytes, a row of a panel: most were never touched by an ordinary access.

static uint8_t &touched_line(const char *at)
{
    return touched[address_of(at) / LINE % LINES];  // less than 256 KB: no two lines of a block are one
}

// An ordinary access of shared memory, in a block that uses the engine.
static void meet_engine(const char *at, access_kind kind, void *code)
{
    thread &t = *current->running;
    t.code = code;
    touched_line(at) |= kind == READ ? LOADED : STORED;
    plain_access(at, kind != READ, {"tile.cuh", 0});  // hook_place() finds the line by `code`
}

[[noreturn]] static void found_engine_race(const char *at, const access_record &then, const char *who, call_site site)
{
    static source_line line;
    const place where = {then.code, then.calls};
    find_source_lines(&where, 1, &line);
    char was[96];
    snprintf(was, sizeof was, "thread %u %s it", then.thread, then.kind == READ ? "loads" : "stores");
    report_two("race with an asynchronous operation", site, {line.file, line.line}, was,
               "%s %s, which thread %u %s, but nothing orders the two accesses: after its own, thread %u must arrive "
               "at a barrier or mbarrier, where the thread that issues this operation must wait",
               who, name_of(at), then.thread, then.kind == READ ? "loads" : "stores", then.thread);
}

// All ordinary accesses of these bytes of a line must come before this in every run. What is overwritten begins anew.
static void meet_others(const char *at, size_t bytes, bool overwrites, call_site site, const char *who)
{
    size_t offset;
    bool shared;
    chunk *c = find_chunk(at, &offset, &shared);
    if (!c || !touched_line(at)) return;
    word_history *const first = c->words + offset / 4, *const end = first + bytes / 4;
    for (const word_history *h = first; h < end; h++) {
        for (const access_record &x : h->writes)
            if (x.bytes && !ordered(x, current->running->number, shared)) found_engine_race(at, x, who, site);
        for (const access_record &x : h->reads)
            if (overwrites && x.bytes && !ordered(x, current->running->number, shared))
                found_engine_race(at, x, who, site);
    }
    if (overwrites) memset(static_cast<void *>(first), 0, bytes / 4 * sizeof *first);
    if (overwrites && bytes == LINE) touched_line(at) = 0;
}

void hook_engine(const tile_rows &what, bool overwrites, call_site site, const char *who)
{
    for (int panel = 0; panel < what.panels; panel++) {
        const char *at = chars(what.at) + panel * what.panel_bytes + what.row0 * what.line;
        for (size_t left = what.rows * what.line, here; left; at += here, left -= here) {
            here = LINE - address_of(at) % LINE;  // of a tile all of the line
            if (here > left) here = left;
            meet_others(at, here, overwrites, site, who);
        }
    }
}

// ------------------------ the bytes

// Of these bytes, and what is missing; null: it has been noted.
static finding *note(finding_kind kind, const place &now, access_kind what, const char *at, unsigned bytes,
                     const char *missing, place before = {0, 0})
{
    finding *f = new_finding(kind, now, what, before);
    if (!f || f->times > 1) return nullptr;
    f->missing = missing;
    describe_memory(at, bytes, f->memory, sizeof f->memory);
    return f;
}

static void found_stray(const char *at, unsigned bytes, const uint8_t *flags, access_kind kind, const place &here,
                        bool shared)
{
    const bool inside = *flags & EXISTS;  // it begins there
    while (*flags & EXISTS) flags++, at++, bytes--;
    const bool freed = *flags & FREED || (!shared && was_freed(at));
    note(freed ? USE_AFTER_FREE : OUT_OF_BOUNDS, here, kind, at, bytes,
         freed    ? "a wait for the last kernel that uses this memory, before cudaFree()."
         : inside ? "a smaller access, or one less: this one begins inside the memory and ends outside. Is a number "
                    "of such accesses rounded up?"
         : !shared && is_before(at)
             ? "an index that is not negative: is a first row, a first tile or a head below 0?"
             : "an index inside the memory: check its batch, head, row and column. At a ragged end, correct or add a "
               "condition. Memory that your code allocates may be too small, too.");
    finish();
}

static void found_pending(const char *at, unsigned bytes, const word_history &h, access_kind kind, const place &here)
{
    const access_record &copy = h.writes[h.writes[0].kind == ASYNC ? 0 : 1];
    // No barrier of the block lies between, though others before were waited for.
    const bool ahead = copy.epoch == epoch && last_arrival >= block_epoch;
    finding *f = note(
        NOT_WAITED, here, kind, at, bytes,
        ahead && kind != ASYNC
            ? "another buffer, or another iteration, in one of the two lines: this copy was begun after the last "
              "barrier. Or, if the read is meant for what it brings, a wait for it and a barrier: loads_issued(), "
              "loads_arrived<...>() and __syncthreads()."
        : kind == ASYNC
            ? "another destination for one of two copies: both are in flight, and write the same bytes. Which buffer, "
              "and which iteration of the loop, is each copy meant for?"
            : "a wait for this copy in the thread that issued it: loads_issued() and loads_arrived<...>() (in plain "
              "CUDA, __pipeline_commit() and __pipeline_wait_prior()). If other threads read the bytes, a "
              "__syncthreads() must follow. Or one of the two lines uses the wrong buffer or iteration.",
        {copy.code, copy.calls});
    if (f) f->sides[0].thread = copy.thread, f->sides[0].kind = ASYNC, f->sides[0].block = current->index;
}

static void found_unwritten(const char *at, unsigned bytes, const uint8_t *flags, const place &here, bool shared)
{
    while (bytes > 1 && *flags & WRITTEN) flags++, at++, bytes--;
    finding *f =
        note(UNINITIALISED, here, READ, at, bytes,
             shared ? "an earlier load or store to this element, by any thread of this block: shared memory "
                      "starts with arbitrary contents. Is a tile used here in an iteration that did not load it?"
                    : "an earlier store to this element, by a kernel, cudaMemcpy or cudaMemset: outputs start "
                      "with arbitrary contents.");
    if (f && shared) describe_unwritten(at, f->memory, sizeof f->memory);
}

// Neither device nor shared memory. A thread may touch other lanes' variables while an instruction of the whole warp is
// emulated, the kernel's arguments, variables of the program, and the indices.
static void check_elsewhere(const char *at, unsigned bytes, access_kind kind, void *code)
{
    const block &b = *current;
    const thread &t = *b.running;
    if (at >= __executable_start && at < _end) return;
    const char *arguments = chars(b.arguments);
    if (at >= arguments && at < arguments + b.argument_bytes) return;
    const uintptr_t indices = address_of(&threadIdx);  // thread-local variables of the program lie together
    if (address_of(at) - (indices - 4096) < 8192) return;

    finding_kind what = at < reinterpret_cast<char *>(4096) ? NULL_POINTER
                        : is_device_address(at)             ? OUT_OF_BOUNDS
                                                            : HOST_POINTER;
    for (unsigned i = 0; i < b.fiber_count; i++)
        if (at >= b.fibers[i].stack && at < b.fibers[i].stack + b.fibers[i].bytes) {
            if (b.warps[t.number / WARP].waiting & lane_bit(t)) return;
            what = STRANGE_POINTER;
        }
    note(what, place_of(code), kind, at, bytes,
         what == NULL_POINTER      ? "a valid address: the pointer is null, or an index was added to a null pointer."
         : what == OUT_OF_BOUNDS   ? "a condition or a correct index: the address is in no buffer."
         : what == STRANGE_POINTER ? "a copy in shared memory: this is a local variable of another thread, and on a "
                                     "GPU only that thread can access it."
                                   : "cudaMalloc and cudaMemcpy: this is host memory, which a kernel cannot access.");
    finish();
}

static bool all_bytes(const uint8_t *flags, unsigned bytes, unsigned mask, unsigned value)
{
    for (unsigned i = 0; i < bytes; i++)
        if ((flags[i] & mask) != value) return false;
    return true;
}

// Most accesses are of 2, 4, 8 or 16 bytes that all exist and are written: compared at once.
static inline bool usual(const uint8_t *flags, unsigned bytes)
{
    static const char all[] = "\3\3\3\3\3\3\3\3\3\3\3\3\3\3\3\3";
    switch (bytes) {
    case 2: return !memcmp(flags, all, 2);
    case 4: return !memcmp(flags, all, 4);
    case 8: return !memcmp(flags, all, 8);
    case 16: return !memcmp(flags, all, 16);
    default: return all_bytes(flags, bytes, 0xff, EXISTS | WRITTEN);
    }
}

static inline void check_bytes(const char *at, unsigned bytes, access_kind kind, void *code)
{
    const thread &t = *current->running;
    size_t offset;
    bool shared;
    chunk *c = find_chunk(at, &offset, &shared);
    if (!c) {
        check_elsewhere(at, bytes, kind, code);
        return;
    }
    if (offset + bytes > CHUNK) {  // into the next chunk
        const unsigned here = CHUNK - offset;
        check_access(at, here, kind, code);
        check_access(at + here, bytes - here, kind, code);
        return;
    }
    const place here = place_of(code, t);
    uint8_t *flags = c->flags + offset;
    if (shared && engine_here().used) meet_engine(at, kind, code);
    if (!usual(flags, bytes)) {
        if (!all_bytes(flags, bytes, EXISTS | FREED, EXISTS)) found_stray(at, bytes, flags, kind, here, shared);
        if (!all_bytes(flags, bytes, PENDING, 0)) {
            found_pending(at, bytes, c->words[offset / 4], kind, here);
            return;
        }
        if ((kind == READ || kind == ATOMIC) && !all_bytes(flags, bytes, WRITTEN, WRITTEN))
            found_unwritten(at, bytes, flags, here, shared);
        if (kind == WRITE || kind == ATOMIC) memset(flags, EXISTS | WRITTEN, bytes);
    }
    if (kind == ASYNC) memset(flags, EXISTS | PENDING, bytes);

    access_record now = {};
    now.epoch = epoch, now.code = here.code, now.calls = here.calls;
    now.clock = seen[t.number][t.number], now.thread = t.number & 1023, now.kind = kind & 3;
    for (const size_t end = offset + bytes; offset < end;) {
        const size_t word = offset / 4, first = offset % 4, last = end - word * 4 < 4 ? end - word * 4 : 4;
        now.bytes = ((1u << last) - (1u << first)) & 15;
        check_word(at - (offset - word * 4), c->words[word], now, shared);
        at += last - first;
        offset += last - first;
    }
}

void check_access(const char *at, unsigned bytes, access_kind kind, void *code)
{
    const block *b = current;
    if (!b || !b->running) {
        if (!is_device_address(at)) return;
        note(DEVICE_POINTER, place_of(code), kind, at, bytes,
             "cudaMemcpy: only kernels can access device memory, host code cannot.");
        finish();
    }
    const fiber &own = *b->running->own;
    if (size_t(at - own.stack) < own.bytes) return;  // a local variable
    check_bytes(at, bytes, kind, code);
}

void check_alignment(const char *at, unsigned bytes, void *code)
{
    if (!(address_of(at) & (bytes - 1))) return;
    finding *f = note(MISALIGNED, place_of(code), READ, at, bytes,
                      "an address that is a multiple of the size: the offset, or the start of the buffer, is not.");
    if (f) {
        char what[224];
        snprintf(what, sizeof what, "%.223s", f->memory);
        snprintf(f->memory, sizeof f->memory,
                 "an access of %u bytes, at an address %zu bytes past a multiple of this size: %s", bytes,
                 address_of(at) & (bytes - 1), what);
    }
    finish();
}

// ------------------------ atomics, asynchronous copies

void hook_matrix_row(const char *at, size_t bytes, void *code) { check_access(at, bytes, READ, code); }

void hook_async_issued(char *to, const char *from, size_t bytes, size_t bytes_of_source)
{
    void *code = current->running->code;
    if (bytes_of_source) check_access(from, bytes_of_source, READ, code);
    check_access(to, bytes, ASYNC, code);
}

// The copy counts as a write of this moment, made where it was issued.
void hook_async_arrived(char *to, size_t bytes)
{
    const thread &t = *current->running;
    size_t offset;
    bool shared;
    chunk *c = find_chunk(to, &offset, &shared);
    if (!c) return;
    memset(c->flags + offset, EXISTS | WRITTEN, bytes);
    last_arrival = epoch;
    for (size_t word = offset / 4; word < (offset + bytes) / 4; word++)
        for (access_record &w : c->words[word].writes)
            if (w.kind == ASYNC && w.thread == t.number) w.epoch = epoch, w.clock = seen[t.number][t.number];
}
}
