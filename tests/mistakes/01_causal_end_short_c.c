// mistake: the causal bound of a query tile is one key too small, so the last query of each tile does not see its own key
#include "workbook.h"

#include <math.h>

// queries are handled 64 at a time, keys 32 at a time
#define QT 64
#define KT 32

static float weight_of(float s, float m) { return s == -INFINITY ? 0.f : expf(s - m); }

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    const int Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    const long heads = (long)shape->batch * shape->q_heads;

    for (long h = 0; h < heads; h++) {
        const float *Qh = Q + h * Nq * D, *Kh = K + h * Nk * D, *Vh = V + h * Nk * D;
        float *Oh = O + h * Nq * D, *Lh = L + h * Nq;

        for (int q0 = 0; q0 < Nq; q0 += QT) {
            const int q1 = q0 + QT < Nq ? q0 + QT : Nq;
            float m[QT], l[QT];
            for (int i = q0; i < q1; i++) {
                m[i - q0] = -INFINITY;
                l[i - q0] = 0;
                for (int d = 0; d < D; d++) Oh[(long)i * D + d] = 0;
            }

            int last = Nk;
            if (shape->causal) last = q1 - 1;

            for (int k0 = 0; k0 < last; k0 += KT) {
                const int k1 = k0 + KT < last ? k0 + KT : last;
                for (int i = q0; i < q1; i++) {
                    const float *q = Qh + (long)i * D;
                    float *o = Oh + (long)i * D;
                    float s[KT], tile_max = -INFINITY;
                    for (int j = k0; j < k1; j++) {
                        float x = 0;
#pragma omp simd reduction(+ : x)
                        for (int d = 0; d < D; d++) x += q[d] * Kh[(long)j * D + d];
                        x *= shape->scale;
                        if (shape->causal && j > i) x = -INFINITY;
                        s[j - k0] = x;
                        if (x > tile_max) tile_max = x;
                    }
                    if (tile_max == -INFINITY) continue;  // nothing to see for this query
                    const float old = m[i - q0], now = old > tile_max ? old : tile_max;
                    const float a = old == -INFINITY ? 0 : expf(old - now);
                    m[i - q0] = now;
                    l[i - q0] *= a;
                    for (int d = 0; d < D; d++) o[d] *= a;
                    for (int j = k0; j < k1; j++) {
                        const float p = weight_of(s[j - k0], now);
                        if (p == 0) continue;
                        l[i - q0] += p;
                        for (int d = 0; d < D; d++) o[d] += p * Vh[(long)j * D + d];
                    }
                }
            }

            for (int i = q0; i < q1; i++) {
                const float sum = l[i - q0];
                for (int d = 0; d < D; d++) Oh[(long)i * D + d] *= sum > 0 ? 1 / sum : 0;
                Lh[i] = m[i - q0] + logf(sum);
            }
        }
    }
    return WB_OK;
}
