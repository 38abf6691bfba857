// mistake: takes the plain mean of the tiles' outputs instead of weighting each tile by its share of the whole sum
// Every tile of keys is a small attention of its own, with an output and an L. Two such results make one.
#include "workbook.h"

#include <math.h>

enum { TILE = 80, DIM = 128 };

typedef struct partial {
    float o[DIM];  // already divided by its sum
    float L;       // log of the sum of exp(score)
} partial;

// Plain softmax attention of q over `n` keys.
static void small_attention(partial *r, const float *q, const float *k, const float *v, int n, int D, float scale)
{
    float s[TILE], top = -INFINITY, total = 0;
    for (int j = 0; j < n; j++) {
        s[j] = 0;
        for (int d = 0; d < D; d++) s[j] += q[d] * k[j * D + d];
        s[j] *= scale;
        top = fmaxf(top, s[j]);
    }
    for (int d = 0; d < D; d++) r->o[d] = 0;
    for (int j = 0; j < n; j++) {
        const float p = expf(s[j] - top);
        total += p;
        for (int d = 0; d < D; d++) r->o[d] += p * v[j * D + d];
    }
    for (int d = 0; d < D; d++) r->o[d] /= total;
    r->L = top + logf(total);
}

// Takes one more tile into the result of `before` tiles.
static void merge(partial *all, const partial *tile, int before, int D)
{
    if (before == 0) {
        *all = *tile;
        return;
    }
    const float hi = fmaxf(all->L, tile->L), lo = fminf(all->L, tile->L);
    const float L = hi + log1pf(expf(lo - hi));
    const float new_share = 1.0f / (before + 1), old_share = 1 - new_share;
    for (int d = 0; d < D; d++) all->o[d] = old_share * all->o[d] + new_share * tile->o[d];
    all->L = L;
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    const size_t Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    const size_t rows = (size_t)shape->batch * shape->q_heads * Nq;
    for (size_t row = 0; row < rows; row++) {
        const size_t i = row % Nq, key = row / Nq * Nk;
        const size_t seen = shape->causal ? i + 1 : Nk;
        partial all = {.L = 0}, tile;
        int tiles = 0;
        for (size_t j = 0; j < seen; j += TILE, tiles++) {
            const int n = (int)(seen - j < TILE ? seen - j : TILE);
            small_attention(&tile, Q + row * D, K + (key + j) * D, V + (key + j) * D, n, (int)D, shape->scale);
            merge(&all, &tile, tiles, (int)D);
        }
        for (size_t d = 0; d < D; d++) O[row * D + d] = all.o[d];
        L[row] = all.L;
    }
    return WB_OK;
}
