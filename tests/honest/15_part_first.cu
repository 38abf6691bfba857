// A thread a query: first the tiles that are seen in part, from the last of the list to the first, bit by bit; then the
// whole ones.
#include "workbook.h"

template <int D> struct row_state {
    float m = -INFINITY, l = 0, o[D] = {};

    __device__ void see(const float *q, const bf16 *k, const bf16 *v)
    {
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * float(k[d]);
        const float larger = fmaxf(m, s), a = expf(m - larger), p = expf(s - larger);
        m = larger, l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * float(v[d]);
    }
};

template <int D> __global__ void part_first(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                            block_mask mask, attention_shape shape)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.z, q_tiles = (shape.q_len - 1) / mask.q_tile + 1;
    if (i >= shape.q_len) return;
    const size_t row = ((size_t)b * shape.q_heads + blockIdx.y) * shape.q_len + i;
    const size_t keys = ((size_t)b * shape.kv_heads + blockIdx.y / (shape.q_heads / shape.kv_heads)) * shape.kv_len;
    const int list = (mask.masks == 1 ? 0 : b) * (q_tiles + 1) + i / mask.q_tile, words = mask.kv_tile / 32;
    float q[D];
    for (int d = 0; d < D; d++) q[d] = float(Q[row * D + d]) * shape.scale;
    row_state<D> state;
    for (int n = mask.part_start[list + 1] - 1; n >= mask.part_start[list]; n--) {
        const uint32_t *bits = mask.bits + ((size_t)n * mask.q_tile + i % mask.q_tile) * words;
        for (int c = 0; c < mask.kv_tile; c++) {
            const size_t key = keys + mask.part[n] * mask.kv_tile + c;
            if (bits[c / 32] >> c % 32 & 1) state.see(q, K + key * D, V + key * D);
        }
    }
    for (int n = mask.whole_start[list]; n < mask.whole_start[list + 1]; n++)
        for (int c = 0; c < mask.kv_tile; c++) {
            const size_t key = keys + mask.whole[n] * mask.kv_tile + c;
            state.see(q, K + key * D, V + key * D);
        }
    for (int d = 0; d < D; d++) O[row * D + d] = bf16(state.l > 0 ? state.o[d] / state.l : 0);
    L[row] = state.l > 0 ? state.m + logf(state.l) : -INFINITY;
}

wb_status flash_block_mask(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
                           const attention_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_block_mask("flash_block_mask", O, L, Q, K, V, mask, s);
    if (status != WB_OK) return status;
    const dim3 grid((s->q_len - 1) / 64 + 1, s->q_heads, s->batch);
    switch (s->head_dim) {
    case 16: part_first<16><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *mask, *s); break;
    case 32: part_first<32><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *mask, *s); break;
    case 64: part_first<64><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *mask, *s); break;
    default: part_first<128><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *mask, *s); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
