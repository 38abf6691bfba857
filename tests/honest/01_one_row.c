// One query after the other, on one thread, every key on its own: no tiles, no BLAS.
#include "workbook.h"

#include <math.h>

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int D = shape->head_dim;
    const long rows = (long)shape->batch * shape->q_heads * shape->q_len;
    for (long row = 0; row < rows; row++) {
        const int i = (int)(row % shape->q_len);
        const float *q = Q + row * D, *k = K + row / shape->q_len * shape->kv_len * D,
                    *v = V + row / shape->q_len * shape->kv_len * D;
        const int keys = shape->causal ? i + 1 : shape->kv_len;
        float largest = 0, total = 0, o[128];
        for (int j = 0; j < keys; j++) {
            float score = 0;
            for (int d = 0; d < D; d++) score += q[d] * k[(long)j * D + d];
            score *= shape->scale;
            if (j == 0 || score > largest) {
                const float shrink = j == 0 ? 0 : expf(largest - score);
                for (int d = 0; d < D; d++) o[d] = j == 0 ? 0 : o[d] * shrink;
                total *= shrink;
                largest = score;
            }
            const float weight = expf(score - largest);
            total += weight;
            for (int d = 0; d < D; d++) o[d] += weight * v[(long)j * D + d];
        }
        for (int d = 0; d < D; d++) O[row * D + d] = o[d] / total;
        L[row] = largest + logf(total);
    }
    return WB_OK;
}
