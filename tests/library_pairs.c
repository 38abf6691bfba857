// library_pairs.c - what the library has for pairs of chunks, each of its kernels by its own name
// (libworkbook_all.so): gradients are added as wb_attention_backward promises (workbook.h), beside float64, over what
// was there before, with rows around that are none of its own. Of shapes that are drawn, and one for each way in which
// the work is shared out. Plain C, device memory through workbook.h. Run by library.sh.
#include "dice.h"
#include "predict.h"
#include "workbook.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef wb_status adds_pair(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                            const bf16 *dO, const float *L, const float *delta, const attention_shape *shape,
                            wb_stream stream);

static unsigned pair_number(void) { return (unsigned)(dice() >> 33); }  // 31 bits
static double pair_normal(void)                                         // nearly
{
    double sum = 0;
    for (int k = 0; k < 6; k++) sum += pair_number() / 2147483648.0;
    return (sum - 3) * 1.4142135;
}

// The tensors of a case; in `want` their gradients beside what was there; in `off` how far off a result may be.
typedef struct pair_tensor {
    size_t count;
    bf16 *bits;              // of an input, and
    float *x;                // its values; of an output what is there before
    double *sums, *squares;  // of an output: its terms
    void *device;
} pair_tensor;
enum { PAIR_DQ, PAIR_DK, PAIR_DV, PAIR_Q, PAIR_K, PAIR_V, PAIR_DO, PAIR_L, PAIR_DELTA, PAIR_TENSORS };
enum { PAIR_GUARD = 256 };  // elements before and after each output

static void *pair_room(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p) exit(printf("library_pairs: no memory\n"));
    return p;
}

// Fills a tensor with normal numbers that bf16 has.
static void pair_fill(pair_tensor *t)
{
    t->bits = (bf16 *)pair_room(t->count, sizeof *t->bits);
    for (size_t n = 0; n < t->count; n++) {
        t->x[n] = (float)pair_normal();
        uint32_t word;
        memcpy(&word, &t->x[n], 4);
        word &= 0xffff0000u;
        memcpy(&t->x[n], &word, 4);
        memcpy(&t->bits[n], (const char *)&word + 2, 2);
    }
}

static void pair_add(pair_tensor *t, size_t row, int D, double x, const float *times)
{
    for (int d = 0; d < D; d++) {
        const double term = x * times[d];
        t->sums[row * D + d] += term, t->squares[row * D + d] += term * term;
    }
}

static double pair_dot(const float *a, const float *b, int D)
{
    double sum = 0;
    for (int d = 0; d < D; d++) sum += (double)a[d] * b[d];
    return sum;
}

// The sums, in float64. L is that of a row that sees other keys, too.
static void pair_expect(pair_tensor *t, const attention_shape *s)
{
    const int D = s->head_dim;
    double *S = (double *)pair_room((size_t)s->kv_len, sizeof *S);
    for (int b = 0; b < s->batch; b++)
        for (int h = 0; h < s->q_heads; h++)
            for (int i = 0; i < s->q_len; i++) {
                const size_t kv = (size_t)b * s->kv_heads + h / (s->q_heads / s->kv_heads),
                             row = ((size_t)b * s->q_heads + h) * s->q_len + i;
                const float *q = t[PAIR_Q].x + row * D, *g = t[PAIR_DO].x + row * D;
                const int seen = s->causal ? i + 1 : s->kv_len;
                double most = -INFINITY, l = 0;
                for (int j = 0; j < seen; j++) {
                    S[j] = s->scale * pair_dot(q, t[PAIR_K].x + (kv * s->kv_len + j) * D, D);
                    most = fmax(most, S[j]);
                }
                for (int j = 0; j < seen; j++) l += exp(S[j] - most);
                const float L = t[PAIR_L].x[row] = (float)(most + log(l) + pair_number() % 3);
                const float delta = t[PAIR_DELTA].x[row] = (float)pair_normal();
                for (int j = 0; j < seen; j++) {
                    const size_t key = kv * s->kv_len + j;
                    const double P = exp(S[j] - L), dP = pair_dot(g, t[PAIR_V].x + key * D, D);
                    pair_add(&t[PAIR_DQ], row, D, P * (dP - delta) * s->scale, t[PAIR_K].x + key * D);
                    pair_add(&t[PAIR_DK], key, D, P * (dP - delta) * s->scale, q);
                    pair_add(&t[PAIR_DV], key, D, P, g);
                }
            }
    free(S);
}

#define PAIR_TRY(call) \
    do { \
        if ((call) != WB_OK) return printf("%s: %s\n", #call, wb_last_message()), false; \
    } while (0)

// rounding: of a term, of 1. Whether all is right; if not, it has been said.
static bool pair_is_right(adds_pair *add, attention_shape shape, double rounding)
{
    static const char *const names[] = {"dQ", "dK", "dV"};
    const size_t queries = (size_t)shape.batch * shape.q_heads * shape.q_len,
                 keys = (size_t)shape.batch * shape.kv_heads * shape.kv_len;
    pair_tensor t[PAIR_TENSORS];
    memset(t, 0, sizeof t);
    for (int k = 0; k < PAIR_TENSORS; k++) {
        const bool of_keys = k == PAIR_DK || k == PAIR_DV || k == PAIR_K || k == PAIR_V;
        t[k].count = (of_keys ? keys : queries) * (k >= PAIR_L ? 1 : (size_t)shape.head_dim);
        t[k].x = (float *)pair_room(t[k].count + 2 * PAIR_GUARD, sizeof *t[k].x);
        if (k >= PAIR_Q && k < PAIR_L) pair_fill(&t[k]);
        if (k >= PAIR_Q) continue;
        t[k].sums = (double *)pair_room(t[k].count, sizeof *t[k].sums);
        t[k].squares = (double *)pair_room(t[k].count, sizeof *t[k].squares);
        for (size_t n = 0; n < t[k].count + 2 * PAIR_GUARD; n++) t[k].x[n] = (float)pair_normal();
    }
    pair_expect(t, &shape);
    for (int k = 0; k < PAIR_TENSORS; k++) {
        const size_t bytes = t[k].bits ? t[k].count * 2 : (t[k].count + (k < PAIR_Q ? 2 * PAIR_GUARD : 0)) * 4;
        PAIR_TRY(wb_device_alloc(&t[k].device, bytes));
        PAIR_TRY(wb_copy_to_device(t[k].device, t[k].bits ? (void *)t[k].bits : t[k].x, bytes));
    }
    float *out[3];
    for (int k = 0; k < 3; k++) out[k] = (float *)t[k].device + PAIR_GUARD;
    PAIR_TRY(add(out[0], out[1], out[2], (bf16 *)t[PAIR_Q].device, (bf16 *)t[PAIR_K].device, (bf16 *)t[PAIR_V].device,
                 (bf16 *)t[PAIR_DO].device, (float *)t[PAIR_L].device, (float *)t[PAIR_DELTA].device, &shape, NULL));
    PAIR_TRY(wb_device_synchronize());
    bool right = true;
    for (int k = 0; k < 3; k++) {
        const size_t count = t[k].count + 2 * PAIR_GUARD;
        float *got = (float *)pair_room(count, sizeof *got);
        PAIR_TRY(wb_copy_to_host(got, t[k].device, count * 4));
        for (size_t n = 0; n < count && right; n++) {
            const bool ours = n >= PAIR_GUARD && n < PAIR_GUARD + t[k].count;
            const size_t at = n - PAIR_GUARD;
            const double want = t[k].x[n] + (ours ? t[k].sums[at] : 0);
            const double off = ours ? rounding * sqrt(t[k].squares[at]) + 1e-5 * (1 + fabs(want)) : 0;
            right = isfinite(got[n]) && fabs(got[n] - want) <= off;
            if (!right)
                printf("B%d H%d/%d N%d/%d D%d causal %d: %s%s: row %ld, %ld: is %.9g, should be %.9g, within %g\n",
                       shape.batch, shape.q_heads, shape.kv_heads, shape.q_len, shape.kv_len, shape.head_dim,
                       shape.causal, names[k], ours ? "" : ", which is not its own", (long)at / shape.head_dim,
                       (long)at % shape.head_dim, got[n], want, off);
        }
        free(got);
    }
    for (int k = 0; k < PAIR_TENSORS; k++)
        wb_device_free(t[k].device), free(t[k].bits), free(t[k].x), free(t[k].sums), free(t[k].squares);
    return right;
}

adds_pair flash_gqa_backward_add_hopper, flash_gqa_backward_add_hopper_same_bits;

// In the place of the library's: of 80 multiprocessors a block has many works in smaller shapes.
wb_device wb_this_device(void) { return (wb_device){wb_device_capability(), 80, 1980, 4814, NULL}; }

// In bf16 a number is right to 2^-8 of itself; P and dS are rounded to that.
static const double rounding = 1.0 / 64;

// Lengths of all kinds: short, around tiles, longer.
static int pair_length(int longest)
{
    const unsigned kind = pair_number() % 4;
    const int length = kind == 0   ? 1 + (int)(pair_number() % 8)
                       : kind == 1 ? 64 * (1 + (int)(pair_number() % 4)) + (int)(pair_number() % 3) - 1
                                   : 1 + (int)(pair_number() % (unsigned)longest);
    return length < longest ? length : longest;
}

// So many shapes, drawn: heads in groups, D 64 and 128, under the diagonal and without a mask.
static bool pairs_are_right(adds_pair *add, unsigned seed, int shapes, int longest, double rounding)
{
    dice_state = seed;
    for (int n = 0; n < shapes; n++) {
        const int batch = 1 + (int)(pair_number() % 2), kv_heads = 1 + (int)(pair_number() % 3),
                  group = 1 + (int)(pair_number() % 4), D = n % 2 ? 128 : 64, causal = n / 2 % 2;
        attention_shape shape = {
            batch, group * kv_heads, kv_heads, pair_length(longest), pair_length(longest), D, 0.1f, causal, 0, 0};
        if (causal) shape.kv_len = shape.q_len;
        if (!pair_is_right(add, shape, rounding)) return printf("of seed %u, shape %d\n", seed, n), false;
    }
    return true;
}

static bool is_right(const char *name, adds_pair *add, unsigned seed, int drawn, bool shares)
{
    static const attention_shape shapes[] = {
        // B, Hq, Hkv, Nq, Nk, D, scale, causal
        {1, 1, 1, 1, 700, 64, 0.1f, 0, 0, 0},   {1, 8, 1, 600, 1, 128, 0.1f, 0, 0, 0},  // parts that lie apart
        {45, 13, 1, 60, 5, 128, 0.1f, 0, 0, 0},                                         // parts in turns
        {244, 1, 1, 20, 33, 64, 0.1f, 0, 0, 0},                                         // many works a block
        {89, 10, 1, 60, 5, 128, 0.1f, 0, 0, 0},                                         // and in turns
    };
    bool right = pairs_are_right(add, seed, drawn, 300, rounding);
    for (size_t n = 0; shares && n < sizeof shapes / sizeof *shapes && right; n++)
        right = pair_is_right(add, shapes[n], rounding);
    if (!right) printf("FAIL  %s\n", name);
    return right;
}

int main(void)
{
    const unsigned seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1;
    bool right = is_right("wb_attention_backward", wb_attention_backward, seed, 4, false);
    if (wb_device_capability() == 9) {
        right &= is_right("flash_gqa_backward_add_hopper", flash_gqa_backward_add_hopper, seed + 1, 16, true);
        right &= is_right("flash_gqa_backward_add_hopper_same_bits", flash_gqa_backward_add_hopper_same_bits, seed + 2,
                          16, true);
    }
    return !right;
}
