// quantise.c - floats as int8 and a scale, and as e4m3 and an exponent: as workbook.h defines them for 14 and 16.
#include "case/case.h"

#include <float.h>

float wb_quantise_row(int8_t *q, const float *x, int count)
{
    float a = 0;
    for (int d = 0; d < count; d++) a = fmaxf(a, fabsf(x[d]));
    const float scale = a / 127;
    const int normal = scale >= FLT_MIN;
    for (int d = 0; d < count; d++) q[d] = normal ? (int8_t)nearbyintf(x[d] / scale) : 0;
    return normal ? scale : 0;
}

// ------------------------ e4m3

// Below 2^-6 neighbours are 2^-9 apart; each exponent above has 8 numbers, as far apart as its eighth.
float wb_from_e4m3(uint8_t bits)
{
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float size =
        (bits & 127) == 127 ? NAN : ldexpf((float)(exponent ? 8 + fraction : fraction), (exponent ? exponent : 1) - 10);
    return bits & 128 ? -size : size;
}

uint8_t wb_to_e4m3(float x)
{
    const uint8_t sign = signbit(x) ? 128 : 0;
    const float size = fabsf(x);
    if (isnan(x)) return sign | 127;
    if (size >= 448) return sign | 126;
    if (size < 0x1p-6f) return (uint8_t)(sign + (int)nearbyintf(size * 512));
    uint32_t bits;
    memcpy(&bits, &size, sizeof bits);
    bits += 0x7ffff + (bits >> 20 & 1);  // 20 of the fraction's 23 bits go, and may carry into the exponent
    return (uint8_t)(sign + (bits >> 20) - (127 - 7) * 8);
}

static int exponent_of(const float *x, size_t count)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    int e = 0;
    const float fraction = frexpf(largest, &e);  // largest = fraction * 2^e, and 448 = 0.875 * 2^9
    e += (fraction > 0.875f) - 9;
    return largest == 0 || e < -118 ? -118 : e;
}

int wb_quantise_fp8(uint8_t *q, const float *x, int rows, int D)
{
    const size_t count = (size_t)rows * (size_t)D;
    const int e = exponent_of(x, count);
    const float unit = ldexpf(1, -e);
    for (size_t i = 0; i < count; i++) q[i] = wb_to_e4m3(x[i] * unit);
    return e;
}

int wb_fp8_place(int key) { return key / 16 * 16 + key % 8 / 2 * 4 + key % 16 / 8 * 2 + key % 2; }

int wb_quantise_fp8_values(uint8_t *q, const float *x, int keys, int D)
{
    const int e = exponent_of(x, (size_t)keys * (size_t)D);
    const float unit = ldexpf(1, -e);
    memset(q, 0, (size_t)D * WB_FP8_KEYS);
    for (int j = 0; j < keys; j++)
        for (int d = 0; d < D; d++) q[d * WB_FP8_KEYS + wb_fp8_place(j)] = wb_to_e4m3(x[j * D + d] * unit);
    return e;
}

void wb_hadamard(float *x, int D)
{
    for (int d = 0; d < D; d++)
        if ((unsigned)d * 0x9e3779b1u >> 31) x[d] = -x[d];
    for (int h = 1; h < D; h *= 2)
        for (int d = 0; d < D; d++) {
            if (d & h) continue;
            const float a = x[d], b = x[d + h];
            x[d] = a + b, x[d + h] = a - b;
        }
}

void wb_dequantise_fp8(float *x, char of, const uint8_t *q, const int8_t *exponent, size_t heads, size_t N, size_t D)
{
    const size_t most = of == 'Q' ? 1 : WB_FP8_KEYS, tiles = (N - 1) / most + 1;
    float value[256];
    for (int bits = 0; bits < 256; bits++) value[bits] = wb_from_e4m3((uint8_t)bits);
#pragma omp parallel for if (heads * N * D > (size_t)1 << 24)
    for (size_t row = 0; row < heads * N; row++) {
        const size_t j = row % N, tile = row / N * tiles + j / most, place = (size_t)wb_fp8_place((int)(j % most));
        const float unit = ldexpf(1, exponent[tile]);
        for (size_t d = 0; d < D; d++)
            x[row * D + d] = unit * value[q[of == 'V' ? (tile * D + d) * most + place : row * D + d]];
    }
}
