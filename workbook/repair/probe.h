// probe.h - notes what variables hold at the end of a gap (probes.c).
#pragma once

#ifndef REPAIR_C
#include "workbook.h"
#endif
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <type_traits>
#include <unistd.h>

#include "repair/shared.h"

namespace wb_repair
{
static inline repair_shared *map(void)  // NULL: there is none. Not by mmap(), which is the layer's here
{
    const char *name = getenv("WB_REPAIR");
    const int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    const long at = syscall(SYS_mmap, 0L, sizeof(repair_shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
    return at == -1 ? nullptr : reinterpret_cast<repair_shared *>(at);
}
static repair_shared *const common = map();
static thread_local probe_event here;

static inline void arrive()
{
    if (!common || !common->notes) return;
#ifndef REPAIR_C
    here.block[0] = blockIdx.x, here.block[1] = blockIdx.y, here.block[2] = blockIdx.z;
    here.thread = threadIdx.x + blockDim.x * threadIdx.y;
#endif
    const uint64_t block = here.block[0] + ((uint64_t)here.block[1] << 22) + ((uint64_t)here.block[2] << 38);
    const uint64_t key = block << 11 | (uint64_t)(here.thread + 1);
    here.visit = -1;  // no room
    for (uint64_t n = key * 0x9e3779b97f4a7c15 >> 48, tries = 0; tries < 64 && here.visit < 0; n++, tries++) {
        uint64_t none = 0, *const at = &common->thread[n % PROBE_THREADS];
        if (__atomic_compare_exchange_n(at, &none, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || none == key)
            here.visit = common->visits[n % PROBE_THREADS]++;
    }
}

#define PROBE_HAS(NAME, IS) \
    template <class T, class = void> constexpr bool NAME = false; \
    template <class T> constexpr bool NAME<T, std::enable_if_t<IS>> = true;
PROBE_HAS(has_x, std::is_array_v<decltype(T::x)>)  // row_vec, reg_tile
PROBE_HAS(is_element, (sizeof(T::row) + sizeof(T::col) > 0))
template <class V> constexpr bool is_whole = std::is_integral_v<V> || std::is_enum_v<V>;

// f(number) for each number of a variable. Of other types there are none.
template <class T, class F> void each_number(const T &x, F f)
{
    if constexpr (std::is_array_v<T>) {
        for (auto &part : x) each_number(part, f);
    } else if constexpr (has_x<T>) {
        each_number(x.x, f);
    } else if constexpr (is_element<T>) {
        f((double)x.row), f((double)x.col);
    } else if constexpr (is_whole<T>) {
        f((double)x);
    } else if constexpr (std::is_constructible_v<T, float> && std::is_convertible_v<T, float>) {
        f((double)(float)x);
    }
}

template <class T> void probe(int id, const T &x)
{
    if constexpr (!std::is_function_v<T> && sizeof(T) <= PROBE_BYTES) {
        if (!common || !common->notes || here.visit < 0) return;
        using S = std::remove_cv_t<std::remove_all_extents_t<T>>;
        const char *const name = __PRETTY_FUNCTION__;
        probe_event e = here;
        e.id = id, e.count = 0;
        each_number(x, [&](double) { e.count++; });
        if (!e.count) return;
        e.kind = is_element<T>               ? PROBE_ELEMENT
                 : is_whole<S>               ? PROBE_WHOLE
                 : strstr(name, "row_vec<")  ? PROBE_ROWS
                 : strstr(name, "reg_tile<") ? PROBE_TILE
                                             : PROBE_REAL;
        if constexpr (has_x<T>) e.across = (int)std::extent_v<decltype(T::x), 1>;
        probe_log &to = common->log;
        const int n = __atomic_fetch_add(&to.events, 1, __ATOMIC_RELAXED);
        int k = e.at = __atomic_fetch_add(&to.numbers, e.count, __ATOMIC_RELAXED);
        if (n >= PROBE_EVENTS || k > PROBE_NUMBERS - e.count) return;
        to.event[n] = e;
        each_number(x, [&](double v) { to.number[k++] = v; });
    }
}
static const struct {
    template <class T> T operator=(T x) const { return probe(PROBE_WORDS, x), x; }
} returned;
}  // namespace wb_repair
