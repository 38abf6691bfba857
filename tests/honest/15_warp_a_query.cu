// A warp a query: a lane two keys of each tile. First a pass over all of its tiles for the maximum, then one for the
// sums.
#include "workbook.h"

struct tiles {  // those of a query, whole ones first
    const block_mask &mask;
    int list, i;
    __device__ int wholes() const { return mask.whole_start[list + 1] - mask.whole_start[list]; }
    __device__ int count() const { return wholes() + mask.part_start[list + 1] - mask.part_start[list]; }
    // f(key) for this lane's keys of the n-th tile, and -1 for those that the query does not see: all lanes call alike.
    template <class F> __device__ void each_key(int n, F f) const
    {
        const bool whole = n < wholes();
        const int p = n - wholes() + mask.part_start[list];
        const int tile = whole ? mask.whole[mask.whole_start[list] + n] : mask.part[p];
        for (int c = threadIdx.x % 32; c < mask.kv_tile; c += 32) {
            const size_t word = ((size_t)p * mask.q_tile + i % mask.q_tile) * (mask.kv_tile / 32) + c / 32;
            f(whole || mask.bits[word] >> c % 32 & 1 ? tile * mask.kv_tile + c : -1);
        }
    }
};

__global__ void warp_a_query(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, block_mask mask,
                             attention_shape s)
{
    const int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32, D = s.head_dim;
    const int q_tiles = (s.q_len - 1) / mask.q_tile + 1, b = blockIdx.z;
    if (i >= s.q_len) return;
    const tiles mine = {mask, (mask.masks == 1 ? 0 : b) * (q_tiles + 1) + i / mask.q_tile, i};
    const size_t row = ((size_t)b * s.q_heads + blockIdx.y) * s.q_len + i;
    const size_t keys = ((size_t)b * s.kv_heads + blockIdx.y / (s.q_heads / s.kv_heads)) * s.kv_len;
    const auto score = [&](int j) {
        float x = 0;
        for (int d = 0; d < D; d++) x += float(Q[row * D + d]) * float(K[(keys + j) * D + d]);
        return x * s.scale;
    };
    float m = -INFINITY, l = 0, o[4] = {};
    for (int n = 0; n < mine.count(); n++)
        mine.each_key(n, [&](int j) {
            if (j >= 0) m = fmaxf(m, score(j));
        });
    for (int x = 16; x; x /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, x));
    for (int n = 0; n < mine.count() && m > -INFINITY; n++)
        mine.each_key(n, [&](int j) {
            const float p = j >= 0 ? expf(score(j) - m) : 0;
            l += p;
            for (int k = 0; k < 32; k++) {  // each lane's key for all columns
                const float weight = __shfl_sync(0xffffffff, p, k);
                const int key = __shfl_sync(0xffffffff, j, k);
                for (int c = 0; c < 4 && key >= 0 && lane + 32 * c < D; c++)
                    o[c] += weight * float(V[(keys + key) * D + lane + 32 * c]);
            }
        });
    for (int x = 16; x; x /= 2) l += __shfl_xor_sync(0xffffffff, l, x);
    for (int c = 0; c < 4 && lane + 32 * c < D; c++) O[row * D + lane + 32 * c] = bf16(l > 0 ? o[c] / l : 0);
    if (lane == 0) L[row] = l > 0 ? m + logf(l) : -INFINITY;
}

wb_status flash_block_mask(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
                           const attention_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_block_mask("flash_block_mask", O, L, Q, K, V, mask, s);
    if (status != WB_OK) return status;
    warp_a_query<<<dim3((s->q_len - 1) / 4 + 1, s->q_heads, s->batch), 128, 0, stream>>>(O, L, Q, K, V, *mask, *s);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
