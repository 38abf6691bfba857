// probe.h - what variables hold at the end of a gap: a run notes it, or takes it from the notes of a run with another
// text in the gap (probes.c). WB_PROBES is the file that they share.
#pragma once

#include <stdint.h>

enum { PROBE_WORDS = 24 };  // of a gap; behind them what it returns
enum { PROBE_EVENTS = 1 << 18, PROBE_NUMBERS = 1 << 22, PROBE_BYTES = 1024, PROBE_THREADS = 1 << 16 };
typedef enum probe_kind { PROBE_REAL, PROBE_ROWS, PROBE_TILE, PROBE_WHOLE, PROBE_ELEMENT } probe_kind;

// A thread is at the gap's end for the visit-th time, and a variable holds number[at] to number[at + count - 1].
typedef struct probe_event {
    uint32_t block[3];
    int thread, visit, id, count, at;
    probe_kind kind;
    int across;  // of a tile: blocks of 8 x 8 beside each other
} probe_event;
typedef struct probe_log {
    int events, numbers;
    probe_event event[PROBE_EVENTS];
    double number[PROBE_NUMBERS];
} probe_log;
typedef struct repair_probes {
    int note;            // the log that a run writes; -1: none
    int put;             // the variable that a run takes from log 0, which is sorted; -1: none,
    int leave[2];        // but not that of these events,
    int leave_parts[2];  // and of these their parts: from the first to before the second
    uint64_t thread[PROBE_THREADS];
    int visits[PROBE_THREADS];
    probe_log log[2];
} repair_probes;

static inline int probe_order(const void *x, const void *y)
{
    const probe_event *const a = (const probe_event *)x, *const b = (const probe_event *)y;
    for (int n = 2; n >= 0; n--)
        if (a->block[n] != b->block[n]) return a->block[n] < b->block[n] ? -1 : 1;
    if (a->thread != b->thread) return a->thread - b->thread;
    return a->visit != b->visit ? a->visit - b->visit : a->id - b->id;
}

#ifdef __cplusplus
#ifndef REPAIR_C
#include "workbook.h"
#endif
#include <string.h>
#include <type_traits>

#include "repair/map.h"

namespace wb_repair
{
static repair_probes *const probes = map<repair_probes>("WB_PROBES");
static thread_local probe_event here;

static inline void arrive()
{
    if (!probes) return;
#ifndef REPAIR_C
    here.block[0] = blockIdx.x, here.block[1] = blockIdx.y, here.block[2] = blockIdx.z;
    here.thread = threadIdx.x + blockDim.x * threadIdx.y;
#endif
    const uint64_t block = here.block[0] + ((uint64_t)here.block[1] << 22) + ((uint64_t)here.block[2] << 38);
    const uint64_t key = block << 11 | (uint64_t)(here.thread + 1);
    here.visit = -1;  // no room
    for (uint64_t n = key * 0x9e3779b97f4a7c15 >> 48, tries = 0; tries < 64 && here.visit < 0; n++, tries++) {
        uint64_t none = 0, *const at = &probes->thread[n % PROBE_THREADS];
        if (__atomic_compare_exchange_n(at, &none, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || none == key)
            here.visit = probes->visits[n % PROBE_THREADS]++;
    }
}

#define PROBE_HAS(NAME, IS) \
    template <class T, class = void> constexpr bool NAME = false; \
    template <class T> constexpr bool NAME<T, std::enable_if_t<IS>> = true;
PROBE_HAS(has_x, std::is_array_v<decltype(T::x)>)  // row_vec, reg_tile
PROBE_HAS(is_element, (sizeof(T::row) + sizeof(T::col) > 0))
template <class V> constexpr bool is_whole = std::is_integral_v<V> || std::is_enum_v<V>;

// The numbers of a variable: f(number) is what is to stand there. Of other types there are none.
template <class T, class F> void each_number(T &x, F f)
{
    using V = std::remove_cv_t<T>;
    if constexpr (std::is_array_v<V>) {
        for (auto &part : x) each_number(part, f);
    } else if constexpr (has_x<V>) {
        each_number(x.x, f);
    } else if constexpr (is_element<V>) {
        each_number(x.row, f), each_number(x.col, f);
    } else if constexpr (is_whole<V>) {
        const double is = (double)x, as = f(is);
        if (as != is) const_cast<V &>(x) = (V)as;  // a constant stays where it is
    } else if constexpr (std::is_constructible_v<V, float> && std::is_convertible_v<V, float>) {
        const double is = (float)x, as = f(is);
        if (memcmp(&as, &is, sizeof is)) const_cast<V &>(x) = V((float)as);
    }
}

template <class T> void probe(int id, T &x)
{
    using V = std::remove_cv_t<T>;
    if constexpr (!std::is_function_v<T> && sizeof(V) <= PROBE_BYTES) {
        if (!probes || here.visit < 0) return;
        using S = std::remove_cv_t<std::remove_all_extents_t<V>>;
        const char *const name = __PRETTY_FUNCTION__;
        int count = 0, k = 0;
        each_number(x, [&](double v) { return count++, v; });
        if (!count) return;
        probe_event e = here;
        e.id = id, e.count = count;
        e.kind = is_element<V>               ? PROBE_ELEMENT
                 : is_whole<S>               ? PROBE_WHOLE
                 : strstr(name, "row_vec<")  ? PROBE_ROWS
                 : strstr(name, "reg_tile<") ? PROBE_TILE
                                             : PROBE_REAL;
        if constexpr (has_x<V>) e.across = (int)std::extent_v<decltype(V::x), 1>;
        if (probes->put == id) {
            const probe_log &from = probes->log[0];
            const auto *o = (const probe_event *)bsearch(&e, from.event, (size_t)from.events, sizeof e, probe_order);
            const bool left = o && o - from.event >= probes->leave[0] && o - from.event < probes->leave[1];
            if (o && o->count == count)
                each_number(x, [&](double v) {
                    const bool stays = left && k >= probes->leave_parts[0] && k < probes->leave_parts[1];
                    return k++, stays ? v : from.number[o->at + k - 1];
                });
        }
        if (probes->note < 0) return;
        probe_log &to = probes->log[probes->note];
        const int n = __atomic_fetch_add(&to.events, 1, __ATOMIC_RELAXED);
        e.at = __atomic_fetch_add(&to.numbers, count, __ATOMIC_RELAXED);
        if (n >= PROBE_EVENTS || e.at > PROBE_NUMBERS - count) return;
        k = e.at, to.event[n] = e;
        each_number(x, [&](double v) { return to.number[k++] = v; });
    }
}
static const struct {
    template <class T> T operator=(T x) const { return probe(PROBE_WORDS, x), x; }
} returned;
}  // namespace wb_repair
#endif
