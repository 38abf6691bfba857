// mistake: does not multiply the new tile's P V by exp(tile maximum - new maximum) before it adds it to O
#include "workbook.h"

// FlashAttention (2022), algorithm 1, lines 9 to 13: O is normalised after every tile. One thread a query.
#define TILE_KEYS 24

template <int D> __global__ void flash_forward_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                      size_t queries, int Nq, int Nk, float scale)
{
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= queries) return;
    const size_t head = index / Nq;
    const bf16 *const k_head = K + head * Nk * D, *const v_head = V + head * Nk * D;

    float q[D], o[D];
    for (int d = 0; d < D; d++) {
        q[d] = __bfloat162float(Q[index * D + d]);
        o[d] = 0;
    }
    float m_i = -INFINITY, l_i = 0;

    for (int start = 0; start < Nk; start += TILE_KEYS) {
        const int n = min(TILE_KEYS, Nk - start);
        float p[TILE_KEYS];
        float m_tile = -INFINITY, l_tile = 0;
        for (int j = 0; j < n; j++) {
            const bf16 *const k = k_head + (size_t)(start + j) * D;
            float s = 0;
            for (int d = 0; d < D; d++) s += q[d] * __bfloat162float(k[d]);
            p[j] = s * scale;
            m_tile = fmaxf(m_tile, p[j]);
        }
        for (int j = 0; j < n; j++) {
            p[j] = expf(p[j] - m_tile);
            l_tile += p[j];
        }

        const float m_new = fmaxf(m_i, m_tile);
        const float old_part = expf(m_i - m_new), new_part = expf(m_tile - m_new);
        const float l_new = old_part * l_i + new_part * l_tile;
        for (int d = 0; d < D; d++) {
            float pv = 0;
            for (int j = 0; j < n; j++) pv += p[j] * __bfloat162float(v_head[(size_t)(start + j) * D + d]);
            o[d] = (l_i * old_part * o[d] + pv) / l_new;
        }
        m_i = m_new;
        l_i = l_new;
    }

    for (int d = 0; d < D; d++) O[index * D + d] = __float2bfloat16(o[d]);
    L[index] = m_i + logf(l_i);
}

template <int D> static wb_status start(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                        const attention_shape *s, wb_stream stream)
{
    const size_t queries = (size_t)s->batch * s->q_heads * s->q_len;
    const unsigned blocks = (unsigned)((queries + 63) / 64);
    flash_forward_kernel<D><<<blocks, 64, 0, stream>>>(O, L, Q, K, V, queries, s->q_len, s->kv_len, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (shape->head_dim == 16) return start<16>(O, L, Q, K, V, shape, stream);
    if (shape->head_dim == 32) return start<32>(O, L, Q, K, V, shape, stream);
    if (shape->head_dim == 64) return start<64>(O, L, Q, K, V, shape, stream);
    return start<128>(O, L, Q, K, V, shape, stream);
}
