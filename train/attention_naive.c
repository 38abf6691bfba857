// attention_naive.c - attention as it is written: one query after another, its weights in memory. See attention.h for its three kinds.
#include "attention.h"
#include "case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { PLAIN, ROUNDED, SHAKEN } kind;

static real *room(size_t n)
{
    real *const x = malloc((n ? n : 1) * sizeof *x);
    if (!x) abort();
    return x;
}
static void round_to_bf16(real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = wb_from_bf16(wb_to_bf16((float)x[i]));
}

// A copy on the host of what a kernel would be given, and back.
static real *take(const act *array, size_t n, kind kind)
{
    real *const x = room(n);
#ifdef TRAIN_CUDA
    bf16 *const bits = (bf16 *)room(n);
    from_array(bits, array, n * sizeof *bits);
    for (size_t i = 0; i < n; i++) x[i] = wb_from_bf16(bits[i].bits);
    free(bits);
#else
    memcpy(x, array, n * sizeof *x);
#endif
    if (kind != PLAIN) round_to_bf16(x, n);
    return x;
}
static void give(act *array, real *x, size_t n, kind kind)
{
    if (kind != PLAIN) round_to_bf16(x, n);
#ifdef TRAIN_CUDA
    bf16 *const bits = (bf16 *)room(n);
    for (size_t i = 0; i < n; i++) bits[i].bits = wb_to_bf16(x[i]);
    to_array(array, bits, n * sizeof *bits);
    free(bits);
#else
    memcpy(array, x, n * sizeof *x);
#endif
    free(x);
}

// x, or x moved at random as far as rounding to bf16 moves it on average. Of 8 significant bits the last half unit is 2^-8 of a power of
// two; a number is 1 to 2 times that power, all of these alike on a logarithmic scale, and the root mean square of 1 / them is 0.735.
static real shake(real x, kind kind, uint64_t *state)
{
    if (kind != SHAKEN) return x;
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;  // xorshift: Marsaglia 2003
    return x * (1 + (real)((double)(int64_t)*state * 0x1p-63 * 0x1p-8 * 0.735));
}

// The keys that query i sees: 0 ... sinks - 1 and begin ... i.
static int window_begin(int i, const attention_shape *s) { return i >= s->window ? i - s->window + 1 : 0; }
#define FOR_KEYS(j, i, s)                                                                                              \
    for (int begin_ = window_begin(i, s), j = s->sinks > 0 ? 0 : begin_; j <= i;                                       \
         j = j + 1 < begin_ && j + 1 >= s->sinks ? begin_ : j + 1)

static real e_to(real x) { return sizeof(real) == sizeof(double) ? (real)exp(x) : (real)expf((float)x); }
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

// Of one query head, all with their rows [T, D]; P is room for T numbers.
static void forward_head(real *O, real *L, const real *Q, const real *K, const real *V, real *P,
                         const attention_shape *s, kind kind, uint64_t *state)
{
    const int D = s->head_dim;
    memset(O, 0, (size_t)s->q_len * D * sizeof *O);
    for (int i = 0; i < s->q_len; i++, Q += D, O += D) {
        real max = -INFINITY, sum = 0;
        FOR_KEYS(j, i, s)
        {
            P[j] = s->scale * dot(Q, K + (size_t)j * D, D);
            if (P[j] > max) max = P[j];
        }
        FOR_KEYS(j, i, s) sum += P[j] = e_to(P[j] - max);
        FOR_KEYS(j, i, s) add(O, shake(P[j], kind, state) / sum, V + (size_t)j * D, D);
        L[i] = max + (real)log(sum);
    }
}
static void backward_head(real *dQ, real *dK, real *dV, const real *Q, const real *K, const real *V, const real *O,
                          const real *L, const real *dO, const attention_shape *s, kind kind, uint64_t *state)
{
    const int D = s->head_dim;
    for (int i = 0; i < s->q_len; i++, Q += D, O += D, dO += D, dQ += D) {
        const real delta = dot(dO, O, D);
        FOR_KEYS(j, i, s)
        {
            const size_t key = (size_t)j * D;
            const real P = e_to(s->scale * dot(Q, K + key, D) - L[i]);
            const real dS = shake(P * (dot(dO, V + key, D) - delta), kind, state) * s->scale;
            add(dV + key, shake(P, kind, state), dO, D);
            add(dK + key, dS, Q, D);
            add(dQ, dS, K + key, D);
        }
    }
}

enum { LARGE = 1 << 22 };  // from so many numbers on it pays to share the heads out over cores

static void forward(act *O, real *L, const act *Q, const act *K, const act *V, const attention_shape *s, kind kind)
{
    const int heads = s->batch * s->q_heads, group = s->q_heads / s->kv_heads;
    const size_t head = (size_t)s->q_len * s->head_dim, rows = (size_t)heads * s->q_len;
    const size_t n = heads * head, n_kv = n / group;
    real *const q = take(Q, n, kind), *const k = take(K, n_kv, kind), *const v = take(V, n_kv, kind);
    real *const o = room(n), *const l = room(rows), *const P = room(rows);
#pragma omp parallel for if (n > LARGE)
    for (int h = 0; h < heads; h++) {  // group divides q_heads: h / group is right over the whole batch
        uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(h + 1);
        const size_t own = h * head, key = h / group * head, row = (size_t)h * s->q_len;
        forward_head(o + own, l + row, q + own, k + key, v + key, P + row, s, kind, &state);
    }
    give(O, o, n, kind);
    to_array(L, l, rows * sizeof *l);
    free(q), free(k), free(v), free(l), free(P);
}

static void backward(act *dQ, act *dK, act *dV, const act *Q, const act *K, const act *V, const act *O, const real *L,
                     const act *dO, const attention_shape *s, kind kind)
{
    const int kv_heads = s->batch * s->kv_heads, group = s->q_heads / s->kv_heads;
    const size_t head = (size_t)s->q_len * s->head_dim, rows = (size_t)kv_heads * group * s->q_len;
    const size_t n_kv = kv_heads * head, n = n_kv * group;
    real *const q = take(Q, n, kind), *const k = take(K, n_kv, kind), *const v = take(V, n_kv, kind);
    real *const o = take(O, n, kind), *const go = take(dO, n, kind), *const l = room(rows);
    real *const gq = room(n), *const gk = room(n_kv), *const gv = room(n_kv);
    from_array(l, L, rows * sizeof *l);
    memset(gq, 0, n * sizeof *gq), memset(gk, 0, n_kv * sizeof *gk), memset(gv, 0, n_kv * sizeof *gv);
#pragma omp parallel for if (n > LARGE)
    for (int g = 0; g < kv_heads; g++) {  // the query heads of a group add to the same dK and dV
        uint64_t state = 0xbf58476d1ce4e5b9u * (uint64_t)(g + 1);
        for (int h = g * group; h < (g + 1) * group; h++) {
            const size_t own = h * head, key = g * head;
            backward_head(gq + own, gk + key, gv + key, q + own, k + key, v + key, o + own, l + (size_t)h * s->q_len,
                          go + own, s, kind, &state);
        }
    }
    give(dQ, gq, n, kind), give(dK, gk, n_kv, kind), give(dV, gv, n_kv, kind);
    free(q), free(k), free(v), free(o), free(go), free(l);
}

#define KIND(name, kind)                                                                                               \
    static void name##_forward(act *O, real *L, const act *Q, const act *K, const act *V, const attention_shape *s)    \
    {                                                                                                                  \
        forward(O, L, Q, K, V, s, kind);                                                                               \
    }                                                                                                                  \
    static void name##_backward(act *dQ, act *dK, act *dV, const act *Q, const act *K, const act *V, const act *O,     \
                                const real *L, const act *dO, const attention_shape *s)                                \
    {                                                                                                                  \
        backward(dQ, dK, dV, Q, K, V, O, L, dO, s, kind);                                                              \
    }                                                                                                                  \
    const attention name##_attention = {#name, name##_forward, name##_backward};
KIND(naive, PLAIN)
KIND(rounded, ROUNDED)
KIND(shaken, SHAKEN)
