// tensor_cores.cpp - C += A B for a whole warp, by three matrices of float32 that lanes fill; and ldmatrix.
#include "hooks.h"

namespace cudacpu
{
// ------------------------ e4m3: 1 sign, 4 exponent and 3 fraction bits, no infinity, NaN 0x7f and 0xff

struct all_values {
    float of[256];
    constexpr all_values() : of()
    {
        for (int bits = 0; bits < 256; bits++) {
            const int exponent = bits >> 3 & 15, fraction = bits & 7;
            float x = float(exponent ? 8 + fraction : fraction) / 512;
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
    if (a >= 448) return sign | largest;
    const int e = int(same_bits<uint32_t>(a) >> 23) - 126;     // a < 2^e
    const int step = (e < -5 ? -5 : e) - 4;                    // neighbours are 2^step apart, 2^-9 at least
    const float steps = same_bits<float>((127 - step) << 23);  // 2^-step
    const float whole = a * steps + 0x1.8p23f;                 // to the nearest, of two the even one
    // 8 to 15 of them with the leading bit, fewer where step is -9; 16 carry into the exponent.
    return sign | ((step + 9) * 8 + int(whole - 0x1.8p23f));
}

// ------------------------ products

// Room for `count` numbers, one for each host thread, kept for the next product.
static float *room(size_t count)
{
    static __thread float *at;
    static __thread size_t size;
    if (count > size) {
        free(at);
        at = static_cast<float *>(aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64));
        if (!at) report("out of host memory", {}, "no memory for a matrix product");
        size = count;
    }
    return at;
}

static float low(uint32_t pair) { return same_bits<float>(pair << 16); }  // a bf16 is the upper half of a float
static float high(uint32_t pair) { return same_bits<float>(pair & 0xffff0000u); }

// f(two of the lane's numbers of C, where they are in the matrix).
template <class F> static void each_two(const matrices &m, float *c, int lane, F f)
{
    for (int r = lane / 4; r < m.rows; r += 16)
        for (int n = lane % 4 * 2; n < m.cols; n += 8)
            for (int i = 0; i < 2; i++, c += 2) f(c, m.c + (r + i * 8) * m.cols + n);
}

static void take(const matrices &m, const warp_product &p, int lane)
{
    const int g = lane / 4, t = lane % 4 * 2;
    const uint32_t *a = p.a, *b = p.b;
    for (int k = 0; k < m.depth; k += 16) {
        for (int r = 0; r < m.rows; r += 16)
            for (int i = 0; i < 4; i++, a++) {
                float *at = m.a + (r + g + i % 2 * 8) * m.depth + k + t + i / 2 * 8;
                at[0] = low(*a), at[1] = high(*a);
            }
        for (int n = 0; n < m.cols; n += 16)
            for (int i = 0; i < (m.cols - n < 16 ? 2 : 4); i++, b++) {
                float *at = m.b + (k + t + i % 2 * 8) * m.cols + n + g + i / 2 * 8;
                at[0] = low(*b), at[m.cols] = high(*b);
            }
    }
    each_two(m, p.c, lane, [](const float *c, float *at) { at[0] = c[0], at[1] = c[1]; });
}

// Eight numbers at a time, whatever the processor has for that.
typedef float eight __attribute__((vector_size(32)));
typedef int eight_ints __attribute__((vector_size(32)));

// How the tensor cores add up products of e4m3, as a model: 32 of them and what was there in one go, each cut, toward
// 0, to KEPT bits of the largest. Sums are off as an H200's are (problems/16/README.md), not by the same bits.
constexpr int KEPT = 14, FRACTION = 23, BIAS = 127;
static inline __attribute__((always_inline)) void multiply_cutting(const matrices &m)
{
    constexpr int AT_ONCE = 4;  // rows, which share what is read of b
    const int rows = m.rows, cols = m.cols, depth = m.depth, wide = cols / 8;
    for (int row = 0; row < rows; row += AT_ONCE)
        for (int col = 0; col < cols; col += 8)
            for (int k0 = 0; k0 < depth; k0 += 32) {
                const eight *const b = reinterpret_cast<const eight *>(m.b + k0 * cols + col), *at = b;
                const float *const a = m.a + row * depth + k0;
                eight *c[AT_ONCE], largest[AT_ONCE], to_units[AT_ONCE], of_unit[AT_ONCE];
                eight_ints sum[AT_ONCE];
#pragma GCC unroll 4
                for (int i = 0; i < AT_ONCE; i++) {
                    c[i] = reinterpret_cast<eight *>(m.c + (row + i) * cols + col);
                    largest[i] = *c[i] * *c[i] + 1e-30f;  // squares: without their signs
                }
                for (int k = 0; k < 32; k++, at += wide) {
                    const eight column = *at;
#pragma GCC unroll 4
                    for (int i = 0; i < AT_ONCE; i++) {
                        const eight x = a[i * depth + k] * column;
                        largest[i] = x * x > largest[i] ? x * x : largest[i];
                    }
                }
#pragma GCC unroll 4
                for (int i = 0; i < AT_ONCE; i++) {
                    eight_ints exponent, units, unit;
                    memcpy(&exponent, &largest[i], sizeof exponent);
                    exponent = ((exponent >> FRACTION) - BIAS) >> 1;  // of the root
                    unit = (exponent - (KEPT - 1) + BIAS) << FRACTION, units = ((KEPT - 1) - exponent + BIAS)
                                                                               << FRACTION;
                    memcpy(&to_units[i], &units, sizeof units), memcpy(&of_unit[i], &unit, sizeof unit);
                    sum[i] = __builtin_convertvector(*c[i] * to_units[i], eight_ints);
                }
                at = b;
                for (int k = 0; k < 32; k++, at += wide) {
                    const eight column = *at;
#pragma GCC unroll 4
                    for (int i = 0; i < AT_ONCE; i++)
                        sum[i] += __builtin_convertvector(a[i * depth + k] * column * to_units[i], eight_ints);
                }
#pragma GCC unroll 4
                for (int i = 0; i < AT_ONCE; i++) *c[i] = __builtin_convertvector(sum[i], eight) * of_unit[i];
            }
}

static inline __attribute__((always_inline)) void multiply_matrices(const matrices &m)
{
    if (m.cut) {
        multiply_cutting(m);
        return;
    }
    for (int row = 0; row < m.rows; row += 4)
        for (int col = 0; col < m.cols; col += 8)
            for (int k0 = 0; k0 < m.depth; k0 += 16) {
                if (m.a_idle && (m.a_idle[(row * m.depth / 4 + k0) / 16] || m.b_idle[(k0 * m.cols / 16 + col) / 8]))
                    continue;
                eight sum[4] = {};
                for (int k = k0; k < k0 + 16; k++) {
                    const eight b = *reinterpret_cast<const eight *>(m.b + k * m.cols + col);
                    for (int i = 0; i < 4; i++) sum[i] += m.a[(row + i) * m.depth + k] * b;
                }
                for (int i = 0; i < 4; i++) *reinterpret_cast<eight *>(m.c + (row + i) * m.cols + col) += sum[i];
            }
}

#ifdef __x86_64__
// The same instructions, twice as wide: the results are the same to the bit.
__attribute__((target("avx2"))) static void multiply_wide(const matrices &m) { multiply_matrices(m); }
static bool is_wide() { return __builtin_cpu_supports("avx2"); }
#else
static void multiply_wide(const matrices &m) { multiply_matrices(m); }
static bool is_wide() { return false; }
#endif

static bool rows_are_alike(const float *x, int rows, int cols)
{
    return !memcmp(x, x + cols, sizeof *x * size_t((rows - 1) * cols));
}

void multiply(const matrices &m)
{
    // Of rows that are alike, as those behind the last query are, so are the results. Four rows are a step.
    matrices some = m;
    if (rows_are_alike(m.a, m.rows, m.depth) && rows_are_alike(m.c, m.rows, m.cols)) some.rows = 4;
    if (is_wide())
        multiply_wide(some);
    else
        multiply_matrices(some);
    for (int row = some.rows; row < m.rows; row++) memcpy(m.c + row * m.cols, m.c, sizeof *m.c * size_t(m.cols));
}

void multiply(void **products, int count)
{
    const warp_product &one = *static_cast<warp_product *>(products[0]);
    matrices m = {nullptr, nullptr, nullptr, 16 * one.rows, 8 * one.cols, 16 * one.depth};
    const size_t a = size_t(m.rows) * m.depth, b = size_t(m.depth) * m.cols;
    const size_t c = size_t(m.rows) * m.cols;
    m.a = room(a + b + c);
    m.b = m.a + a;
    m.c = m.b + b;
    if (count < WARP) memset(m.a, 0, (a + b + c) * sizeof(float));
    for (int lane = 0; lane < count; lane++) {
        const warp_product &p = *static_cast<warp_product *>(products[lane]);
        if (p.rows != one.rows || p.cols != one.cols || p.depth != one.depth)
            report("bad product", {}, "the lanes of a warp multiply matrices of different sizes");
        take(m, p, lane);
    }
    hook_product(m, {});
    float *record = product_begins(m);
    multiply(m);
    product_ends(record, m);
    for (int lane = 0; lane < count; lane++)
        each_two(m, static_cast<warp_product *>(products[lane])->c, lane,
                 [](float *to, const float *at) { to[0] = at[0], to[1] = at[1]; });
}

// ------------------------ ldmatrix
// Four blocks of 8 x 8 from shared memory into the registers of a warp. Each row comes from where one lane says; the
// eight rows of a block are fetched together, in as many passes as two of them share banks.

enum { BLOCKS = 4, BLOCK_ROWS = 8, ROW_BYTES = 16, GROUPS = 8 };  // 32 banks of 4 bytes: a row takes one group of four

struct matrix_request {
    uint32_t *to;
    const char *row;
    bool transposed;
    call_site site;
    void *code;  // where the call returns to
};

static std::atomic<uint64_t> fetches, passes;  // since it was asked last, and of the worst: passes, line, two lanes
static std::atomic<uint64_t> worst;

void count_fetches(wb_asked &since)
{
    const uint64_t w = worst.exchange(0);
    since.fetches = fetches.exchange(0), since.passes = passes.exchange(0);
    since.worst = w >> 42, since.worst_line = w >> 10 & 0xffffffff;
    since.worst_lanes[0] = w >> 5 & 31, since.worst_lanes[1] = w & 31;
}

// How many rows of the same group of banks the fullest group has; rows at the same address are read once.
static void count_passes(const matrix_request *const *rows, int lane0)
{
    uint64_t needed = 1, pair[2] = {0, 0};
    for (int i = 0; i < BLOCK_ROWS; i++) {
        uint64_t in_group = 1, other = 0;
        for (int j = 0; j < i; j++) {
            const uintptr_t apart = uintptr_t(rows[i]->row - rows[j]->row);
            if (!apart) in_group = 0;
            if (!apart) break;
            if (apart / ROW_BYTES % GROUPS == 0) in_group++, other = j;
        }
        if (in_group > needed) needed = in_group, pair[0] = other, pair[1] = i;
    }
    fetches++, passes += needed;
    if (needed == 1) return;
    const uint64_t lanes = (uint64_t(lane0) + pair[0]) << 5 | (uint64_t(lane0) + pair[1]);
    const uint64_t this_one = needed << 42 | uint64_t(rows[0]->site.line) << 10 | lanes;
    uint64_t w = worst;  // of several as bad that of the last line: the same whichever thread comes first
    while (this_one > w && !worst.compare_exchange_weak(w, this_one)) {}
}

static void check_row(thread &t, const matrix_request &r)
{
    const unsigned lane = t.number % WARP;
    const size_t past = address_of(r.row) % ROW_BYTES;
    block &b = *current;
    b.running = &t;
    const bool dynamic = r.row >= b.dynamic_shared && r.row + ROW_BYTES <= b.dynamic_shared + b.config->shared;
    if (!dynamic && !(r.row >= b.static_shared && r.row + ROW_BYTES <= b.static_shared + b.static_used)) {
        char where[256] = "not in shared memory";
        describe_shared_address(b, r.row, where, sizeof where);
        report("bad matrix row", r.site, "ldmatrix: the address from lane %u is %s", lane, where);
    }
    if (past)
        report("misaligned matrix row", r.site, "ldmatrix: the address from lane %u is %zu bytes past a multiple of 16",
               lane, past);
    hook_matrix_row(r.row, ROW_BYTES, r.code);
}

static void load(void **lanes, int count)
{
    const matrix_request *const *all = reinterpret_cast<matrix_request **>(lanes);
    thread *const me = current->running;
    if (count < WARP) report("absent lanes", all[0]->site, "ldmatrix needs all 32 lanes, but only %d call it", count);
    for (int lane = 0; lane < WARP; lane++) check_row(warp_of(*current, *me).threads[lane], *all[lane]);
    current->running = me;
    for (int block = 0; block < BLOCKS; block++) {
        uint16_t x[BLOCK_ROWS][BLOCK_ROWS];
        for (int row = 0; row < BLOCK_ROWS; row++) memcpy(x[row], all[block * BLOCK_ROWS + row]->row, ROW_BYTES);
        for (int lane = 0; lane < WARP; lane++) {
            const int g = lane / 4, t = lane % 4 * 2;
            const bool across = all[lane]->transposed;
            const uint32_t low = across ? x[t][g] : x[g][t], high = across ? x[t + 1][g] : x[g][t + 1];
            all[lane]->to[block] = low | high << 16;
        }
        count_passes(all + block * BLOCK_ROWS, block * BLOCK_ROWS);
    }
}
static void load_transposed(void **lanes, int count) { load(lanes, count); }

// Two functions, so that lanes that call one do not meet lanes that call the other.
void load_matrices(uint32_t *to, const void *row, bool transposed, call_site site)
{
    matrix_request mine = {to, chars(row), transposed, site, __builtin_return_address(0)};
    warp_call(transposed ? load_transposed : load, &mine, site);
}
}
