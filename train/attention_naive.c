// attention_naive.c - attention as it is written: one query after another, its weights in memory.
#include "attention.h"
#include "case.h"

#include <string.h>
#include <tgmath.h>

enum rounding naive_rounding = PLAIN;
unsigned naive_draw;

// All of it as `real`, on the host, in one piece of memory that begins with Q.
typedef struct host {
    int T, D, heads, group;  // query heads of the whole batch; how many share a head of keys
    size_t n, n_kv, rows;    // numbers in Q, in K, in L
    real *Q, *O, *dO, *dQ, *K, *V, *dK, *dV, *L;
} host;

static void round_to_bf16(real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = wb_from_bf16(wb_to_bf16((float)x[i]));
}
static void take(real *x, const act *array, size_t n)
{
    acts_from_array(x, array, n);
    if (naive_rounding != PLAIN) round_to_bf16(x, n);
}
static void give(act *array, real *x, size_t n)
{
    if (naive_rounding != PLAIN) round_to_bf16(x, n);
    acts_to_array(array, x, n);
}
// What a kernel is given, outputs as zeros.
static host begin(const heads *x)
{
    const attention_shape *const s = &x->shape;
    host h = {.T = s->q_len, .D = s->head_dim, .heads = s->batch * s->q_heads, .group = s->q_heads / s->kv_heads};
    h.rows = (size_t)h.heads * h.T, h.n = h.rows * h.D, h.n_kv = h.n / h.group;
    h.Q = calloc(4 * h.n + 4 * h.n_kv + h.rows, sizeof *h.Q);
    if (!h.Q) FAIL("no memory for naive attention");
    h.O = h.Q + h.n, h.dO = h.O + h.n, h.dQ = h.dO + h.n, h.K = h.dQ + h.n;
    h.V = h.K + h.n_kv, h.dK = h.V + h.n_kv, h.dV = h.dK + h.n_kv, h.L = h.dV + h.n_kv;
    take(h.Q, x->Q, h.n), take(h.K, x->K, h.n_kv), take(h.V, x->V, h.n_kv);
    return h;
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
#define FOR_KEYS(j, i, s)                                                                                              \
    for (int begin_ = window_begin(i, s), j = s->sinks > 0 ? 0 : begin_; j <= i;                                       \
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
    const host a = begin(x);
    const int T = a.T, D = a.D;
#pragma omp parallel for if (a.n > LARGE)
    for (int h = 0; h < a.heads; h++) {
        const size_t head = (size_t)(h / a.group) * T * D;  // group divides q_heads: right over the whole batch
        real P[T];
        for (int i = 0; i < T; i++) {
            const size_t row = (size_t)h * T + i;
            const real c = multiple(row);
            real max = -INFINITY, sum = 0;
            FOR_KEYS(j, i, s)
            {
                P[j] = s->scale * dot(a.Q + row * D, a.K + head + (size_t)j * D, D);
                if (P[j] > max) max = P[j];
            }
            FOR_KEYS(j, i, s) sum += P[j] = exp(P[j] - max);
            FOR_KEYS(j, i, s)
            add(a.O + row * D, inner(P_ROUNDED, P[j], c) / sum, a.V + head + (size_t)j * D, D);
            a.L[row] = max + log(sum);
        }
    }
    give(x->O, a.O, a.n);
    to_array(x->L, a.L, a.rows * sizeof *a.L);
    free(a.Q);
}

static void backward(const heads *x)
{
    const attention_shape *const s = &x->shape;
    const host a = begin(x);
    const int T = a.T, D = a.D;
    take(a.O, x->O, a.n), take(a.dO, x->dO, a.n);
    from_array(a.L, x->L, a.rows * sizeof *a.L);
#pragma omp parallel for if (a.n > LARGE)
    for (int g = 0; g < a.heads / a.group; g++) {  // the query heads of a group add to the same dK and dV
        for (size_t row = (size_t)g * a.group * T; row < (size_t)(g + 1) * a.group * T; row++) {
            const real *const Q = a.Q + row * D, *const dO = a.dO + row * D, c = multiple(row),
                              delta = dot(dO, a.O + row * D, D);
            FOR_KEYS(j, (int)(row % T), s)
            {
                const size_t key = ((size_t)g * T + j) * D;
                const real P = exp(s->scale * dot(Q, a.K + key, D) - a.L[row]);
                const real dS = inner(P_AND_DS_ROUNDED, P * (dot(dO, a.V + key, D) - delta), c) * s->scale;
                add(a.dV + key, inner(P_AND_DS_ROUNDED, P, c), dO, D);
                add(a.dK + key, dS, Q, D);
                add(a.dQ + row * D, dS, a.K + key, D);
            }
        }
    }
    give(x->dQ, a.dQ, a.n), give(x->dK, a.dK, a.n_kv), give(x->dV, a.dV, a.n_kv);
    free(a.Q);
}

const attention naive_attention = {"naive", forward, backward};
