// atomics.cpp - atomics, as compare-and-swap loops on the host's own atomic instructions, since blocks run on several host threads.
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

#define INTEGER(type)                                                                                                  \
    type atomicAdd(type *at, type value)                                                                               \
    {                                                                                                                  \
        hook_atomic(at, sizeof *at, __builtin_return_address(0));                                                      \
        return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);                                                        \
    }                                                                                                                  \
    type atomicExch(type *at, type value)                                                                              \
    {                                                                                                                  \
        hook_atomic(at, sizeof *at, __builtin_return_address(0));                                                      \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                                       \
    }                                                                                                                  \
    type atomicCAS(type *at, type expected, type value)                                                                \
    {                                                                                                                  \
        hook_atomic(at, sizeof *at, __builtin_return_address(0));                                                      \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
        return expected;                                                                                               \
    }                                                                                                                  \
    type atomicMin(type *at, type value)                                                                               \
    {                                                                                                                  \
        return replace<type>(at, [=](type x) { return value < x ? value : x; });                                       \
    }                                                                                                                  \
    type atomicMax(type *at, type value)                                                                               \
    {                                                                                                                  \
        return replace<type>(at, [=](type x) { return x < value ? value : x; });                                       \
    }                                                                                                                  \
    type atomicAnd(type *at, type value)                                                                               \
    {                                                                                                                  \
        return replace<type>(at, [=](type x) { return x & value; });                                                   \
    }                                                                                                                  \
    type atomicOr(type *at, type value)                                                                                \
    {                                                                                                                  \
        return replace<type>(at, [=](type x) { return x | value; });                                                   \
    }                                                                                                                  \
    type atomicXor(type *at, type value)                                                                               \
    {                                                                                                                  \
        return replace<type>(at, [=](type x) { return x ^ value; });                                                   \
    }
INTEGER(int)
INTEGER(unsigned int)
INTEGER(unsigned long long)

int atomicSub(int *at, int value)
{
    return replace<unsigned>(at, [=](int x) { return static_cast<unsigned>(x) - static_cast<unsigned>(value); });
}
unsigned int atomicSub(unsigned int *at, unsigned int value)
{
    return replace<unsigned>(at, [=](unsigned x) { return x - value; });
}

unsigned int atomicInc(unsigned int *at, unsigned int limit)
{
    return replace<unsigned>(at, [=](unsigned x) { return x >= limit ? 0 : x + 1; });
}
unsigned int atomicDec(unsigned int *at, unsigned int limit)
{
    return replace<unsigned>(at, [=](unsigned x) { return x == 0 || x > limit ? limit : x - 1; });
}

float atomicAdd(float *at, float value)
{
    return replace<uint32_t>(at, [=](float x) { return x + value; });
}
float atomicExch(float *at, float value)
{
    return replace<uint32_t>(at, [=](float) { return value; });
}
double atomicAdd(double *at, double value)
{
    return replace<uint64_t>(at, [=](double x) { return x + value; });
}
