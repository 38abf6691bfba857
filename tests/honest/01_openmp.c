// OpenMP over the queries, four a task; for each block of 64 keys first all scores, then the update. Sums in double.
#include "workbook.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64, QUERIES = 4 };

static void one_query(double *o, float *L, const float *q, const float *K, const float *V, int keys, int D,
                      double scale)
{
    double m = -HUGE_VAL, l = 0;
    memset(o, 0, (size_t)D * sizeof *o);
    for (int start = 0; start < keys; start += BLOCK) {
        const int n = keys - start < BLOCK ? keys - start : BLOCK;
        double s[BLOCK], top = m;
        for (int j = 0; j < n; j++) {
            s[j] = 0;
            for (int d = 0; d < D; d++) s[j] += (double)q[d] * K[(size_t)(start + j) * (size_t)D + (size_t)d];
            s[j] *= scale;
            if (s[j] > top) top = s[j];
        }
        const double old = exp(m - top);
        l *= old;
        for (int d = 0; d < D; d++) o[d] *= old;
        for (int j = 0; j < n; j++) {
            const double p = exp(s[j] - top);
            l += p;
            for (int d = 0; d < D; d++) o[d] += p * V[(size_t)(start + j) * (size_t)D + (size_t)d];
        }
        m = top;
    }
    for (int d = 0; d < D; d++) o[d] /= l;
    *L = (float)(m + log(l));
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const size_t D = (size_t)shape->head_dim, Nq = (size_t)shape->q_len, Nk = (size_t)shape->kv_len;
    const size_t heads = (size_t)shape->batch * (size_t)shape->q_heads;
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (size_t head = 0; head < heads; head++)
        for (size_t first = 0; first < Nq; first += QUERIES)
            for (size_t i = first; i < first + QUERIES && i < Nq; i++) {
                double o[128];
                const size_t row = head * Nq + i;
                one_query(o, L + row, Q + row * D, K + head * Nk * D, V + head * Nk * D,
                          shape->causal ? (int)i + 1 : shape->kv_len, shape->head_dim, shape->scale);
                for (size_t d = 0; d < D; d++) O[row * D + d] = (float)o[d];
            }
    return WB_OK;
}
