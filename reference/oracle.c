#include "oracle.h"

#include <math.h>
#include <stdlib.h>

bool oracle_visible(const wb_problem *problem, const attention_shape *shape, int i, int j)
{
    if (problem->mask == WB_NO_MASK || !shape->causal) return true;
    if (j > i) return false;
    if (!problem->window) return true;
    return j > i - shape->window || (problem->sinks && j < shape->sinks);
}

void oracle_attention_row(const wb_problem *problem, const attention_shape *shape, const float *Q, const float *K,
                          const float *V, int b, int h, int i, double *O, double *L)
{
    oracle_attention_row_scales(problem, shape, Q, K, V, b, h, i, O, L, NULL, NULL);
}

void oracle_attention_row_scales(const wb_problem *problem, const attention_shape *shape, const float *Q,
                                 const float *K, const float *V, int b, int h, int i, double *O, double *L,
                                 double *abs_V, double *logit)
{
    const size_t D = (size_t)shape->head_dim, Nk = (size_t)shape->kv_len;
    const size_t q_row = ((size_t)b * (size_t)shape->q_heads + (size_t)h) * (size_t)shape->q_len + (size_t)i;
    const size_t kv_head = (size_t)b * (size_t)shape->kv_heads + (size_t)(h / (shape->q_heads / shape->kv_heads));
    const float *q = Q + q_row * D;
    K += kv_head * Nk * D;
    V += kv_head * Nk * D;

    double *S = malloc(Nk * sizeof *S), m = -INFINITY, l = 0, largest = 0;
    if (!S) abort();
    for (size_t j = 0; j < Nk; j++) {
        S[j] = -INFINITY;
        if (!oracle_visible(problem, shape, i, (int)j)) continue;
        double dot = 0, terms = 0;
        for (size_t d = 0; d < D; d++) {
            dot += (double)q[d] * K[j * D + d];
            terms += fabs((double)q[d] * K[j * D + d]);
        }
        S[j] = shape->scale * dot;
        m = fmax(m, S[j]);
        largest = fmax(largest, shape->scale * terms);
    }
    for (size_t d = 0; d < D; d++) O[d] = 0;
    if (abs_V)
        for (size_t d = 0; d < D; d++) abs_V[d] = 0;
    for (size_t j = 0; j < Nk; j++) {
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
    free(S);
}

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
