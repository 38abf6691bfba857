// mistake: O is divided by the sum so far after every tile of keys, but the next tile takes it up again without multiplying by the old sum
#include "workbook.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define TILE_Q 16
#define TILE_K 48

typedef struct {
    float m[TILE_Q], l[TILE_Q];
} stats;

static void step(float *O, stats *st, const float *Q, const float *K, const float *V, int nq, int nk, int D, int q0,
                 int k0, const attention_shape *sh)
{
    float S[TILE_Q][TILE_K];
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < nk; j++) {
            float acc = 0;
            for (int d = 0; d < D; d++) acc += Q[i * D + d] * K[j * D + d];
            const int hidden = sh->causal && k0 + j > q0 + i;
            S[i][j] = hidden ? -INFINITY : acc * sh->scale;
        }
    for (int i = 0; i < nq; i++) {
        const float m_old = st->m[i], l_old = st->l[i];
        float m_now = m_old;
        for (int j = 0; j < nk; j++) m_now = fmaxf(m_now, S[i][j]);
        if (m_now == -INFINITY) continue;  // nothing visible yet
        const float shrink = expf(m_old - m_now);
        float l_now = l_old * shrink;
        for (int j = 0; j < nk; j++) {
            S[i][j] = expf(S[i][j] - m_now);
            l_now += S[i][j];
        }
        float *o = O + (size_t)i * D;
        for (int d = 0; d < D; d++) {
            float pv = 0;
            for (int j = 0; j < nk; j++) pv += S[i][j] * V[j * D + d];
            o[d] = (shrink * o[d] + pv) / l_now;
        }
        st->m[i] = m_now;
        st->l[i] = l_now;
    }
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    memset(O, 0, sizeof(float) * shape->batch * shape->q_heads * Nq * D);
    for (int b = 0; b < shape->batch; b++)
        for (int h = 0; h < shape->q_heads; h++) {
            const size_t bh = (size_t)b * shape->q_heads + h;
            for (int q0 = 0; q0 < Nq; q0 += TILE_Q) {
                const int nq = Nq - q0 < TILE_Q ? Nq - q0 : TILE_Q;
                const size_t row = bh * Nq + q0;
                stats st;
                for (int i = 0; i < TILE_Q; i++) st.m[i] = -INFINITY, st.l[i] = 0;
                for (int k0 = 0; k0 < Nk; k0 += TILE_K) {
                    if (shape->causal && k0 >= q0 + nq) break;
                    int nk = Nk - k0 < TILE_K ? Nk - k0 : TILE_K;
                    if (shape->causal && k0 + nk > q0 + nq) nk = q0 + nq - k0;
                    const size_t key = (bh * Nk + k0) * D;
                    step(O + row * D, &st, Q + row * D, K + key, V + key, nq, nk, D, q0, k0, shape);
                }
                for (int i = 0; i < nq; i++) L[row + i] = st.m[i] + logf(st.l[i]);
            }
        }
    return WB_OK;
}
