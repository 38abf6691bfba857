// mix.h - a number for each number: a case draws with this, so that its bits are the same on every machine.
#pragma once

#include <stdint.h>

static inline uint64_t mix(uint64_t x)  // the finaliser of SplitMix64: Steele, Lea, Flood 2014
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
