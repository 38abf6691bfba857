// mistake: does not bring the sum of weights to the new maximum when a later tile raises it
// Tiled attention, one query row after another; the scores of 64 keys are held at a time.
#include "workbook.h"

#include <math.h>

#define KEYS 64  // of a tile

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int d = 0; d < n; d++) sum += a[d] * b[d];
    return sum;
}

// o [D] and the return value L, of one query q [D] that sees keys 0 ... end - 1
static float attend_row(float *o, const float *q, const float *K, const float *V, int end, int D, float scale)
{
    float m = -INFINITY, sum = 0;
    float s[KEYS];
    for (int d = 0; d < D; d++) o[d] = 0;

    for (int j0 = 0; j0 < end; j0 += KEYS) {
        const int n = end - j0 < KEYS ? end - j0 : KEYS;
        float biggest = m;
        for (int j = 0; j < n; j++) {
            s[j] = scale * dot(q, K + (size_t)(j0 + j) * D, D);
            if (s[j] > biggest) biggest = s[j];
        }
        if (biggest > m) {
            const float fix = expf(m - biggest);  // 0 in the first tile
            for (int d = 0; d < D; d++) o[d] *= fix;
            m = biggest;
        }
        for (int j = 0; j < n; j++) {
            const float p = expf(s[j] - m);
            const float *v = V + (size_t)(j0 + j) * D;
            sum += p;
            for (int d = 0; d < D; d++) o[d] += p * v[d];
        }
    }
    for (int d = 0; d < D; d++) o[d] /= sum;
    return m + logf(sum);
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    const int heads = shape->batch * shape->q_heads, Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    for (int h = 0; h < heads; h++) {
        const size_t first_key = (size_t)h * Nk;
        for (int i = 0; i < Nq; i++) {
            const size_t row = (size_t)h * Nq + i;
            const int end = shape->causal ? i + 1 : Nk;
            L[row] = attend_row(O + row * D, Q + row * D, K + first_key * D, V + first_key * D, end, D, shape->scale);
        }
    }
    return WB_OK;
}
