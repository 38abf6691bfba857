// mistake: in the last, ragged group of keys the missing keys keep the score 0 and count in the sum l
#include "workbook.h"

#include <float.h>

// A warp owns one query. Each lane scores one key of a group of 32; then all lanes share the columns of V.
__device__ float max32(float x)
{
    for (int k = 16; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
    return x;
}

__device__ float sum32(float x)
{
    for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

template <int D> __global__ void warp_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Nq,
                                                int Nk, float scale)
{
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Nq) return;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y, row = head * Nq + i;
    const bf16 *q = Q + row * D, *k = K + head * Nk * D, *v = V + head * Nk * D;

    constexpr int OWN = (D + 31) / 32;  // columns of O that a lane keeps: lane, lane + 32, ...
    float o[OWN] = {};
    float m = -FLT_MAX, l = 0;

    for (int j0 = 0; j0 < Nk; j0 += 32) {
        const int j = j0 + lane;
        float s = 0;
        if (j < Nk) {
            for (int d = 0; d < D; d++) s += (float)q[d] * (float)k[(size_t)j * D + d];
            s *= scale;
        }

        const float m_new = fmaxf(m, max32(s)), fix = expf(m - m_new);
        const float p = expf(s - m_new);
        l = l * fix + sum32(p);
        m = m_new;

        for (int c = 0; c < OWN; c++) o[c] *= fix;
        const int n = min(32, Nk - j0);
        for (int t = 0; t < n; t++) {
            const float pt = __shfl_sync(0xffffffffu, p, t);
            for (int c = 0; c < OWN; c++) {
                const int d = lane + 32 * c;
                if (d < D) o[c] += pt * (float)v[(size_t)(j0 + t) * D + d];
            }
        }
    }

    for (int c = 0; c < OWN; c++)
        if (lane + 32 * c < D) O[row * D + lane + 32 * c] = __float2bfloat16(o[c] / l);
    if (lane == 0) L[row] = m + logf(l);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int Nq = shape->q_len, Nk = shape->kv_len;
    const dim3 grid((Nq + 3) / 4, shape->q_heads, shape->batch);
    switch (shape->head_dim) {
    case 16: warp_attention<16><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    case 32: warp_attention<32><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    case 64: warp_attention<64><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    default: warp_attention<128><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
