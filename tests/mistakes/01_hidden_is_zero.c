// mistake: gives the keys that the causal mask hides the score 0 instead of minus infinity
// Tiles of 64 queries and 64 keys, products by BLAS, the softmax in between by hand. One thread is enough.
#include "workbook.h"

#include <cblas.h>
#include <float.h>
#include <math.h>

#define T 64

static void softmax_step(float *S, float *O, float *m, float *l, int rows, int cols, int D)
{
    for (int i = 0; i < rows; i++) {
        float *s = S + i * T, top = m[i], sum = 0;
        for (int j = 0; j < cols; j++)
            if (s[j] > top) top = s[j];
        const float c = expf(m[i] - top);
        for (int j = 0; j < cols; j++) {
            s[j] = expf(s[j] - top);
            sum += s[j];
        }
        cblas_sscal(D, c, O + (size_t)i * D, 1);
        l[i] = l[i] * c + sum;
        m[i] = top;
    }
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    const int Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    float S[T * T], m[T], l[T];
    for (int h = 0; h < shape->batch * shape->q_heads; h++) {
        const float *Kh = K + (size_t)h * Nk * D, *Vh = V + (size_t)h * Nk * D;
        for (int i0 = 0; i0 < Nq; i0 += T) {
            const size_t at = (size_t)h * Nq + i0;
            const int rows = Nq - i0 < T ? Nq - i0 : T;
            float *Oi = O + at * D;
            for (int i = 0; i < rows; i++) m[i] = -FLT_MAX, l[i] = 0;
            for (int x = 0; x < rows * D; x++) Oi[x] = 0;

            const int last = shape->causal ? i0 + rows : Nk;
            for (int j0 = 0; j0 < last; j0 += T) {
                const int cols = last - j0 < T ? last - j0 : T;
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, D, shape->scale, Q + at * D, D,
                            Kh + (size_t)j0 * D, D, 0, S, T);
                if (shape->causal)
                    for (int i = 0; i < rows; i++)
                        for (int j = 0; j < cols; j++)
                            if (j0 + j > i0 + i) S[i * T + j] = 0;
                softmax_step(S, Oi, m, l, rows, cols, D);
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, D, cols, 1, S, T, Vh + (size_t)j0 * D, D,
                            1, Oi, D);
            }

            for (int i = 0; i < rows; i++) {
                cblas_sscal(D, 1 / l[i], Oi + (size_t)i * D, 1);
                L[at + i] = m[i] + logf(l[i]);
            }
        }
    }
    return WB_OK;
}
