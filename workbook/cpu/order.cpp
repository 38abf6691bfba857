// order.cpp - in which order blocks, warps and lanes run that nothing orders. 0: forward, lane 0 first, blocks on all
// host threads; 1: backward; any other number shuffles by it. In an order other than 0 one host thread runs all, so
// that it is the same every time.
#include "report.h"

namespace cudacpu
{
long order;
static uint32_t dice;

void order_begin_launch() { dice = static_cast<uint32_t>(order) * 2654435761u | 1; }

unsigned rearranged_lane(unsigned ready)
{
    if (order == 1) return 1u << (31 - __builtin_clz(ready));
    dice = dice * 1664525u + 1013904223u;
    unsigned skip = (dice >> 16) % static_cast<unsigned>(__builtin_popcount(ready));
    while (skip--) ready &= ready - 1;
    return ready & -ready;
}

// Steps of a width that has no divisor in common with count.
unsigned long rearranged(unsigned long n, unsigned long count)
{
    if (order == 0 || count < 2) return n;
    if (order == 1) return count - 1 - n;
    unsigned long step = static_cast<unsigned long>(order) * 7919 % count;
    while (std::__gcd(step, count) != 1) step++;
    return (n * (step % count) + static_cast<unsigned long>(order)) % count;
}
}

extern "C" void wb_run_in_order(long order)
{
    if (cudacpu::order)
        cudacpu::report("a call reserved for the tests", {nullptr, 0}, "wb_run_in_order() was called twice");
    cudacpu::order = order;
}
