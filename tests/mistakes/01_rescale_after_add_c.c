// mistake: O is multiplied by the correction after P V of the new tile was added, so the new tile is scaled down too
#include "workbook.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { Br = 32, Bc = 48 };

typedef struct {
    float S[Br][Bc];
    float m[Br], l[Br];
} Tile;

static int imin(int a, int b) { return a < b ? a : b; }

static void scores(Tile *t, const float *Q, const float *K, int nq, int nk, int D, float scale)
{
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < nk; j++) {
            float s = 0;
#pragma omp simd reduction(+ : s)
            for (int d = 0; d < D; d++) s += Q[i * D + d] * K[j * D + d];
            t->S[i][j] = s * scale;
        }
}

static void update(Tile *t, float *O, const float *V, int nq, int nk, int D)
{
    for (int i = 0; i < nq; i++) {
        float mx = t->m[i];
        for (int j = 0; j < nk; j++) mx = fmaxf(mx, t->S[i][j]);
        const float alpha = expf(t->m[i] - mx);
        float sum = 0;
        for (int j = 0; j < nk; j++) {
            t->S[i][j] = expf(t->S[i][j] - mx);
            sum += t->S[i][j];
        }
        t->l[i] = alpha * t->l[i] + sum;
        t->m[i] = mx;

        float *o = O + i * D;
        for (int j = 0; j < nk; j++) {
            if (t->S[i][j] == 0) continue;
            for (int d = 0; d < D; d++) o[d] += t->S[i][j] * V[j * D + d];
        }
        for (int d = 0; d < D; d++) o[d] *= alpha;
    }
}

static void head(float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *s)
{
    const int D = s->head_dim;
    Tile t;
    for (int i0 = 0; i0 < s->q_len; i0 += Br) {
        const int nq = imin(Br, s->q_len - i0);
        for (int i = 0; i < nq; i++) t.m[i] = -FLT_MAX, t.l[i] = 0;
        float *o = O + (size_t)i0 * D;
        memset(o, 0, sizeof(float) * nq * D);

        const int stop = s->causal ? i0 + nq : s->kv_len;
        for (int j0 = 0; j0 < stop; j0 += Bc) {
            const int nk = imin(Bc, stop - j0);
            scores(&t, Q + (size_t)i0 * D, K + (size_t)j0 * D, nq, nk, D, s->scale);
            if (s->causal)
                for (int i = 0; i < nq; i++)
                    for (int j = 0; j < nk; j++)
                        if (j0 + j > i0 + i) t.S[i][j] = -INFINITY;
            update(&t, o, V + (size_t)j0 * D, nq, nk, D);
        }
        for (int i = 0; i < nq; i++) {
            for (int d = 0; d < D; d++) o[i * D + d] /= t.l[i];
            L[i0 + i] = t.m[i] + logf(t.l[i]);
        }
    }
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const size_t q = (size_t)shape->q_len * shape->head_dim, k = (size_t)shape->kv_len * shape->head_dim;
    for (int b = 0; b < shape->batch * shape->q_heads; b++)
        head(O + b * q, L + (size_t)b * shape->q_len, Q + b * q, K + b * k, V + b * k, shape);
    return WB_OK;
}
