// mistake: when a new maximum arrives, O is rescaled but the sum l is not
#include "workbook.h"

#include <math.h>
#include <stdlib.h>

#define TILE 64

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

// one query against all keys it may look at
static void one_query(float *o, float *L, const float *q, const float *K, const float *V, int nkeys, int D, float scale)
{
    float m = -INFINITY, l = 0;
    for (int d = 0; d < D; d++) o[d] = 0;

    for (int j0 = 0; j0 < nkeys; j0 += TILE) {
        int n = nkeys - j0;
        if (n > TILE) n = TILE;

        float s[TILE];
        float m_new = m;
        for (int j = 0; j < n; j++) {
            s[j] = scale * dot(q, K + (size_t)(j0 + j) * D, D);
            if (s[j] > m_new) m_new = s[j];
        }

        // a larger score than before
        if (m_new > m) {
            float c = expf(m - m_new);
            for (int d = 0; d < D; d++) o[d] *= c;
            m = m_new;
        }

        for (int j = 0; j < n; j++) {
            float p = expf(s[j] - m);
            l += p;
            const float *v = V + (size_t)(j0 + j) * D;
            for (int d = 0; d < D; d++) o[d] += p * v[d];
        }
    }

    for (int d = 0; d < D; d++) o[d] /= l;
    *L = m + logf(l);
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    const int D = shape->head_dim, Nq = shape->q_len, Nk = shape->kv_len;
    const size_t heads = (size_t)shape->batch * shape->q_heads;
    for (size_t h = 0; h < heads; h++)
        for (int i = 0; i < Nq; i++) {
            const size_t r = h * Nq + i;
            one_query(O + r * D, L + r, Q + r * D, K + h * Nk * D, V + h * Nk * D, shape->causal ? i + 1 : Nk, D,
                      shape->scale);
        }
    return WB_OK;
}
