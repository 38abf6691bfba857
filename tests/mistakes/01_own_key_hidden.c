// mistake: hides each query's own key, so that causal query i sees the keys 0 to i - 1
// The loops the other way round: each key is brought to all queries of a strip, which keep a running maximum.
#include "workbook.h"

#include <math.h>

#define STRIP 256

static void strip(float *O, float *L, const float *Q, const float *K, const float *V, int i0, int n,
                  const attention_shape *shape)
{
    const int D = shape->head_dim;
    float best[STRIP], sum[STRIP];
    for (int i = 0; i < n; i++) {
        best[i] = -INFINITY, sum[i] = 0;
        for (int d = 0; d < D; d++) O[i * D + d] = 0;
    }

    for (int j = 0; j < shape->kv_len; j++) {
        const float *k = K + (size_t)j * D, *v = V + (size_t)j * D;
        int i = 0;
        if (shape->causal && j + 1 > i0) i = j + 1 - i0;  // queries before the key do not see it
        if (i >= n) break;
        for (; i < n; i++) {
            const float *q = Q + i * D;
            float *o = O + i * D, score = 0;
            for (int d = 0; d < D; d++) score += q[d] * k[d];
            score *= shape->scale;
            if (score > best[i]) {
                const float down = sum[i] > 0 ? expf(best[i] - score) : 0;
                sum[i] *= down;
                for (int d = 0; d < D; d++) o[d] *= down;
                best[i] = score;
            }
            const float w = expf(score - best[i]);
            sum[i] += w;
            for (int d = 0; d < D; d++) o[d] += w * v[d];
        }
    }

    for (int i = 0; i < n; i++) {
        L[i] = sum[i] > 0 ? best[i] + logf(sum[i]) : -INFINITY;
        for (int d = 0; d < D; d++) O[i * D + d] = sum[i] > 0 ? O[i * D + d] / sum[i] : 0;
    }
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int Nq = shape->q_len, D = shape->head_dim;
    for (int head = 0; head < shape->batch * shape->q_heads; head++) {
        const size_t keys = (size_t)head * shape->kv_len * D;
        for (int i0 = 0; i0 < Nq; i0 += STRIP) {
            const size_t row = (size_t)head * Nq + i0;
            strip(O + row * D, L + row, Q + row * D, K + keys, V + keys, i0, Nq - i0 < STRIP ? Nq - i0 : STRIP, shape);
        }
    }
    return WB_OK;
}
