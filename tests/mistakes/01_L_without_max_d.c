// mistake: L is the logarithm of the sum of exp(score - max) and the row's maximum is never added back
#include "workbook.h"

#include <math.h>
#include <stddef.h>

// One query against all keys it may see: a first pass for the largest score, a second one for the sums.
static float dot(const float *a, const float *b, int n)
{
    float s = 0;
    for (int k = 0; k < n; k++) s += a[k] * b[k];
    return s;
}

static void one_row(float *out, float *lse, const float *q, const float *k, const float *v, int n_keys, int D,
                    float scale)
{
    enum { CHUNK = 64 };
    float scores[CHUNK];
    float biggest = -INFINITY, denom = 0;
    for (int j = 0; j < n_keys; j++) {
        const float s = scale * dot(q, k + (size_t)j * D, D);
        if (s > biggest) biggest = s;
    }
    for (int d = 0; d < D; d++) out[d] = 0;
    for (int begin = 0; begin < n_keys; begin += CHUNK) {
        const int n = n_keys - begin < CHUNK ? n_keys - begin : CHUNK;
        for (int j = 0; j < n; j++) {
            scores[j] = expf(scale * dot(q, k + (size_t)(begin + j) * D, D) - biggest);
            denom += scores[j];
        }
        for (int j = 0; j < n; j++) {
            const float *row = v + (size_t)(begin + j) * D;
            for (int d = 0; d < D; d++) out[d] += scores[j] * row[d];
        }
    }
    for (int d = 0; d < D; d++) out[d] /= denom;
    *lse = logf(denom);
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    const size_t heads = (size_t)shape->batch * shape->q_heads;
    for (size_t h = 0; h < heads; h++)
        for (int i = 0; i < Nq; i++) {
            const size_t r = h * Nq + i;
            one_row(O + r * D, L + r, Q + r * D, K + h * Nk * D, V + h * Nk * D, shape->causal ? i + 1 : Nk, D,
                    shape->scale);
        }
    return WB_OK;
}
