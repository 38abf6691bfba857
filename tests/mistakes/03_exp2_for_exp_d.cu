// mistake: the weights are 2^(score - max) although the scores were never multiplied by log2(e)
#include "workbook.h"

#include <float.h>
#include <math.h>

#define FULL 0xffffffffu

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

// A warp does one query. 32 keys at a time, lane k scores key k; for the output a lane holds columns lane, lane + 32, ...
__global__ void warp_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Nq, int Nk, int D,
                               float scale)
{
    __shared__ float weights[4][32];
    const int lane = threadIdx.x % 32, w = threadIdx.x / 32;
    const int i = blockIdx.x * 4 + w;
    if (i >= Nq) return;
    const size_t h = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const bf16 *q = Q + (h * Nq + i) * D;
    const bf16 *k = K + h * Nk * D;
    const bf16 *v = V + h * Nk * D;

    float o[4] = {0, 0, 0, 0};
    float m = -FLT_MAX, l = 0;
    for (int j0 = 0; j0 < Nk; j0 += 32) {
        const int j = j0 + lane;
        float s = -INFINITY;
        if (j < Nk) {
            s = 0;
            for (int d = 0; d < D; d++) s += (float)q[d] * (float)k[(size_t)j * D + d];
            s *= scale;
        }
        const float m1 = fmaxf(m, warp_max(s));
        const float p = exp2f(s - m1), a = exp2f(m - m1);
        l = l * a + warp_sum(p);
        m = m1;
        weights[w][lane] = p;
        __syncwarp();
        const int n = min(32, Nk - j0);
        for (int c = 0; c < 4; c++) {
            const int d = c * 32 + lane;
            if (d >= D) continue;
            o[c] *= a;
            for (int jj = 0; jj < n; jj++) o[c] += weights[w][jj] * (float)v[(size_t)(j0 + jj) * D + d];
        }
        __syncwarp();
    }
    for (int c = 0; c < 4; c++)
        if (c * 32 + lane < D) O[(h * Nq + i) * D + c * 32 + lane] = __float2bfloat16(o[c] / l);
    if (lane == 0) L[h * Nq + i] = m + logf(l);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const dim3 grid((shape->q_len + 3) / 4, shape->q_heads, shape->batch);
    warp_attention<<<grid, 128, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->head_dim, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
