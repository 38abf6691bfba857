// tile.c - the tile vocabulary, word by word, against loops that anyone can check.
#include "tile_kernels.h"
#include "case/case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t state;

// Uniform between -1 and 1; every test starts from the same numbers.
static double noise(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(state >> 32) / 0x1p31;
}

static void start(void) { state = 1; }

TestSuite(tile, .init = start, .timeout = 60);

static void *numbers(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    cr_assert(p, "out of memory");
    return p;
}

// ------------------------------------------------------------------------------------------------------------- products

// Element (k, j) of the right factor, however the form lays it out.
static size_t right_at(tile_form form, int cols, int depth, int k, int j)
{
    return form == TILE_ABt ? (size_t)j * depth + k : (size_t)k * cols + j;
}

static void check_product(tile_form form, const char *name, int rows, int cols, int depth)
{
    const size_t a_count = (size_t)2 * rows * depth, b_count = (size_t)cols * depth, c_count = (size_t)2 * rows * cols;
    uint16_t *a = numbers(a_count, 2), *b = numbers(b_count, 2);
    float *a_float = numbers(a_count, 4), *c = numbers(c_count, 4), *before = numbers(c_count, 4);
    for (size_t i = 0; i < a_count; i++) a_float[i] = (float)noise(), a[i] = wb_to_bf16(a_float[i]);
    for (size_t i = 0; i < b_count; i++) b[i] = wb_to_bf16((float)noise());
    for (size_t i = 0; i < c_count; i++) before[i] = c[i] = (float)noise();
    tile_product(form, rows, cols, depth, a, a_float, b, c);
    for (int i = 0; i < 2 * rows; i++)
        for (int j = 0; j < cols; j++) {
            double want = before[i * cols + j], terms = fabs(want);
            for (int k = 0; k < depth; k++) {
                // Registers hold floats and are rounded to bf16 on the way: a holds what they must become.
                const double x =
                    (double)wb_from_bf16(a[i * depth + k]) * wb_from_bf16(b[right_at(form, cols, depth, k, j)]);
                want += x;
                terms += fabs(x);
            }
            const double got = c[i * cols + j], tolerance = 0x1p-23 * (depth + 2) * terms;
            cr_assert(isfinite(got) && fabs(got - want) <= tolerance,
                      "%s, %d x %d x %d: element (%d, %d) is %.9g, should be %.9g within %.1e", name, rows, cols, depth,
                      i, j, got, want, tolerance);
        }
    free(a), free(b), free(a_float), free(c), free(before);
}

static void check_products(tile_form form, const char *name)
{
    // 16 x 128 and less stay in registers as operands; 32 x 128 and 48 x 80 are read from shared memory.
    const int sizes[][3] = {{16, 16, 16},  {16, 128, 16}, {16, 32, 128}, {32, 64, 64},
                            {32, 48, 128}, {32, 128, 48}, {48, 16, 80}};
    for (size_t i = 0; i < COUNT(sizes); i++) check_product(form, name, sizes[i][0], sizes[i][1], sizes[i][2]);
}

Test(tile, mma_ABt) { check_products(TILE_ABt, "A B^T"); }

Test(tile, mma_AB_registers) { check_products(TILE_AB_REGISTERS, "A B, A a register tile"); }

Test(tile, mma_AB_operand) { check_products(TILE_AB_OPERAND, "A B, A an operand"); }

// -------------------------------------------------------------------------------------------------------------- layouts

static void check_each(int rows, int cols, int rows_there, int cols_there)
{
    float row_values[128], col_values[128];
    tile_visit *visits = numbers((size_t)rows * cols, sizeof *visits);
    for (int i = 0; i < 128; i++) row_values[i] = 1000 + i, col_values[i] = 2000 + i;
    tile_each(rows, cols, row_values, rows_there, col_values, cols_there, visits);
    for (int row = 0; row < rows; row++)
        for (int col = 0; col < cols; col++) {
            const tile_visit v = visits[row * cols + col];
            cr_assert(v.times == 1, "(%d, %d) of %d x %d was visited %d times", row, col, rows, cols, v.times);
            const int lane = row % 8 * 4 + col % 8 / 2;
            cr_assert(v.lane == lane, "(%d, %d) is held by lane %d, should be %d", row, col, v.lane, lane);
            cr_assert(v.self, "tile[e] at (%d, %d) is not the element that each visits", row, col);
            const float of_row = row < rows_there ? 1000 + row : -1, of_col = col < cols_there ? 2000 + col : -1;
            cr_assert(v.row_value == of_row, "row_vec at (%d, %d) is %g, should be %g", row, col, v.row_value, of_row);
            cr_assert(v.col_value == of_col, "col_vec at (%d, %d) is %g, should be %g", row, col, v.col_value, of_col);
        }
    free(visits);
}

Test(tile, each_and_vectors)
{
    check_each(16, 16, 16, 16);
    check_each(32, 48, 32, 48);
    check_each(16, 128, 16, 128);
}

Test(tile, vectors_with_ragged_ends)
{
    check_each(16, 16, 0, 1);
    check_each(32, 48, 13, 33);
    check_each(16, 128, 15, 127);
}

// ----------------------------------------------------------------------------------------------------- loads and stores

static void check_load(int threads, int rows, int cols, int rows_there)
{
    const int in_src = rows_there < 0 ? 0 : rows_there;
    uint16_t *src = numbers((size_t)in_src * cols, 2), *dst = numbers((size_t)rows * cols, 2);
    for (int i = 0; i < in_src * cols; i++) src[i] = (uint16_t)(i + 1);
    memset(dst, 0xff, (size_t)rows * cols * 2);
    tile_load(threads, rows, cols, src, rows_there, dst);
    for (int i = 0; i < rows * cols; i++) {
        const int want = i / cols < rows_there ? (uint16_t)(i + 1) : 0;
        cr_assert(dst[i] == want, "%d threads, %d x %d, %d rows there: (%d, %d) is 0x%04x, should be 0x%04x", threads,
                  rows, cols, rows_there, i / cols, i % cols, dst[i], want);
    }
    free(src), free(dst);
}

Test(tile, load_async_and_its_zeros)
{
    const int sizes[][3] = {{32, 16, 16}, {128, 48, 128}, {128, 64, 64}, {128, 128, 16}, {256, 16, 32}, {64, 48, 32}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int rows = sizes[i][1], there[] = {rows, rows + 5, rows - 1, rows / 2 + 1, 1, 0, -7};
        for (size_t k = 0; k < COUNT(there); k++) check_load(sizes[i][0], rows, sizes[i][2], there[k]);
    }
}

static void check_store(int rows, int cols, int rows_there, int row0)
{
    const size_t count = (size_t)rows * cols;
    float *tile = numbers(count, 4), values[32], vec[32];
    uint16_t *dst = numbers(count, 2), *smem = numbers(2 * count, 2);
    for (size_t i = 0; i < count; i++) tile[i] = (float)(100 * noise());
    for (int i = 0; i < 32; i++) values[i] = (float)noise();
    memset(dst, 0xff, count * 2), memset(smem, 0xff, count * 4), memset(vec, 0xff, sizeof vec);
    tile_store(rows, cols, tile, values, rows_there, row0, dst, smem, vec);
    for (int row = 0; row < rows; row++)
        for (int col = 0; col < cols; col++) {
            const uint16_t rounded = wb_to_bf16(tile[row * cols + col]), want = row < rows_there ? rounded : 0xffff;
            cr_assert(dst[row * cols + col] == want, "%d x %d, %d rows there: (%d, %d) is 0x%04x, should be 0x%04x",
                      rows, cols, rows_there, row, col, dst[row * cols + col], want);
        }
    for (int row = 0; row < 2 * rows; row++)
        for (int col = 0; col < cols; col++) {
            const bool inside = row >= row0 && row < row0 + rows;
            const uint16_t want = inside ? wb_to_bf16(tile[(row - row0) * cols + col]) : 0xffff;
            cr_assert(smem[row * cols + col] == want, "shared tile from row %d: (%d, %d) is 0x%04x, should be 0x%04x",
                      row0, row, col, smem[row * cols + col], want);
        }
    for (int row = 0; row < rows; row++)
        cr_assert(row < rows_there ? vec[row] == values[row] : isnan(vec[row]), "row_vec, %d rows there: row %d is %g",
                  rows_there, row, vec[row]);
    free(tile), free(dst), free(smem);
}

Test(tile, store_and_nothing_beyond)
{
    const int sizes[][2] = {{16, 16}, {32, 64}, {32, 128}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int rows = sizes[i][0], there[] = {rows, rows + 3, rows - 1, 9, 1, 0, -4};
        for (size_t k = 0; k < COUNT(there); k++) check_store(rows, sizes[i][1], there[k], k % 2 * rows);
    }
}

// ----------------------------------------------------------------------------------------------------------------- rows

// `shift` makes all numbers negative or positive; `hole` puts -infinity into most columns, as a mask does.
static void check_rows(int rows, int cols, double shift, bool hole)
{
    const size_t count = (size_t)rows * cols, by_lane = (size_t)rows * 32;
    float *tile = numbers(count, 4), *scaled = numbers(2 * count, 4), factors[32];
    float *max = numbers(by_lane, 4), *sum = numbers(by_lane, 4);
    float *parts_max = numbers(by_lane, 4), *parts_sum = numbers(by_lane, 4);
    for (size_t i = 0; i < count; i++)
        tile[i] = hole && (i % cols) != 5 ? -INFINITY : (float)(noise() + shift + (double)(i / cols));
    for (int i = 0; i < 32; i++) factors[i] = (float)noise();
    memset(max, 0xff, by_lane * 4), memset(sum, 0xff, by_lane * 4);
    memset(parts_max, 0xff, by_lane * 4), memset(parts_sum, 0xff, by_lane * 4);
    tile_rows(rows, cols, tile, factors, max, sum, parts_max, parts_sum, scaled);
    for (int row = 0; row < rows; row++) {
        double want_max = -INFINITY, want_sum = 0, terms = 0, quad_sum = 0, quad_max = -INFINITY;
        for (int col = 0; col < cols; col++) {
            const double x = tile[row * cols + col];
            want_max = fmax(want_max, x), want_sum += x, terms += fabs(x);
        }
        for (int lane = 0; lane < 32; lane++) {
            const int at = row * 32 + lane;
            if (lane / 4 != row % 8) {  // another quad's row
                cr_assert(isnan(max[at]) && isnan(sum[at]), "lane %d claims to hold row %d", lane, row);
                continue;
            }
            cr_assert(max[at] == want_max, "row %d of %d x %d, lane %d: max %.9g, should be %.9g", row, rows, cols,
                      lane, max[at], want_max);
            quad_max = fmax(quad_max, parts_max[at]);
            quad_sum += parts_sum[at];
            if (!hole)
                cr_assert(isfinite(sum[at]) && fabs(sum[at] - want_sum) <= 0x1p-24 * cols * terms,
                          "row %d of %d x %d, lane %d: sum %.9g, should be %.9g", row, rows, cols, lane, sum[at],
                          want_sum);
        }
        cr_assert(quad_max == want_max, "row %d: the parts' max is %.9g, should be %.9g", row, quad_max, want_max);
        if (!hole)
            cr_assert(isfinite(quad_sum) && fabs(quad_sum - want_sum) <= 0x1p-24 * cols * terms,
                      "row %d: the parts sum up to %.9g, should be %.9g", row, quad_sum, want_sum);
        for (int col = 0; col < cols && !hole; col++) {
            const int at = row * cols + col;
            const double quotient = (double)tile[at] / factors[row], divided = scaled[count + at];
            cr_assert(scaled[at] == tile[at] * factors[row], "scale_rows at (%d, %d)", row, col);
            cr_assert(isfinite(divided) && fabs(divided - quotient) <= 0x1p-22 * fabs(quotient),
                      "divide_rows at (%d, %d) is %.9g, should be %.9g", row, col, divided, quotient);
        }
    }
    free(tile), free(scaled), free(max), free(sum), free(parts_max), free(parts_sum);
}

Test(tile, row_max_row_sum_scale_rows)
{
    const int sizes[][2] = {{16, 16}, {32, 48}, {16, 128}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int shift = -200; shift <= 200; shift += 200) {
            check_rows(sizes[i][0], sizes[i][1], shift, false);
            check_rows(sizes[i][0], sizes[i][1], shift, true);
        }
}

Test(tile, row_algebra)
{
    float a[16], b[16], y[8][16];
    int above[32];
    for (int i = 0; i < 16; i++) a[i] = (float)(40 * noise()), b[i] = a[i] + (i % 2 ? 1 : 0);
    tile_algebra(a, b, y[0], above);
    for (int i = 0; i < 16; i++) {
        cr_assert(y[0][i] == a[i] + b[i] && y[1][i] == a[i] - b[i] && y[2][i] == a[i] * b[i], "+ - * in row %d", i);
        cr_assert(y[3][i] == a[i] * 3 && y[4][i] == a[i] + 3, "with a constant, in row %d", i);
        cr_assert(y[5][i] == fmaxf(a[i], b[i]), "max in row %d is %g", i, y[5][i]);
        const double want = exp2(a[i]);
        cr_assert(isfinite(y[6][i]) && fabs(y[6][i] - want) <= 0x1p-21 * want, "exp2(%g) is %.9g, should be %.9g", a[i],
                  y[6][i], want);
    }
    for (int lane = 0; lane < 32; lane++) cr_assert(!above[lane], "any_above in lane %d, though no a is greater", lane);
    for (int row = 0; row < 16; row++) {  // one row above the other is seen by all lanes; equality is not above
        memcpy(b, a, sizeof a);
        b[row] = a[row] - 1;
        tile_algebra(a, b, y[0], above);
        for (int lane = 0; lane < 32; lane++)
            cr_assert(above[lane] == 1, "row %d is above, lane %d misses it", row, lane);
    }
}

Test(tile, log2)
{
    float a[16] = {0}, b[16], y[8][16];
    int above[32];
    for (int i = 0; i < 16; i++) b[i] = exp2f(i - 4) * (i % 3 ? 1 : 1.37f);  // sums of weights: around 1, and thousands
    tile_algebra(a, b, y[0], above);
    for (int i = 0; i < 16; i++) {
        const double want = log2(b[i]);
        cr_assert(isfinite(y[7][i]) && fabs(y[7][i] - want) <= 0x1p-22 * fabs(want), "log2(%g) is %.9g, should be %.9g",
                  b[i], y[7][i], want);
    }
}

// What the online softmax leans on: 2^-infinity = 0, 2^0 = 1 exactly, and no NaN from "nothing seen yet".
Test(tile, exp2_at_the_edges)
{
    float a[16] = {-INFINITY, 0, -3.402823466e38f, -150, 1, -1, 8, 127}, b[16] = {0}, y[8][16];
    int above[32];
    tile_algebra(a, b, y[0], above);
    const float want[] = {0, 1, 0, 0, 2, 0.5f, 256, 0x1p127f};
    for (size_t i = 0; i < COUNT(want); i++)
        cr_assert(y[6][i] == want[i], "exp2(%g) is %.9g, should be %g", a[i], y[6][i], want[i]);
}
