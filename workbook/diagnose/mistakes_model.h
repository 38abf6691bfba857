// mistakes_model.h - what the models of mistakes.h share. mistakes_walk.c: heads, mask, which tiles are visited. On it stand
// mistakes_forward.c, mistakes_backward.c, mistakes_dsinks.c and mistakes_sum.c: what comes out, a row at a time; mistakes_lists.c needs no walk. On these stands mistakes.c.
//
// The right steps are those of FlashAttention-2, algorithms 1 and 2 (Dao 2023, arXiv:2307.08691). Exponents are natural here: that a
// kernel works in base 2 shows only where it mixes bases.
#ifndef DIAGNOSE_MISTAKES_MODEL_H
#define DIAGNOSE_MISTAKES_MODEL_H

#include "judge/tolerance.h"
#include "mistakes.h"
#include "reference/oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOG2E 1.4426950408889634
#define LN2   0.6931471805599453

static inline int min_int(int a, int b) { return a < b ? a : b; }
static inline int max_int(int a, int b) { return a > b ? a : b; }

// float32 overflows early. That it underflows early is looked at once, in finalize.
static inline double as_float(double x) { return fabs(x) > FLT_MAX ? copysign(INFINITY, x) : x; }

static inline double as_bf16(double x) { return isfinite(x) ? wb_from_bf16(wb_to_bf16((float)x)) : x; }

static inline double dot(const float *a, const float *b, int D, double *size)
{
    double sum = 0, absolute = 0;
    for (int d = 0; d < D; d++) {
        const double term = (double)a[d] * b[d];
        sum += term, absolute += fabs(term);
    }
    *size = fmax(*size, absolute);
    return sum;
}

// Part of a walk over the key tiles. OFF: left of the diagonal.
typedef enum phase { SINK, OFF, DIAGONAL } phase;
typedef struct visit {
    int key, from, keys;  // its first key, for the mask; where the keys that it holds begin; how many there are
    phase phase;
} visit;

enum { VISITS = 2048 };

double scale_of(const kernel *k, const attention_shape *s);

// The head of K or V, counted through the batches, that query head h of batch b reads; it may lie past the end.
int kv_head(const attention_shape *s, int map, int b, int h);

// Row `row` of X [B, heads, rows, D], counted through all heads; beyond the ends there is NaN, as in the harness's guard zones.
const float *row_of(const attention_shape *s, const float *X, int heads, int rows, long long row);

// Which tiles the warp of query i visits, as in the answer keys; returns how many.
int walk_of(const model_inputs *in, const kernel *k, int i, visit *visits);

// Whether this kernel's mask hides key j from query i.
bool hides(const model_inputs *in, const kernel *k, int i, int j, phase phase);

// Rows i0 ... i0 + rows - 1 of O, or of L, of a forward.
void forward_rows(const model_inputs *in, const kernel *k, int b, int h, int i0, int rows, bool is_O, model_row *out);
// Row i of dQ; row j of dK or dV of key head kv, counted through the batches; delta of a query
// counted through all heads, and the sum of its absolute terms.
void query_row(const model_inputs *in, const kernel *k, int b, int h, int i, model_row *out);
void key_row(const model_inputs *in, const kernel *k, int kv, int j, bool is_dK, model_row *out);
double delta_of(const model_inputs *in, const kernel *k, long long row, double *size);
// dsinks of head h.
void dsinks_row(const model_inputs *in, const kernel *k, int h, model_row *out);
// y[i].
void sum_row(const model_inputs *in, const kernel *k, int i, model_row *out);
// Row `row` of O or L of 13 and of 15, counted through all heads.
void decode_row(const model_inputs *in, const kernel *k, size_t row, bool is_O, model_row *out);
void listed_row(const model_inputs *in, const kernel *k, size_t row, bool is_O, model_row *out);

#endif
