// mistake: takes the maximum, which is in base 2, into the natural logarithm L without multiplying it by ln 2
#include "workbook.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 32, KEYS = 96, MAX_D = 128 };

struct row_state {
    float m;           // maximum so far, base 2
    float l;           // sum of 2^(s - m)
    float acc[MAX_D];  // sum of 2^(s - m) * v
};

static int smaller(int a, int b) { return a < b ? a : b; }

// S[i][j] for nq x nk pairs. Hidden pairs get -infinity.
static void scores(float S[QUERIES][KEYS], const float *q, const float *k, int nq, int nk, int D, float factor, int i0,
                   int j0, int causal)
{
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < nk; j++) {
            float x = 0;
            for (int d = 0; d < D; d++) x += q[i * D + d] * k[j * D + d];
            S[i][j] = causal && j0 + j > i0 + i ? -INFINITY : x * factor;
        }
}

static void update(struct row_state *row, const float *s, const float *v, int nk, int D)
{
    float m_new = row->m;
    for (int j = 0; j < nk; j++) m_new = fmaxf(m_new, s[j]);
    if (m_new == -INFINITY) return;  // nothing visible yet

    const float alpha = exp2f(row->m - m_new);
    row->m = m_new;
    row->l *= alpha;
    for (int d = 0; d < D; d++) row->acc[d] *= alpha;

    for (int j = 0; j < nk; j++) {
        const float p = exp2f(s[j] - m_new);
        if (p == 0) continue;
        row->l += p;
        for (int d = 0; d < D; d++) row->acc[d] += p * v[j * D + d];
    }
}

static void one_head(float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *shape)
{
    const int Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    const float factor = shape->scale * 1.44269504f;
    static float S[QUERIES][KEYS];
    static struct row_state rows[QUERIES];

    for (int i0 = 0; i0 < Nq; i0 += QUERIES) {
        const int nq = smaller(QUERIES, Nq - i0);
        memset(rows, 0, sizeof rows);
        for (int i = 0; i < nq; i++) rows[i].m = -INFINITY;

        const int end = shape->causal ? i0 + nq : Nk;
        for (int j0 = 0; j0 < end; j0 += KEYS) {
            const int nk = smaller(KEYS, end - j0);
            scores(S, Q + (size_t)i0 * D, K + (size_t)j0 * D, nq, nk, D, factor, i0, j0, shape->causal);
            for (int i = 0; i < nq; i++) update(&rows[i], S[i], V + (size_t)j0 * D, nk, D);
        }

        for (int i = 0; i < nq; i++) {
            for (int d = 0; d < D; d++) O[(size_t)(i0 + i) * D + d] = rows[i].acc[d] / rows[i].l;
            L[i0 + i] = rows[i].m + logf(rows[i].l);
        }
    }
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const size_t q_size = (size_t)shape->q_len * shape->head_dim, k_size = (size_t)shape->kv_len * shape->head_dim;
    for (size_t h = 0; h < (size_t)shape->batch * shape->q_heads; h++)
        one_head(O + h * q_size, L + h * shape->q_len, Q + h * q_size, K + h * k_size, V + h * k_size, shape);
    return WB_OK;
}
