// e4m3.cpp - floats of eight bits: 1 sign, 4 exponent and 3 fraction bits, no infinity, NaN 0x7f and 0xff.
#include "layer.h"

namespace cudacpu
{
struct all_values {
    float of[256];
    constexpr all_values() : of()
    {
        for (int bits = 0; bits < 256; bits++) {
            const int exponent = bits >> 3 & 15, fraction = bits & 7;
            float x = static_cast<float>(exponent ? 8 + fraction : fraction) / 512;
            for (int e = 1; e < exponent; e++) x *= 2;
            if ((bits & 127) == 127) x = __builtin_nanf("");
            of[bits] = bits & 128 ? -x : x;
        }
    }
};
static constexpr all_values values;

float from_e4m3(uint8_t bits) { return values.of[bits]; }

uint8_t to_e4m3(float x)
{
    const int sign = signbit(x) ? 128 : 0, largest = 126;
    const float a = fabsf(x);
    if (x != x) return 127;
    if (a >= 448) return static_cast<uint8_t>(sign | largest);
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    const int e = static_cast<int>(bits >> 23) - 126;                     // a < 2^e
    const int step = (e < -5 ? -5 : e) - 4;                               // neighbours are 2^step apart, 2^-9 at least
    const uint32_t steps_bits = static_cast<uint32_t>(127 - step) << 23;  // of 2^-step
    float steps;
    memcpy(&steps, &steps_bits, sizeof steps);
    const float whole = a * steps + 0x1.8p23f;  // to the nearest, of two the even one
    // 8 to 15 of them with the leading bit, fewer where step is -9; 16 carry into the exponent.
    return static_cast<uint8_t>(sign | ((step + 9) * 8 + static_cast<int>(whole - 0x1.8p23f)));
}
}
