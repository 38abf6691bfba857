// atomics.cpp - atomics, as compare-and-swap loops of the host, since blocks run on several host threads.
#include "hooks.h"

using namespace cudacpu;

// Replaces *at by change(*at); returns the old value. Bits is the integer as large as Type.
template <class Bits, class Type, class Change> __attribute__((always_inline)) inline Type
replace(Type *at, Change change)  // so that the return address is the kernel's
{
    hook_atomic(at, sizeof *at, __builtin_return_address(0));
    Bits *bits = reinterpret_cast<Bits *>(at);
    Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(bits, &old, same_bits<Bits>(static_cast<Type>(change(same_bits<Type>(old)))),
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
    return same_bits<Type>(old);
}

// A function that replaces x, the old value, by what is computed of x and `value`.
#define CHANGES(type, bits, name, value, ...) \
    type name(type *at, type value) \
    { \
        return replace<bits>(at, [=]([[maybe_unused]] type x) { return __VA_ARGS__; }); \
    }

#define INTEGER(type) \
    type atomicAdd(type *at, type value) \
    { \
        hook_atomic(at, sizeof *at, __builtin_return_address(0)); \
        return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); \
    } \
    type atomicExch(type *at, type value) \
    { \
        hook_atomic(at, sizeof *at, __builtin_return_address(0)); \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); \
    } \
    type atomicCAS(type *at, type expected, type value) \
    { \
        hook_atomic(at, sizeof *at, __builtin_return_address(0)); \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected; \
    } \
    CHANGES(type, type, atomicMin, value, value < x ? value : x) \
    CHANGES(type, type, atomicMax, value, x < value ? value : x) \
    CHANGES(type, type, atomicAnd, value, (x & value)) \
    CHANGES(type, type, atomicOr, value, x | value) \
    CHANGES(type, type, atomicXor, value, x ^ value)
INTEGER(int)
INTEGER(unsigned int)
INTEGER(unsigned long long)

CHANGES(int, unsigned, atomicSub, value, unsigned(x) - unsigned(value))
CHANGES(unsigned int, unsigned, atomicSub, value, x - value)
CHANGES(unsigned int, unsigned, atomicInc, limit, x >= limit ? 0 : x + 1)
CHANGES(unsigned int, unsigned, atomicDec, limit, x == 0 || x > limit ? limit : x - 1)
CHANGES(float, uint32_t, atomicAdd, value, x + value)
CHANGES(float, uint32_t, atomicExch, value, value)
CHANGES(double, uint64_t, atomicAdd, value, x + value)
