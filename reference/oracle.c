#include "oracle.h"

#include <math.h>
#include <stdlib.h>

// A suite's judge spends most of its time in these. Compiled for AVX2, too, and chosen when the program starts.
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__ && !defined __SANITIZE_ADDRESS__ &&                  \
    !defined __SANITIZE_THREAD__
#define ORACLE_LOOPS __attribute__((target_clones("avx2", "default")))
#else
#define ORACLE_LOOPS
#endif

bool oracle_visible(const wb_problem *problem, const attention_shape *shape, int i, int j)
{
    if (problem->mask == WB_NO_MASK || !shape->causal) return true;
    if (j > i) return false;
    if (!problem->window) return true;
    return j > i - shape->window || (problem->sinks && j < shape->sinks);
}

// The first key from j on that query i may see, or kv_len: nothing between is asked, for that would take the square of
// the tokens.
static size_t seen_from(const wb_problem *problem, const attention_shape *shape, int i, size_t j)
{
    if (problem->mask == WB_NO_MASK || !shape->causal) return j;
    if (j > (size_t)i) return (size_t)shape->kv_len;
    const bool left = problem->window && (int)j <= i - shape->window;
    return left && !(problem->sinks && (int)j < shape->sinks) ? (size_t)(i - shape->window + 1) : j;
}

// a . b, and the sum of |a[d] b[d]|. Eight at a time, and written so, for of its own gcc adds up the eight in turn.
typedef struct product {
    double sum, size;
} product;

typedef float eight_floats __attribute__((vector_size(32), aligned(sizeof(float)), may_alias));
typedef double eight __attribute__((vector_size(64)));
typedef double four __attribute__((vector_size(32), may_alias));
typedef int64_t eight_words __attribute__((vector_size(64)));

static inline eight sizes_of(eight x) { return (eight)((eight_words)x & INT64_MAX); }

static inline double total(eight x)
{
    const four *halves = (const four *)&x, sum = halves[0] + halves[1];
    return sum[0] + sum[2] + (sum[1] + sum[3]);
}

static inline __attribute__((always_inline)) product product_of(const float *a, const float *b, size_t D)
{
    eight sums[2] = {{0}, {0}}, sizes[2] = {{0}, {0}};  // two of each: an addition need not wait for the one before
    size_t d = 0;
    for (; d + 16 <= D; d += 16)
        for (size_t k = 0; k < 2; k++) {
            const eight term = __builtin_convertvector(*(const eight_floats *)(a + d + 8 * k), eight) *
                               __builtin_convertvector(*(const eight_floats *)(b + d + 8 * k), eight);
            sums[k] += term, sizes[k] += sizes_of(term);
        }
    product p = {total(sums[0] + sums[1]), total(sizes[0] + sizes[1])};
    for (; d < D; d++) p.sum += (double)a[d] * b[d], p.size += fabs((double)a[d] * b[d]);
    return p;
}

void oracle_attention_row(const wb_problem *problem, const attention_shape *shape, const float *Q, const float *K,
                          const float *V, const float *sink_logits, int b, int h, int i, double *O, double *L)
{
    oracle_attention_row_scales(problem, shape, Q, K, V, sink_logits, b, h, i, O, L, NULL, NULL);
}

// mask: null where the problem's own formula tells who sees whom. P: null, or room for the weights.
ORACLE_LOOPS static void row_scales(const wb_problem *problem, const oracle_mask *mask, const attention_shape *shape,
                                    const float *Q, const float *K, const float *V, const float *sink_logits, int b,
                                    int h, int i, double *O, double *L, double *abs_V, double *logit, double *P)
{
    const size_t D = (size_t)shape->head_dim, Nk = (size_t)shape->kv_len;
    const size_t q_row = ((size_t)b * (size_t)shape->q_heads + (size_t)h) * (size_t)shape->q_len + (size_t)i;
    const size_t kv_head = (size_t)b * (size_t)shape->kv_heads + (size_t)(h / (shape->q_heads / shape->kv_heads));
    K += kv_head * Nk * D;
    V += kv_head * Nk * D;

    // who is seen, and how they score
    const double sink = sink_logits ? sink_logits[h] : -INFINITY;
    double *S = malloc(Nk * sizeof *S), m = sink, l = 0, largest = 0;
    size_t *seen = malloc(Nk * sizeof *seen), count = 0;
    if (!S || !seen) abort();
    for (size_t j = 0; j < Nk; j++) {
        if (!mask && (j = seen_from(problem, shape, i, j)) >= Nk) break;
        if (mask && !mask->sees(mask->of, mask->b, i, (int)j)) continue;
        const product p = product_of(Q + q_row * D, K + j * D, D);
        S[count] = shape->scale * p.sum;
        m = S[count] > m ? S[count] : m;
        largest = shape->scale * p.size > largest ? shape->scale * p.size : largest;
        seen[count++] = j;
    }

    // their weights
    if (sink > -INFINITY) l = exp(sink - m);  // a term of the sum, like a key's; it has no row of V
    for (size_t n = 0; n < count; n++) l += S[n] = exp(S[n] - m);
    const double per = l > 0 ? 1 / l : 1;
    *L = m + log(l);
    if (logit) *logit = largest;
    for (size_t j = 0; P && j < Nk; j++) P[j] = 0;
    for (size_t n = 0; P && n < count; n++) P[seen[n]] = S[n] * per;

    // O
    double sizes[WB_MAX_HEAD_DIM];
    if (!abs_V) abs_V = sizes;
    for (size_t d = 0; d < D; d++) O[d] = abs_V[d] = 0;
    for (size_t n = 0; n < count; n++) {
        const float *v = V + seen[n] * D;
        const double p = S[n] * per;
#pragma omp simd
        for (size_t d = 0; d < D; d++) O[d] += p * v[d], abs_V[d] += p * fabs((double)v[d]);
    }
    free(S), free(seen);
}

void oracle_attention_row_scales(const wb_problem *problem, const attention_shape *shape, const float *Q,
                                 const float *K, const float *V, const float *sink_logits, int b, int h, int i,
                                 double *O, double *L, double *abs_V, double *logit)
{
    row_scales(problem, NULL, shape, Q, K, V, sink_logits, b, h, i, O, L, abs_V, logit, NULL);
}

void oracle_attention_row_weights(const wb_problem *problem, const attention_shape *shape, const float *Q,
                                  const float *K, const float *V, int b, int h, int i, double *O, double *L,
                                  double *abs_V, double *logit, double *P)
{
    row_scales(problem, NULL, shape, Q, K, V, NULL, b, h, i, O, L, abs_V, logit, P);
}

void oracle_masked_row_scales(const oracle_mask *mask, const attention_shape *shape, const float *Q, const float *K,
                              const float *V, int b, int h, int i, double *O, double *L, double *abs_V, double *logit)
{
    row_scales(NULL, mask, shape, Q, K, V, NULL, b, h, i, O, L, abs_V, logit, NULL);
}

// ------------------------ decode

void oracle_gather(const decode_shape *shape, const float *cache, const int *table, int kv_head, int keys, float *rows)
{
    const size_t D = (size_t)shape->head_dim, page_size = (size_t)shape->page_size, heads = (size_t)shape->kv_heads;
    for (size_t j = 0; j < (size_t)keys; j++) {
        const size_t page = (size_t)table[j / page_size], row = j % page_size;
        for (size_t d = 0; d < D; d++)
            rows[j * D + d] = cache[((page * page_size + row) * heads + (size_t)kv_head) * D + d];
    }
}

int oracle_decode_keys(const decode_shape *shape, int kv_len, int i)
{
    const int keys = kv_len - shape->q_len + i + 1;
    return keys < 0 ? 0 : keys;
}

void oracle_decode_row(const decode_shape *shape, const float *q, const float *K, const float *V, int keys, double *O,
                       double *L, double *abs_V, double *logit)
{
    static const wb_problem no_mask = {.mask = WB_NO_MASK};
    const attention_shape one = {1, 1, 1, 1, keys, shape->head_dim, shape->scale, 0, 0, 0};
    if (keys > 0) {
        oracle_attention_row_scales(&no_mask, &one, q, K, V, NULL, 0, 0, 0, O, L, abs_V, logit);
        return;
    }
    for (int d = 0; d < shape->head_dim; d++) O[d] = abs_V[d] = 0;
    *L = -INFINITY, *logit = 0;
}

// ------------------------ backward
// P = exp(S - L), dP = dO V^T, dS = P (dP - delta), delta = rowsum(dO * O), for one query and one key at a time.

typedef struct pair {
    double P, dS;
    double exponent, cancel;  // as in oracle_sum
} pair;

// Rows of Q, K, ...: counted through all heads and batches.
static inline __attribute__((always_inline)) pair pair_of(const oracle_inputs *in, size_t q_row, size_t kv_row,
                                                          product delta)
{
    const size_t D = (size_t)in->shape->head_dim;
    const product S = product_of(in->Q + q_row * D, in->K + kv_row * D, D);
    const product dP = product_of(in->dO + q_row * D, in->V + kv_row * D, D);
    const double L = in->L[q_row], P = exp(in->shape->scale * S.sum - L);
    return (pair){P, P * (dP.sum - delta.sum), in->shape->scale * S.size + fabs(L), P * (dP.size + delta.size)};
}

// The four sums of an oracle_sum, of each element of a row.
typedef struct row_sums {
    double value[WB_MAX_HEAD_DIM], size[WB_MAX_HEAD_DIM], exponent[WB_MAX_HEAD_DIM], cancel[WB_MAX_HEAD_DIM];
} row_sums;

// sum[d] += term of a pair times x[d].
static inline __attribute__((always_inline)) void add(row_sums *sum, const pair *p, double term, double cancel,
                                                      const float *x, size_t D)
{
    const double size = fabs(term), exponent = fabs(term) * p->exponent;
#pragma omp simd
    for (size_t d = 0; d < D; d++) {
        const double X = x[d], abs_X = fabs(X);
        sum->value[d] += term * X, sum->size[d] += size * abs_X;
        sum->exponent[d] += exponent * abs_X, sum->cancel[d] += cancel * abs_X;
    }
}

static void hand_over(oracle_sum *to, const row_sums *sum, size_t D)
{
    for (size_t d = 0; d < D; d++) to[d] = (oracle_sum){sum->value[d], sum->size[d], sum->exponent[d], sum->cancel[d]};
}

ORACLE_LOOPS void oracle_backward_query(const oracle_inputs *in, int b, int h, int i, oracle_sum *dQ, oracle_sum *delta)
{
    const attention_shape *s = in->shape;
    const size_t D = (size_t)s->head_dim, Nk = (size_t)s->kv_len;
    const size_t q_row = ((size_t)b * (size_t)s->q_heads + (size_t)h) * (size_t)s->q_len + (size_t)i;
    const size_t kv_head = (size_t)b * (size_t)s->kv_heads + (size_t)(h / (s->q_heads / s->kv_heads));
    const product of_row = product_of(in->dO + q_row * D, in->O + q_row * D, D);
    row_sums sum = {{0}, {0}, {0}, {0}};
    for (size_t j = 0; j < Nk; j++) {
        if ((j = seen_from(in->problem, s, i, j)) >= Nk) break;
        const pair p = pair_of(in, q_row, kv_head * Nk + j, of_row);
        add(&sum, &p, s->scale * p.dS, s->scale * p.cancel, in->K + (kv_head * Nk + j) * D, D);
    }
    *delta = (oracle_sum){of_row.sum, of_row.size, 0, 0};
    hand_over(dQ, &sum, D);
}

ORACLE_LOOPS void oracle_backward_key(const oracle_inputs *in, int b, int h, int j, oracle_sum *dK, oracle_sum *dV)
{
    const attention_shape *s = in->shape;
    const size_t D = (size_t)s->head_dim, Nq = (size_t)s->q_len, group = (size_t)(s->q_heads / s->kv_heads);
    const size_t kv_head = (size_t)b * (size_t)s->kv_heads + (size_t)h;
    row_sums of_dK = {{0}, {0}, {0}, {0}}, of_dV = {{0}, {0}, {0}, {0}};
    for (size_t q_head = kv_head * group; q_head < (kv_head + 1) * group; q_head++)
        for (size_t i = 0; i < Nq; i++) {
            if (!oracle_visible(in->problem, s, (int)i, j)) continue;
            const size_t q_row = q_head * Nq + i;
            const pair p = pair_of(in, q_row, kv_head * (size_t)s->kv_len + (size_t)j,
                                   product_of(in->dO + q_row * D, in->O + q_row * D, D));
            add(&of_dK, &p, s->scale * p.dS, s->scale * p.cancel, in->Q + q_row * D, D);
            add(&of_dV, &p, p.P, 0, in->dO + q_row * D, D);
        }
    hand_over(dK, &of_dK, D), hand_over(dV, &of_dV, D);
}

// dL/ds of a row is its sink's weight, exp(s - L), and the sink's dP is 0: so dS = P (dP - delta) is -exp(s - L) delta.
void oracle_backward_sink(const oracle_inputs *in, int h, oracle_sum *dsink)
{
    const attention_shape *s = in->shape;
    const size_t D = (size_t)s->head_dim, Nq = (size_t)s->q_len;
    const double sink = in->sink_logits[h];
    *dsink = (oracle_sum){0};
    if (sink == -INFINITY) return;
    for (size_t b = 0; b < (size_t)s->batch; b++)
        for (size_t i = 0; i < Nq; i++) {
            const size_t row = (b * (size_t)s->q_heads + (size_t)h) * Nq + i;
            const product delta = product_of(in->dO + row * D, in->O + row * D, D);
            const double P = exp(sink - in->L[row]);
            dsink->value -= P * delta.sum;
            dsink->size += fabs(P * delta.sum);
            dsink->exponent += fabs(P * delta.sum) * (fabs(sink) + fabs((double)in->L[row]));
            dsink->cancel += P * delta.size;
        }
}

// ------------------------ row sum

void oracle_row_sum(const float *x, const float *w, int rows, int cols, double *y, double *terms)
{
    for (size_t i = 0; i < (size_t)rows; i++) {
        double sum = 0, absolute = 0;
        for (size_t j = 0; j < (size_t)cols; j++) {
            const double term = (double)x[i * (size_t)cols + j] * w[j];
            sum += term;
            absolute += fabs(term);
        }
        y[i] = sum;
        if (terms) terms[i] = absolute;
    }
}
