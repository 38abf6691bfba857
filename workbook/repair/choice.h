// choice.h - what stands in the places of a source that changes.c made changeable (mutant schemata: Untch, Offutt,
// Harrold 1993). All changes are compiled at once; a number in a shared file, WB_REPAIR, says which one is on. Nothing
// is on: every expression here has the value, and the type, of what was written.
#pragma once

#ifdef REPAIR_C  // a source in C
#include <atomic>
#define _STDATOMIC_H
#define _Alignas alignas
using namespace std;
#endif
#ifndef REPAIR_NONE  // nothing in the source is changeable
#include <stdint.h>
#include <utility>

#include "repair/probe.h"

// Rows have no such words: they stay.
template <template <int> class V, int N> V<N> min(V<N> a, V<N>) { return a; }
template <template <int> class V, int N> V<N> exp(V<N> a) { return a; }
template <template <int> class V, int N> V<N> log(V<N> a) { return a; }

namespace wb_repair
{
static repair_shared alone;  // nothing is on
static volatile repair_shared *const shared = common ? common : &alone;

static const struct {
} none;  // in place of what does not compile here

static inline void note(int id, uint64_t bits)
{
    bits = (bits + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    __atomic_fetch_add(const_cast<uint64_t *>(&shared->values[id]), (bits ^ bits >> 31) | 1, __ATOMIC_RELAXED);
}
template <class T> static inline void note_value(int id, const T &x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x < sizeof bits ? sizeof x : sizeof bits);
    note(id, bits);
}

// A condition, which is `is`; changes id and id + 1 make it true or false.
static inline bool decide(int id, bool is)
{
    if (shared->probing) note(is ? id + 1 : id, 1);
    return shared->on == id || (shared->on != id + 1 && is);
}

// Which of the changes from..from + count - 1 is on, counted from 0; -1: none.
static inline int which(int from, int count)
{
    const int id = shared->on;
    return id >= from && id < from + count ? id - from : -1;
}

static inline bool is_swapped(int n) { return shared->swapped >> n & 1; }

// Change k of a number x beside others y: k counts +1, -1, 0, -x, 1, and for each y: y, x y, x/y, x + y, x - y, y - x.
template <class T> constexpr bool is_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T> auto number(const T &x)
{
    if constexpr (std::is_enum_v<T>)
        return (int)x;
    else
        return x;
}
template <class T, class Y> T beside(int k, T x, const Y &other)
{
    constexpr bool like = std::is_same_v<T, bool> == std::is_same_v<Y, bool>;
    if constexpr (is_number<Y> && like && (std::is_floating_point_v<T> || !std::is_floating_point_v<Y>)) {
        const auto y = number(other);
        const T all[REPAIR_EACH] = {(T)y, (T)(x * y), y == 0 ? x : (T)(x / y), (T)(x + y), (T)(x - y), (T)(y - x)};
        return all[k];
    }
    return x;
}
template <class T, class... Y> T changed(int k, T x, const Y &...y)
{
    const T minus = std::is_integral_v<T> ? x : (T)-x;  // of no length or index
    const T alone[REPAIR_OWN] = {(T)(x + 1), (T)(x - 1), (T)0, minus, (T)1};
    if (k < REPAIR_OWN) return alone[k];
    T result = x;
    int n = REPAIR_OWN;
    ((k >= n && k < n + REPAIR_EACH ? (void)(result = beside(k - n, x, y)) : (void)0, n += REPAIR_EACH), ...);
    return result;
}

// Of what is no number only y may stand there, if it has the type of x: where that is.
template <class X, class... Y> X *place(int k, X &x, Y &...y)
{
    X *result = &x;
    const auto take = [&](int n, auto &other) {
        if constexpr (std::is_same_v<std::remove_cv_t<std::remove_reference_t<decltype(other)>>, std::remove_cv_t<X>>)
            if (k == n) result = (X *)&other;
    };
    int n = REPAIR_OWN - REPAIR_EACH;
    (take(n += REPAIR_EACH, y), ...);
    return result;
}

// An operand x and what may stand in its place; numbers and pointers by value, all else by reference.
template <class X, class... Y> decltype(auto) vary(int id, X &&x, Y &&...y)
{
    using T = std::remove_cv_t<std::remove_reference_t<X>>;
    constexpr int count = REPAIR_OWN + REPAIR_EACH * (int)sizeof...(y);
    const auto value = [&](int k) -> decltype(auto) {  // with change k
        if constexpr (is_number<T>)
            return k < 0 ? number((T)x) : changed(k, number((T)x), y...);
        else if constexpr (std::is_pointer_v<T>)
            return T(*place(k, x, y...));
        else
            return place(k, x, y...);
    };
    if (shared->probing) note_value(id + count, value(-1));  // as it is
    constexpr int begin = is_number<T> ? 0 : REPAIR_OWN, step = is_number<T> ? 1 : REPAIR_EACH;
    for (int k = begin; k < count && shared->probing == REPAIR_VALUES; k += step) note_value(id + k, value(k));
    if constexpr (is_number<T> || std::is_pointer_v<T>)
        return (T)value(which(id, count));
    else
        return (*value(which(id, count)));
}

// a OP b is written a OP change(id) OP b, which binds in the same way.
struct change {
    int id;
};
template <class A> struct left {
    A a;
    int id;
};
#define REPAIR_IS(N, OP) \
    if constexpr (*#OP != '%' || (std::is_integral_v<A> && std::is_integral_v<B>)) \
        if (k == N && ((*#OP != '/' && *#OP != '%') || b != 0)) return (R)(a OP b);
#define REPAIR_OPERATOR(OP, ONE, TWO, THREE) \
    template <class A> left<std::decay_t<const A>> operator OP(const A &a, change c) { return {a, c.id}; } \
    template <class A, class B> auto operator OP(left<A> l, const B &b) \
    { \
        const A &a = l.a; \
        using R = decltype(a OP b); \
        const int k = which(l.id, 3); \
        if (shared->probing) note(l.id, 1), note(l.id + 1, 1), note(l.id + 2, 1); \
        if constexpr (std::is_convertible_v<A, R> && !std::is_same_v<R, bool>) \
            if (k == 2) return (R)a; \
        if constexpr (std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) { \
            REPAIR_IS(0, ONE) REPAIR_IS(1, TWO) REPAIR_IS(2, THREE) \
        } \
        return (R)(a OP b); \
    }
REPAIR_OPERATORS(REPAIR_OPERATOR)
}  // namespace wb_repair
#endif
