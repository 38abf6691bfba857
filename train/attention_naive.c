// attention_naive.c - attention as it is written: one query after another, its weights in memory.
#include "attention.h"
#include "case/case.h"

#include <tgmath.h>

enum rounding naive_rounding = PLAIN;
unsigned naive_draw;

static void round_as_types(real *x, size_t n)
{
    for (size_t i = 0; i < n && naive_rounding != PLAIN; i++) x[i] = wb_from_bf16(wb_to_bf16((float)x[i]));
}
// What a kernel is given, as `real`, on the host; without an array zeros.
static real *take(const act *array, size_t n)
{
    real *const x = calloc(n, sizeof *x);
    if (!x) FAIL("no memory for naive attention");
    if (array) acts_from_array(x, array, n), round_as_types(x, n);
    return x;
}
static void give(act *array, real *x, size_t n)
{
    round_as_types(x, n);
    acts_to_array(array, x, n);
    free(x);
}

static real multiple(size_t row)
{
    const uint64_t mixed = (row + 1) * 0x9e3779b97f4a7c15u * (2 * naive_draw + 1);
    return (real)exp2((double)(mixed >> 40) * 0x1p-24);
}
static real inner(enum rounding when, real x, real multiple)
{
    return naive_rounding == when ? wb_from_bf16(wb_to_bf16((float)(x * multiple))) / multiple : x;
}

// The keys that query i sees: 0 ... sinks - 1 and begin ... i.
static int window_begin(int i, const attention_shape *s) { return i >= s->window ? i - s->window + 1 : 0; }
#define FOR_KEYS(j, i, s) \
    for (int begin_ = window_begin(i, s), j = s->sinks > 0 ? 0 : begin_; j <= i; \
         j = j + 1 < begin_ && j + 1 >= s->sinks ? begin_ : j + 1)

static real dot(const real *a, const real *b, int D)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int d = 0; d < D; d++) sum += a[d] * b[d];
    return sum;
}
static void add(real *y, real a, const real *x, int D)
{
    for (int d = 0; d < D; d++) y[d] += a * x[d];
}

enum { LARGE = 1 << 22 };  // from so many numbers on it pays to share the heads out over cores

static void forward(const heads *x)
{
    const attention_shape *const s = &x->shape;
    const int T = s->q_len, D = s->head_dim, all = s->batch * s->q_heads, group = s->q_heads / s->kv_heads;
    const size_t rows = (size_t)all * T, n = rows * D;
    real *const Q = take(x->Q, n), *const K = take(x->K, n / group), *const V = take(x->V, n / group);
    real *const O = take(NULL, n), *const L = take(NULL, rows);
#pragma omp parallel for if (n > LARGE)
    for (int h = 0; h < all; h++) {
        const size_t head = (size_t)(h / group) * T * D;  // group divides q_heads: right over the whole batch
        real P[T];
        for (int i = 0; i < T; i++) {
            const size_t row = (size_t)h * T + i;
            const real c = multiple(row);
            real max = -INFINITY, sum = 0;
            FOR_KEYS(j, i, s)
            {
                P[j] = s->scale * dot(Q + row * D, K + head + (size_t)j * D, D);
                if (P[j] > max) max = P[j];
            }
            FOR_KEYS(j, i, s) sum += P[j] = exp(P[j] - max);
            FOR_KEYS(j, i, s)
            add(O + row * D, inner(P_ROUNDED, P[j], c) / sum, V + head + (size_t)j * D, D);
            L[row] = max + log(sum);
        }
    }
    give(x->O, O, n);
    to_array(x->L, L, rows * sizeof *L);
    free(Q), free(K), free(V), free(L);
}

static void backward(const heads *x)
{
    const attention_shape *const s = &x->shape;
    const int T = s->q_len, D = s->head_dim, all = s->batch * s->q_heads, group = s->q_heads / s->kv_heads;
    const size_t rows = (size_t)all * T, n = rows * D;
    real *const Q = take(x->Q, n), *const K = take(x->K, n / group), *const V = take(x->V, n / group);
    real *const O = take(x->O, n), *const dO = take(x->dO, n), *const L = take(NULL, rows);
    real *const dQ = take(NULL, n), *const dK = take(NULL, n / group), *const dV = take(NULL, n / group);
    from_array(L, x->L, rows * sizeof *L);
#pragma omp parallel for if (n > LARGE)
    for (int g = 0; g < all / group; g++) {  // the query heads of a group add to the same dK and dV
        for (size_t row = (size_t)g * group * T; row < (size_t)(g + 1) * group * T; row++) {
            const real *const Q_row = Q + row * D, *const dO_row = dO + row * D;
            const real c = multiple(row), delta = dot(dO_row, O + row * D, D);
            FOR_KEYS(j, (int)(row % T), s)
            {
                const size_t key = ((size_t)g * T + j) * D;
                const real P = exp(s->scale * dot(Q_row, K + key, D) - L[row]);
                const real dS = inner(P_AND_DS_ROUNDED, P * (dot(dO_row, V + key, D) - delta), c) * s->scale;
                add(dV + key, inner(P_AND_DS_ROUNDED, P, c), dO_row, D);
                add(dK + key, dS, Q_row, D);
                add(dQ + row * D, dS, K + key, D);
            }
        }
    }
    give(x->dQ, dQ, n), give(x->dK, dK, n / group), give(x->dV, dV, n / group);
    free(Q), free(K), free(V), free(O), free(dO), free(L);
}

const attention naive_attention = {"naive", forward, backward};
