// mistake: uses 2^x instead of e^x on scores that are not in base 2
#include "workbook.h"

// One warp a query: lane t scores key j0 + t, then all lanes add up the columns t, t + 32, ... of P V.
#define WARPS 4

__device__ static float warp_max(float x)
{
    for (int k = 16; k; k /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
    return x;
}

__device__ static float warp_sum(float x)
{
    for (int k = 16; k; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

__device__ static float power(float x) { return exp2f(x); }

__global__ void flash_forward_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, size_t rows,
                                     int Nq, int Nk, int D, float scale)
{
    __shared__ float q_smem[WARPS][128], p_smem[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t row = (size_t)blockIdx.x * WARPS + warp;
    if (row >= rows) return;  // the warps of a block never meet
    const size_t head = row / Nq;
    K += head * Nk * D;
    V += head * Nk * D;

    for (int d = lane; d < D; d += 32) q_smem[warp][d] = scale * __bfloat162float(Q[row * D + d]);
    __syncwarp();

    float o[4] = {0, 0, 0, 0}, m = -INFINITY, l = 0;
    for (int j0 = 0; j0 < Nk; j0 += 32) {
        const int j = j0 + lane;
        float s = -INFINITY;
        if (j < Nk) {
            s = 0;
            for (int d = 0; d < D; d++) s += q_smem[warp][d] * __bfloat162float(K[(size_t)j * D + d]);
        }
        const float m_new = fmaxf(m, warp_max(s));
        const float a = power(m - m_new), p = power(s - m_new);
        m = m_new;
        l = a * l + warp_sum(p);
        p_smem[warp][lane] = p;
        __syncwarp();
        for (int c = 0; c < 4; c++) {
            const int d = 32 * c + lane;
            if (d >= D) break;
            o[c] *= a;
            for (int k = 0; k < 32 && j0 + k < Nk; k++)
                o[c] += p_smem[warp][k] * __bfloat162float(V[(size_t)(j0 + k) * D + d]);
        }
        __syncwarp();
    }

    for (int c = 0; 32 * c + lane < D; c++) O[row * D + 32 * c + lane] = __float2bfloat16(o[c] / l);
    if (lane == 0) L[row] = m + logf(l);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const size_t rows = (size_t)shape->batch * shape->q_heads * shape->q_len;
    flash_forward_kernel<<<(unsigned)((rows + WARPS - 1) / WARPS), 32 * WARPS, 0, stream>>>(
        O, L, Q, K, V, rows, shape->q_len, shape->kv_len, shape->head_dim, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
