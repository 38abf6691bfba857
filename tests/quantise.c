// quantise.c - the quantisers of problems 14 and 16, and that a case of 14 has the cache that it makes of the same case
// of 13, one of 16 what it makes of the same case of 10.
#include "case/pages.h"
#include "dice.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static wb_case of(const wb_problem *problem, wb_input input)
{
    wb_case c = {.page = 16, .lens = WB_LENS_EDGES, .seed = 4, .input = input};
    c.shape = (attention_shape){.batch = 9, .q_heads = 4, .kv_heads = 2, .q_len = 1, .kv_len = 70, .head_dim = 32};
    return wb_case_defaults(problem, c);
}

static void *filled(const wb_problem *problem, const wb_case *c, const char *name)
{
    wb_tensor t[WB_MAX_TENSORS];
    const int k = wb_tensor_named(t, wb_case_tensors(problem, c, t), name);
    void *data = malloc(t[k].bytes);
    wb_case_fill(problem, c, &t[k], data);
    return data;
}

// Rows that are a sequence's are those of 13, quantised; the scales of all others are numbers that spoil whatever they
// meet.
static void check_cache(wb_input input, const char *name, const char *scale_name)
{
    const wb_problem *plain = wb_find_problem("flash_decode"), *int8 = wb_find_problem("flash_decode_int8");
    const wb_case c = of(plain, input);
    wb_pages p = wb_pages_make(&c);
    uint16_t *x = filled(plain, &c, name);
    int8_t *q = filled(int8, &c, name);
    float *scale = filled(int8, &c, scale_name);
    const int D = 32, heads = 2, rows = 16;
    int used = 0, zeros = 0;
    for (int page = 0; page < p.shape.pages; page++)
        for (int r = 0; r < rows; r++)
            for (int h = 0; h < heads; h++) {
                const size_t row = ((size_t)page * rows + r) * heads + h;
                const int owner = p.owner[page], b = owner / p.shape.max_pages;
                const float s = scale[((size_t)page * heads + h) * rows + r];
                if (owner < 0 || owner % p.shape.max_pages * rows + r >= p.kv_len[b]) {
                    cr_assert(!isfinite(s) || s > 1e38f);
                    continue;
                }
                float want[32];
                int8_t bytes[32];
                for (int d = 0; d < D; d++) want[d] = wb_from_bf16(x[row * D + d]);
                cr_assert(s == wb_quantise_row(bytes, want, D));
                cr_assert(memcmp(bytes, q + row * D, D) == 0);
                used++, zeros += s == 0;
            }
    int keys = 0;
    for (int b = 0; b < 9; b++) keys += p.kv_len[b];
    cr_expect(used == keys * heads, "%d rows of %d keys", used, keys);
    cr_expect(input == WB_ZERO_ROWS ? zeros > used / 2 && zeros < used : zeros == 0, "%d rows of zeros", zeros);
    free(x), free(q), free(scale);
    wb_pages_free(&p);
}

Test(quantise, a_case_is_that_of_13)
{
    const wb_input inputs[] = {WB_NORMAL, WB_TOWER, WB_ZERO_ROWS, WB_OUTLIERS, WB_WIDE_SCALES};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        check_cache(inputs[i], "K", "K_scale"), check_cache(inputs[i], "V", "V_scale");
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

// What the bytes of a case of 16 stand for are the numbers of the same case of 10, to a sixteenth.
Test(quantise, a_case_of_16_is_that_of_10)
{
    const wb_problem *plain = wb_find_problem("flash_hopper"), *fp8 = wb_find_problem("flash_fp8");
    const wb_input inputs[] = {WB_NORMAL, WB_STAIRS, WB_SIZES, WB_LEFTWARD, WB_MEAN_ONE, WB_OUTLIERS};
    for (size_t n = 0; n < sizeof inputs / sizeof *inputs; n++) {
        wb_case c = {.seed = 4, .input = inputs[n], .shape = {2, 4, 2, 35, 150, .head_dim = 64}};
        c = wb_case_defaults(fp8, c);
        for (const char *name = "Q\0K\0V"; *name; name += 2) {
            const size_t heads = *name == 'Q' ? 8 : 4, N = *name == 'Q' ? 35 : 150, D = 64,
                         tile = *name == 'Q' ? 1 : 64;
            const char exponents[] = {*name, '_', 'e', 'x', 'p', 'o', 'n', 'e', 'n', 't', 0};
            uint16_t *x = filled(plain, &c, name);
            uint8_t *q = filled(fp8, &c, name);
            int8_t *exponent = filled(fp8, &c, exponents);
            float *y = malloc(heads * N * D * sizeof *y);
            wb_dequantise_fp8(y, *name, q, exponent, heads, N, D);
            for (size_t i = 0; i < heads * N * D; i++) {
                const size_t row = i / D, of = row / N * ((N - 1) / tile + 1) + row % N / tile;
                const float want = wb_from_bf16(x[i]), step = ldexpf(1, exponent[of] - 10);
                cr_assert(fabsf(y[i] - want) <= fmaxf(fabsf(want) / 16, step), "%s[%zu] %g is %g", name, i, want, y[i]);
            }
            free(x), free(q), free(exponent), free(y);
        }
    }
}
