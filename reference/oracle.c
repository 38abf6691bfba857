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
    const float *q = Q + q_row * D;
    K += kv_head * Nk * D;
    V += kv_head * Nk * D;

    const double sink = sink_logits ? sink_logits[h] : -INFINITY;
    double *S = malloc(Nk * sizeof *S), m = sink, l = 0, largest = 0;
    if (!S) abort();
    for (size_t j = 0; P && j < Nk; j++) S[j] = -INFINITY;
    for (size_t j = 0; j < Nk; j++) {
        if (!mask && (j = seen_from(problem, shape, i, j)) >= Nk) break;
        S[j] = -INFINITY;
        if (mask ? !mask->sees(mask->of, mask->b, i, (int)j) : !oracle_visible(problem, shape, i, (int)j)) continue;
        double dot = 0, terms = 0;
#pragma omp simd reduction(+ : dot, terms)
        for (size_t d = 0; d < D; d++) {
            dot += (double)q[d] * K[j * D + d];
            terms += fabs((double)q[d] * K[j * D + d]);
        }
        S[j] = shape->scale * dot;
        m = fmax(m, S[j]);
        largest = fmax(largest, shape->scale * terms);
    }
    if (sink > -INFINITY) l = exp(sink - m);  // a term of the sum, like a key's; it has no row of V
    for (size_t d = 0; d < D; d++) O[d] = 0;
    if (abs_V)
        for (size_t d = 0; d < D; d++) abs_V[d] = 0;
    for (size_t j = 0; j < Nk; j++) {
        if (!mask && (j = seen_from(problem, shape, i, j)) >= Nk) break;
        if (S[j] == -INFINITY) continue;
        const double p = exp(S[j] - m);
        l += p;
        for (size_t d = 0; d < D; d++) O[d] += p * V[j * D + d];
        if (abs_V)
            for (size_t d = 0; d < D; d++) abs_V[d] += p * fabs((double)V[j * D + d]);
    }
    if (l > 0)
        for (size_t d = 0; d < D; d++) O[d] /= l;
    if (l > 0 && abs_V)
        for (size_t d = 0; d < D; d++) abs_V[d] /= l;
    *L = m + log(l);
    if (logit) *logit = largest;
    for (size_t j = 0; P && j < Nk; j++) P[j] = S[j] == -INFINITY ? 0 : exp(S[j] - m) / l;
    free(S);
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

// -------------------------------------------------------------------------------------------------------------- decode

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

// ------------------------------------------------------------------------------------------------------------ backward
// P = exp(S - L), dP = dO V^T, dS = P (dP - delta), delta = rowsum(dO * O), for one query and one key at a time.

typedef struct pair {
    double P, dS;
    double exponent, cancel;  // as in oracle_sum
} pair;

// Rows of Q, K, ...: counted through all heads and batches.
static inline pair pair_of(const oracle_inputs *in, size_t q_row, size_t kv_row)
{
    const size_t D = (size_t)in->shape->head_dim;
    const float *q = in->Q + q_row * D, *k = in->K + kv_row * D, *v = in->V + kv_row * D, *o = in->O + q_row * D,
                *g = in->dO + q_row * D;
    double S = 0, abs_S = 0, dP = 0, abs_dP = 0, delta = 0, abs_delta = 0;
#pragma omp simd reduction(+ : S, abs_S, dP, abs_dP, delta, abs_delta)
    for (size_t d = 0; d < D; d++) {
        S += (double)q[d] * k[d], abs_S += fabs((double)q[d] * k[d]);
        dP += (double)g[d] * v[d], abs_dP += fabs((double)g[d] * v[d]);
        delta += (double)g[d] * o[d], abs_delta += fabs((double)g[d] * o[d]);
    }
    const double L = in->L[q_row], P = exp(in->shape->scale * S - L);
    return (pair){P, P * (dP - delta), in->shape->scale * abs_S + fabs(L), P * (abs_dP + abs_delta)};
}

// An oracle_sum as a vector: gcc finds no other way to add four fields at once.
typedef double four_sums __attribute__((vector_size(sizeof(oracle_sum)), aligned(sizeof(double)), may_alias));

// sum[d] += term of a pair times x[d].
static inline void add(oracle_sum *sum, const pair *p, double term, double cancel, const float *x, size_t D)
{
    const four_sums weight = {term, fabs(term), fabs(term) * p->exponent, cancel};
    for (size_t d = 0; d < D; d++) {
        const double X = x[d], size = fabs(X);
        *(four_sums *)&sum[d] += weight * (four_sums){X, size, size, size};
    }
}

ORACLE_LOOPS void oracle_backward_query(const oracle_inputs *in, int b, int h, int i, oracle_sum *dQ, oracle_sum *delta)
{
    const attention_shape *s = in->shape;
    const size_t D = (size_t)s->head_dim, Nk = (size_t)s->kv_len;
    const size_t q_row = ((size_t)b * (size_t)s->q_heads + (size_t)h) * (size_t)s->q_len + (size_t)i;
    const size_t kv_head = (size_t)b * (size_t)s->kv_heads + (size_t)(h / (s->q_heads / s->kv_heads));
    *delta = (oracle_sum){0};
    for (size_t d = 0; d < D; d++) {
        const double term = (double)in->dO[q_row * D + d] * in->O[q_row * D + d];
        delta->value += term, delta->size += fabs(term);
        dQ[d] = (oracle_sum){0};
    }
    for (size_t j = 0; j < Nk; j++) {
        if ((j = seen_from(in->problem, s, i, j)) >= Nk) break;
        const pair p = pair_of(in, q_row, kv_head * Nk + j);
        add(dQ, &p, s->scale * p.dS, s->scale * p.cancel, in->K + (kv_head * Nk + j) * D, D);
    }
}

ORACLE_LOOPS void oracle_backward_key(const oracle_inputs *in, int b, int h, int j, oracle_sum *dK, oracle_sum *dV)
{
    const attention_shape *s = in->shape;
    const size_t D = (size_t)s->head_dim, Nq = (size_t)s->q_len, group = (size_t)(s->q_heads / s->kv_heads);
    const size_t kv_head = (size_t)b * (size_t)s->kv_heads + (size_t)h;
    for (size_t d = 0; d < D; d++) dK[d] = dV[d] = (oracle_sum){0};
    for (size_t q_head = kv_head * group; q_head < (kv_head + 1) * group; q_head++)
        for (size_t i = 0; i < Nq; i++) {
            if (!oracle_visible(in->problem, s, (int)i, j)) continue;
            const size_t q_row = q_head * Nq + i;
            const pair p = pair_of(in, q_row, kv_head * (size_t)s->kv_len + (size_t)j);
            add(dK, &p, s->scale * p.dS, s->scale * p.cancel, in->Q + q_row * D, D);
            add(dV, &p, p.P, 0, in->dO + q_row * D, D);
        }
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
            double delta = 0, terms = 0;
            for (size_t d = 0; d < D; d++) {
                const double term = (double)in->dO[row * D + d] * in->O[row * D + d];
                delta += term, terms += fabs(term);
            }
            const double P = exp(sink - in->L[row]);
            dsink->value -= P * delta;
            dsink->size += fabs(P * delta);
            dsink->exponent += fabs(P * delta) * (fabs(sink) + fabs((double)in->L[row]));
            dsink->cancel += P * terms;
        }
}

// ------------------------------------------------------------------------------------------------------------- row sum

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
