#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    if (oracle_visible(problem, shape, i, (int)j)) return j;
    return j > (size_t)i ? (size_t)shape->kv_len : (size_t)(i - shape->window + 1);
}

static void *room(size_t count, size_t size)
{
    void *memory = malloc((count + 1) * size);
    if (!memory) abort();
    return memory;
}

// a . b, and the sum of |a[d] b[d]|. Eight at a time, and written so, for of its own gcc adds up the eight in turn.
typedef struct product {
    double sum, size;
} product;

typedef double eight __attribute__((vector_size(64)));
typedef double eight_anywhere __attribute__((vector_size(64), aligned(sizeof(double)), may_alias));
typedef double four __attribute__((vector_size(32), may_alias));
typedef int64_t eight_words __attribute__((vector_size(64)));

// No functions: where a vector of eight is passed depends on the processor.
#define EIGHT_AT(x) ((eight) * (const eight_anywhere *)(x))
#define SIZES_OF(x) ((eight)((eight_words)(x)&INT64_MAX))

static inline double total(const eight x[2])
{
    const four *quarters = (const four *)x, sum = quarters[0] + quarters[1] + (quarters[2] + quarters[3]);
    return sum[0] + sum[2] + (sum[1] + sum[3]);
}

static inline __attribute__((always_inline)) product product_of(const double *a, const double *b, size_t D)
{
    eight sums[2] = {{0}, {0}}, sizes[2] = {{0}, {0}};  // two of each: an addition need not wait for the one before
    size_t d = 0;
    for (; d + 16 <= D; d += 16)
        for (size_t k = 0; k < 2; k++) {
            const eight term = EIGHT_AT(a + d + 8 * k) * EIGHT_AT(b + d + 8 * k);
            sums[k] += term, sizes[k] += SIZES_OF(term);
        }
    product p = {total(sums), total(sizes)};
    for (; d < D; d++) p.sum += a[d] * b[d], p.size += fabs(a[d] * b[d]);
    return p;
}

// Columns d, d + 1, ... of the sum of p[n] times row rows[n] of V, eight times `eights` of them, and the same of sizes.
static inline __attribute__((always_inline)) void add_columns(double *O, double *abs_V, const double *p,
                                                              const size_t *rows, size_t count, const double *V,
                                                              size_t D, size_t d, size_t eights)
{
    eight sums[4] = {{0}, {0}, {0}, {0}}, sizes[4] = {{0}, {0}, {0}, {0}};
    for (size_t n = 0; n < count; n++)
        for (size_t k = 0; k < eights; k++) {
            const eight x = EIGHT_AT(V + rows[n] * D + d + 8 * k);
            sums[k] += p[n] * x, sizes[k] += p[n] * SIZES_OF(x);
        }
    memcpy(O + d, sums, eights * sizeof *sums);
    if (abs_V) memcpy(abs_V + d, sizes, eights * sizeof *sizes);
}

void oracle_attention_row(const oracle_inputs *in, int b, int h, int i, double *O, double *L, double *abs_V,
                          double *logit, double *P)
{
    const attention_shape *shape = in->shape;
    const oracle_mask *mask = in->mask;
    const size_t D = shape->head_dim, Nk = shape->kv_len;
    const size_t q_row = ((size_t)b * (size_t)shape->q_heads + h) * (size_t)shape->q_len + i;
    const size_t kv_head = (size_t)b * (size_t)shape->kv_heads + h / (shape->q_heads / shape->kv_heads);
    const double *Q = in->Q, *K = in->K + kv_head * Nk * D, *V = in->V + kv_head * Nk * D;

    // who is seen, and how they score
    const double sink = in->sink_logits ? in->sink_logits[h] : -INFINITY;
    double *S = room(Nk, sizeof *S), m = sink, l = 0, largest = 0;
    size_t *seen = room(Nk, sizeof *seen), count = 0;
    for (size_t j = 0; j < Nk; j++) {
        if (!mask && (j = seen_from(in->problem, shape, i, j)) >= Nk) break;
        if (mask && !mask->sees(mask->of, mask->b, i, j)) continue;
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
    size_t d = 0;
    for (; d + 32 <= D; d += 32) add_columns(O, abs_V, S, seen, count, V, D, d, 4);
    for (; d + 8 <= D; d += 8) add_columns(O, abs_V, S, seen, count, V, D, d, 1);
    for (; d < D; d++) {
        double sum = 0, size = 0;
        for (size_t n = 0; n < count; n++) sum += S[n] * V[seen[n] * D + d], size += S[n] * fabs(V[seen[n] * D + d]);
        O[d] = sum;
        if (abs_V) abs_V[d] = size;
    }
    for (d = 0; d < D; d++) {
        O[d] *= per;
        if (abs_V) abs_V[d] *= per;
    }
    free(S), free(seen);
}

// ------------------------ decode

void oracle_gather(const decode_shape *shape, const double *cache, const int *table, int kv_head, int keys,
                   double *rows)
{
    const size_t D = shape->head_dim, page_size = shape->page_size, heads = shape->kv_heads;
    for (size_t j = 0; j < (size_t)keys; j++) {
        const size_t page = table[j / page_size], row = j % page_size;
        for (size_t d = 0; d < D; d++) rows[j * D + d] = cache[((page * page_size + row) * heads + kv_head) * D + d];
    }
}

int oracle_decode_keys(const decode_shape *shape, int kv_len, int i)
{
    const int keys = kv_len - shape->q_len + i + 1;
    return keys < 0 ? 0 : keys;
}

void oracle_decode_row(const decode_shape *shape, const double *q, const double *K, const double *V, int keys,
                       double *O, double *L, double *abs_V, double *logit)
{
    static const wb_problem no_mask = {.mask = WB_NO_MASK};
    const attention_shape one = {1, 1, 1, 1, keys, shape->head_dim, shape->scale, 0, 0, 0};
    if (keys > 0) {
        oracle_attention_row(&(oracle_inputs){&no_mask, &one, q, K, V, .mask = NULL}, 0, 0, 0, O, L, abs_V, logit,
                             NULL);
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
    const size_t D = in->shape->head_dim;
    const product S = product_of(in->Q + q_row * D, in->K + kv_row * D, D);
    const product dP = product_of(in->dO + q_row * D, in->V + kv_row * D, D);
    const double L = in->L[q_row], P = exp(in->shape->scale * S.sum - L);
    return (pair){P, P * (dP.sum - delta.sum), in->shape->scale * S.size + fabs(L), P * (dP.size + delta.size)};
}

// What a pair's term is multiplied with: for its value the element of a row of K, Q or dO, for the others its size.
static inline oracle_sum weight_of(const pair *p, double term, double cancel)
{
    return (oracle_sum){term, fabs(term), fabs(term) * p->exponent, cancel};
}

// The sums over pairs, of each element of a row; x[n]: the row of pair n.
static inline __attribute__((always_inline)) void add_up(oracle_sum *sum, const oracle_sum *weight,
                                                         const double *const *x, size_t count, size_t D)
{
    size_t d = 0;
    for (; d + 8 <= D; d += 8) {
        eight value = {0}, size = {0}, exponent = {0}, cancel = {0};
        for (size_t n = 0; n < count; n++) {
            const eight X = EIGHT_AT(x[n] + d), abs_X = SIZES_OF(X);
            value += weight[n].value * X, size += weight[n].size * abs_X;
            exponent += weight[n].exponent * abs_X, cancel += weight[n].cancel * abs_X;
        }
        for (size_t k = 0; k < 8; k++) sum[d + k] = (oracle_sum){value[k], size[k], exponent[k], cancel[k]};
    }
    for (; d < D; d++) {
        sum[d] = (oracle_sum){0};
        for (size_t n = 0; n < count; n++) {
            const double X = x[n][d], abs_X = fabs(X);
            sum[d].value += weight[n].value * X, sum[d].size += weight[n].size * abs_X;
            sum[d].exponent += weight[n].exponent * abs_X, sum[d].cancel += weight[n].cancel * abs_X;
        }
    }
}

void oracle_backward_query(const oracle_inputs *in, int b, int h, int i, oracle_sum *dQ, oracle_sum *delta)
{
    const attention_shape *s = in->shape;
    const size_t D = s->head_dim, Nk = s->kv_len;
    const size_t q_row = ((size_t)b * (size_t)s->q_heads + h) * (size_t)s->q_len + i;
    const size_t kv_head = (size_t)b * (size_t)s->kv_heads + h / (s->q_heads / s->kv_heads);
    const product of_row = product_of(in->dO + q_row * D, in->O + q_row * D, D);
    oracle_sum *weight = room(Nk, sizeof *weight);
    const double **k = room(Nk, sizeof *k);
    size_t count = 0;
    for (size_t j = 0; j < Nk; j++) {
        if ((j = seen_from(in->problem, s, i, j)) >= Nk) break;
        const pair p = pair_of(in, q_row, kv_head * Nk + j, of_row);
        weight[count] = weight_of(&p, s->scale * p.dS, s->scale * p.cancel);
        k[count++] = in->K + (kv_head * Nk + j) * D;
    }
    *delta = (oracle_sum){of_row.sum, of_row.size, 0, 0};
    add_up(dQ, weight, k, count, D);
    free(weight), free(k);
}

void oracle_backward_key(const oracle_inputs *in, int b, int h, int j, oracle_sum *dK, oracle_sum *dV)
{
    const attention_shape *s = in->shape;
    const size_t D = s->head_dim, Nq = s->q_len, group = s->q_heads / s->kv_heads;
    const size_t kv_head = (size_t)b * (size_t)s->kv_heads + h;
    oracle_sum *of_dK = room(group * Nq, sizeof *of_dK), *of_dV = room(group * Nq, sizeof *of_dV);
    const double **q = room(group * Nq, sizeof *q), **g = room(group * Nq, sizeof *g);
    size_t count = 0;
    for (size_t q_head = kv_head * group; q_head < (kv_head + 1) * group; q_head++)
        for (size_t i = 0; i < Nq; i++) {
            if (!oracle_visible(in->problem, s, i, j)) continue;
            const size_t q_row = q_head * Nq + i;
            q[count] = in->Q + q_row * D, g[count] = in->dO + q_row * D;
            const pair p =
                pair_of(in, q_row, kv_head * (size_t)s->kv_len + j, product_of(g[count], in->O + q_row * D, D));
            of_dK[count] = weight_of(&p, s->scale * p.dS, s->scale * p.cancel);
            of_dV[count++] = weight_of(&p, p.P, 0);
        }
    add_up(dK, of_dK, q, count, D), add_up(dV, of_dV, g, count, D);
    free(of_dK), free(of_dV), free(q), free(g);
}

// dL/ds of a row is its sink's weight, exp(s - L), and the sink's dP is 0: so dS = P (dP - delta) is -exp(s - L) delta.
void oracle_backward_sink(const oracle_inputs *in, int h, oracle_sum *dsink)
{
    const attention_shape *s = in->shape;
    const size_t D = s->head_dim, Nq = s->q_len;
    const double sink = in->sink_logits[h];
    *dsink = (oracle_sum){0};
    if (sink == -INFINITY) return;
    for (size_t b = 0; b < (size_t)s->batch; b++)
        for (size_t i = 0; i < Nq; i++) {
            const size_t row = (b * (size_t)s->q_heads + h) * Nq + i;
            const product delta = product_of(in->dO + row * D, in->O + row * D, D);
            const double P = exp(sink - in->L[row]);
            dsink->value -= P * delta.sum;
            dsink->size += fabs(P * delta.sum);
            dsink->exponent += fabs(P * delta.sum) * (fabs(sink) + fabs(in->L[row]));
            dsink->cancel += P * delta.size;
        }
}

// ------------------------ row sum

void oracle_row_sum(const double *x, const double *w, int rows, int cols, double *y, double *terms)
{
    for (size_t i = 0; i < (size_t)rows; i++) {
        double sum = 0, absolute = 0;
        for (size_t j = 0; j < (size_t)cols; j++) {
            const double term = x[i * (size_t)cols + j] * w[j];
            sum += term;
            absolute += fabs(term);
        }
        y[i] = sum;
        if (terms) terms[i] = absolute;
    }
}
