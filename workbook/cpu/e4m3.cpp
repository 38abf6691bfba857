// e4m3.cpp - floats of eight bits: 1 sign, 4 exponent and 3 fraction bits, no infinity, NaN 0x7f and 0xff.
#include "layer.h"

#include <math.h>

namespace cudacpu
{
struct all_values {
    float of[256];
    all_values()
    {
        for (int bits = 0; bits < 256; bits++) {
            const int exponent = bits >> 3 & 15, fraction = bits & 7;
            float x = exponent ? ldexpf(static_cast<float>(8 + fraction), exponent - 10)
                               : ldexpf(static_cast<float>(fraction), -9);
            if ((bits & 127) == 127) x = NAN;
            of[bits] = bits & 128 ? -x : x;
        }
    }
};

float from_e4m3(uint8_t bits)
{
    static const all_values all;
    return all.of[bits];
}

uint8_t to_e4m3(float x)
{
    const int sign = signbit(x) ? 128 : 0, largest = 126;
    const float a = fabsf(x);
    if (x != x) return 127;
    if (a >= 448) return static_cast<uint8_t>(sign | largest);
    int e = 0;
    frexpf(a, &e);                                     // a < 2^e
    const int step = (a == 0 || e < -5 ? -5 : e) - 4;  // neighbours are 2^step apart, 2^-9 at least
    // 8 to 15 of them with the leading bit, fewer where step is -9; 16 carry into the exponent.
    return static_cast<uint8_t>(sign | ((step + 9) * 8 + static_cast<int>(nearbyintf(ldexpf(a, -step)))));
}
}
