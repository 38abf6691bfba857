// mistake: divides O by the running sum after every tile and does not multiply the old O by the old sum first
// A warp for each query. 32 keys make a tile: every lane has the score of one of them. O is spread over the lanes by column.
#include "workbook.h"

#include <math.h>

#define FULL     0xffffffffu
#define PER_LANE 4  // columns of O in a lane, for up to 128

__device__ float warp_max(float x)
{
    for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL, x, o));
    return x;
}

__device__ float warp_sum(float x)
{
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(FULL, x, o);
    return x;
}

__global__ void warp_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Nq, int Nk, int D,
                               float scale)
{
    const int lane = threadIdx.x & 31;
    const int i = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (i >= Nq) return;
    const size_t bh = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const bf16 *q = Q + (bh * Nq + i) * D;
    K += bh * Nk * D;
    V += bh * Nk * D;

    float m = -INFINITY, l = 0, o[PER_LANE] = {};
    for (int j0 = 0; j0 < Nk; j0 += 32) {
        const int j = j0 + lane;
        float s = -INFINITY;
        if (j < Nk) {
            s = 0;
            for (int d = 0; d < D; d++) s += __bfloat162float(q[d]) * __bfloat162float(K[(size_t)j * D + d]);
            s *= scale;
        }
        const float m_new = fmaxf(m, warp_max(s));
        const float p = expf(s - m_new);
        const float l_old = l * expf(m - m_new);  // the sum so far, under the new maximum
        const float l_new = l_old + warp_sum(p);
        const float keep = expf(m - m_new);

        for (int c = 0; c < PER_LANE; c++) {
            const int d = lane + 32 * c;
            float pv = 0;
            for (int k = 0; k < 32 && j0 + k < Nk; k++) {
                const float weight = __shfl_sync(FULL, p, k);
                if (d < D) pv += weight * __bfloat162float(V[(size_t)(j0 + k) * D + d]);
            }
            o[c] = (o[c] * keep + pv) / l_new;
        }
        m = m_new;
        l = l_new;
    }

    for (int c = 0; c < PER_LANE; c++)
        if (lane + 32 * c < D) O[(bh * Nq + i) * D + lane + 32 * c] = __float2bfloat16(o[c]);
    if (lane == 0) L[bh * Nq + i] = m + logf(l);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int warps = 4;
    const dim3 grid((shape->q_len - 1) / warps + 1, shape->q_heads, shape->batch);
    warp_attention<<<grid, 32 * warps, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->head_dim,
                                                    shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
