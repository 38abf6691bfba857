// gradient.c - the oracle's backward against its forward: central differences of the loss sum(dO * O), in double
// precision.
#include "reference/oracle.h"

#include "dice.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 4096 };  // elements of a tensor here

static float Q[MOST], K[MOST], V[MOST], O[MOST], L[MOST], dO[MOST], sinks[MOST];

static void fill(float *x, int count)  // between -2 and 2, exact with the steps below
{
    for (int i = 0; i < count; i++) x[i] = (float)(below(1024) - 512) / 256;
}

// Also writes O and L if asked to.
static double loss(const wb_problem *p, const attention_shape *s, bool write)
{
    double sum = 0, o[128], l;
    for (int b = 0; b < s->batch; b++)
        for (int h = 0; h < s->q_heads; h++)
            for (int i = 0; i < s->q_len; i++) {
                const int row = (b * s->q_heads + h) * s->q_len + i;
                oracle_attention_row(p, s, Q, K, V, p->sink_logits ? sinks : NULL, b, h, i, o, &l);
                for (int d = 0; d < s->head_dim; d++) {
                    sum += dO[row * s->head_dim + d] * o[d];
                    if (write) O[row * s->head_dim + d] = (float)o[d];
                }
                if (write) L[row] = (float)l;
            }
    return sum;
}

// By five points: the error is of the order of step^4.
static double slope(const wb_problem *p, const attention_shape *s, float *x)
{
    const float step = 1.0f / 128, at = *x;
    double f[4];
    const float to[4] = {at - 2 * step, at - step, at + step, at + 2 * step};
    for (int k = 0; k < 4; k++) *x = to[k], f[k] = loss(p, s, false);
    *x = at;
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * (double)step);
}

// The relative error, by the largest entry, of a gradient.
static void compare(const wb_problem *p, const attention_shape *s, const char *name, float *x, const oracle_sum *got,
                    int count)
{
    double error = 0, largest = 0;
    for (int i = 0; i < count; i++) {
        const double want = slope(p, s, &x[i]);
        error = fmax(error, fabs(got[i].value - want));
        largest = fmax(largest, fabs(want));
    }
    cr_assert(error <= 1e-6 * largest && largest > 0, "%s of %s: error %.2g, the largest entry is %.2g", name, p->name,
              error, largest);
}

static void check(const char *name, attention_shape s)
{
    const wb_problem *p = wb_find_problem(name);
    const int D = s.head_dim, queries = s.batch * s.q_heads * s.q_len, keys = s.batch * s.kv_heads * s.kv_len;
    cr_assert(p && queries * D <= MOST && keys * D <= MOST);
    fill(Q, queries * D);
    fill(K, keys * D);
    fill(V, keys * D);
    fill(dO, queries * D);
    fill(sinks, s.q_heads);
    loss(p, &s, true);

    oracle_sum *dQ = calloc((size_t)(queries * D), sizeof *dQ), *dK = calloc((size_t)(keys * D), sizeof *dK),
               *dV = calloc((size_t)(keys * D), sizeof *dV), delta;
    const oracle_inputs in = {p, &s, Q, K, V, O, L, dO, sinks};
    for (int row = 0; row < queries; row++)
        oracle_backward_query(&in, row / s.q_len / s.q_heads, row / s.q_len % s.q_heads, row % s.q_len, dQ + row * D,
                              &delta);
    for (int row = 0; row < keys; row++)
        oracle_backward_key(&in, row / s.kv_len / s.kv_heads, row / s.kv_len % s.kv_heads, row % s.kv_len, dK + row * D,
                            dV + row * D);
    compare(p, &s, "dQ", Q, dQ, queries * D);
    compare(p, &s, "dK", K, dK, keys * D);
    compare(p, &s, "dV", V, dV, keys * D);
    free(dQ), free(dK), free(dV);
    if (!p->sink_logits) return;
    oracle_sum dsinks[16];
    cr_assert(s.q_heads <= 16);
    for (int h = 0; h < s.q_heads; h++) oracle_backward_sink(&in, h, &dsinks[h]);
    compare(p, &s, "dsinks", sinks, dsinks, s.q_heads);
}

static attention_shape of(int B, int Hq, int Hkv, int N, int D, int W, int S)
{
    return (attention_shape){B, Hq, Hkv, N, N, D, .scale = 1 / sqrtf((float)D), .causal = 1, .window = W, .sinks = S};
}

Test(gradient, causal) { check("flash_gqa_backward", of(1, 1, 1, 9, 8, 0, 0)); }
Test(gradient, grouped_heads) { check("flash_gqa_backward", of(2, 4, 2, 5, 4, 0, 0)); }
Test(gradient, another_scale)
{
    attention_shape s = of(1, 1, 1, 7, 4, 0, 0);
    s.scale = 0.3f;
    check("flash_gqa_backward", s);
}
Test(gradient, window_and_sinks) { check("flash_sinks_backward", of(1, 2, 1, 9, 4, 3, 2)); }
Test(gradient, sink_logits) { check("flash_sink_logits_backward", of(1, 2, 1, 9, 4, 3, 0)); }
Test(gradient, sink_logits_of_batches) { check("flash_sink_logits_backward", of(2, 4, 2, 5, 4, 9, 0)); }

// A sink logit is one more term of the denominator: as much weight as a key with this logit, and V = 0, would have.
Test(gradient, a_sink_is_a_key_without_a_value)
{
    wb_problem with = *wb_find_problem("flash_forward");
    with.sink_logits = true;
    const attention_shape s = {
        .batch = 1, .q_heads = 1, .kv_heads = 1, .q_len = 1, .kv_len = 3, .head_dim = 2, .scale = 0.5f};
    attention_shape longer = s;
    longer.kv_len = 4;
    const float logits[] = {-1.5f, 0, 3, 80, -80};
    for (int k = 0; k < 5; k++) {
        const float q[] = {1, 2}, keys[] = {1, 1, -2, 0.5f, 0, 3, 2 * logits[k], 0};
        const float values[] = {1, 2, 3, 4, 5, 6, 0, 0};
        double o[2], l, o_of_key[2], l_of_key;
        oracle_attention_row(&with, &s, q, keys, values, &logits[k], 0, 0, 0, o, &l);
        oracle_attention_row(wb_find_problem("flash_forward"), &longer, q, keys, values, NULL, 0, 0, 0, o_of_key,
                             &l_of_key);
        for (int d = 0; d < 2; d++) cr_expect(fabs(o[d] - o_of_key[d]) <= 1e-14 * fabs(o[d]), "s = %g", logits[k]);
        cr_expect(fabs(l - l_of_key) <= 1e-14 * fabs(l), "s = %g", logits[k]);
    }
}
