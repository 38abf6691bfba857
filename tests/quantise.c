// quantise.c - the quantisers of problems 14 and 16.
#include "case/case.h"
#include "dice.h"

#include <criterion/criterion.h>
#include <float.h>

// The row of the lesson.
Test(quantise, by_hand)
{
    const float x[] = {0.5f, -0.31f, 0.002f, 0.19f};
    int8_t q[4];
    const float scale = wb_quantise_row(q, x, 4);
    cr_expect(fabsf(scale - 0.00393701f) < 1e-8f, "%.9g", scale);
    cr_expect(q[0] == 127 && q[1] == -79 && q[2] == 1 && q[3] == 48, "%d %d %d %d", q[0], q[1], q[2], q[3]);
}

// 127 FLT_MIN is the smallest row that has a scale; what is smaller is 0, whatever its sign.
Test(quantise, denormal_scales_are_zero)
{
    const float least = 127 * FLT_MIN, below = nextafterf(least, 0), denormal = FLT_TRUE_MIN;
    int8_t q = 5;
    cr_expect(wb_quantise_row(&q, &least, 1) == FLT_MIN && q == 127);
    cr_expect(wb_quantise_row(&q, &below, 1) == 0 && q == 0);
    q = 5;
    cr_expect(wb_quantise_row(&q, &denormal, 1) == 0 && q == 0);
    const float negative = -below;
    cr_expect(wb_quantise_row(&q, &negative, 1) == 0 && q == 0);
}

// Of rows of any size: the largest element becomes 127, and no element is off by more than half a step and what rounds
// in x / scale.
Test(quantise, half_a_step_at_most)
{
    for (int round = 0; round < 20000; round++) {
        float x[16];
        int8_t q[16];
        for (int d = 0; d < 16; d++) x[d] = ldexpf((float)noise(), round % 240 - 118);
        const float scale = wb_quantise_row(q, x, 16);
        int largest = 0;
        if (scale == 0) continue;
        for (int d = 0; d < 16; d++) {
            cr_assert(abs(q[d]) <= 127);
            if (abs(q[d]) > largest) largest = abs(q[d]);
            cr_assert(fabs(x[d] - (double)scale * q[d]) <= 0.50001 * scale, "%a of scale %a is %d", x[d], scale, q[d]);
        }
        cr_assert(largest == 127);
    }
}

// ------------------------ e4m3

// Every e4m3 is itself; every bf16 and every float16, and with them all ties, becomes the nearest, of two the one whose
// last bit is 0. Found by looking at all of them. PyTorch's float8_e4m3fn rounds so, up to 464.
static void check_rounded(float x)
{
    int best = 0;
    for (int bits = 0; bits < 127; bits++) {
        const double now = fabs(wb_from_e4m3((uint8_t)bits) - fabs((double)x)),
                     before = fabs(wb_from_e4m3((uint8_t)best) - fabs((double)x));
        if (now < before || (now == before && bits % 2 == 0)) best = bits;
    }
    if (signbit(x)) best |= 128;
    cr_assert(wb_to_e4m3(x) == best, "%a becomes %02x, should be %02x", x, wb_to_e4m3(x), best);
}

static float from_half(int bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float size = ldexpf((float)(exponent ? 1024 + fraction : fraction), (exponent ? exponent : 1) - 25);
    return bits & 0x8000 ? -size : size;
}

Test(quantise, e4m3_is_the_nearest)
{
    cr_expect(wb_from_e4m3(0x7e) == 448 && wb_from_e4m3(1) == 0x1p-9f && wb_from_e4m3(0xb8) == -1);
    cr_expect(isnan(wb_from_e4m3(0x7f)) && isnan(wb_from_e4m3(0xff)) && wb_to_e4m3(NAN) == 0x7f);
    for (int bits = 0; bits < 65536; bits++) {
        if ((bits & 0x7fff) <= 0x7f80) check_rounded(wb_from_bf16((uint16_t)bits));
        if ((bits & 0x7c00) != 0x7c00) check_rounded(from_half(bits));
        if ((bits & 127) != 127) cr_assert(wb_to_e4m3(wb_from_e4m3((uint8_t)bits)) == (uint8_t)bits);
    }
}

// Of every bf16 that there may be as the largest of a row: no smaller exponent would do, and it is not below -118.
Test(quantise, least_exponent)
{
    for (int bits = 0; bits < 0x7f00; bits++) {
        const float a = wb_from_bf16((uint16_t)bits), x[] = {a / 3, -a, 0, a / 1000};
        uint8_t q[4];
        const int e = wb_quantise_fp8(q, x, 2, 2);
        cr_assert(e >= -118 && a <= ldexp(448, e) && (e == -118 || a > ldexp(448, e - 1)), "%a has %d", a, e);
        for (int i = 0; i < 4; i++) cr_assert(q[i] == wb_to_e4m3((float)ldexp(x[i], -e)));
    }
    const float zeros[] = {0, -0.0f};
    uint8_t q[2];
    cr_expect(wb_quantise_fp8(q, zeros, 1, 2) == -118 && q[0] == 0 && q[1] == 128);
}

// The lesson's row.
Test(quantise, e4m3_by_hand)
{
    const float x[] = {0.8f, -0.1f};
    uint8_t q[2];
    cr_expect(wb_quantise_fp8(q, x, 1, 2) == -9 && wb_from_e4m3(q[0]) == 416 && wb_from_e4m3(q[1]) == -52);
}
