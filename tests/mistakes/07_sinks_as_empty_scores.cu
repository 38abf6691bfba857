// mistake: takes the sinks as S additional scores of 0 in the denominator instead of as the first S keys
#include "workbook.h"

// One warp a query, one key a lane.
__global__ void flash_sinks_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, size_t rows, int Hq,
                                   int Hkv, int N, int D, int W, int sinks, float scale)
{
    __shared__ float P[2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t row = (size_t)blockIdx.x * 2 + warp;
    if (row >= rows) return;
    const int i = (int)(row % N), q_head = (int)(row / N % Hq);
    const size_t kv_head = row / N / Hq * Hkv + q_head / (Hq / Hkv);
    const bf16 *const q = Q + row * D;
    K += kv_head * N * D;
    V += kv_head * N * D;

    float acc[4] = {};
    float m = sinks > 0 ? 0.0f : -INFINITY, l = (float)sinks;
    const int left = max(0, i - W + 1);
    const int keys = i + 1 - left;
    for (int k0 = 0; k0 < keys; k0 += 32) {
        const int n = min(32, keys - k0);
        float s = -INFINITY;
        const auto key = [&](int k) { return left + k; };
        if (lane < n) {
            const bf16 *const k = K + (size_t)key(k0 + lane) * D;
            s = 0;
            for (int d = 0; d < D; d++) s += __bfloat162float(q[d]) * __bfloat162float(k[d]);
            s *= scale;
        }
        float top = s;
        for (int x = 16; x > 0; x /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, x));
        top = fmaxf(top, m);
        const float a = expf(m - top), p = expf(s - top);
        float sum = p;
        for (int x = 16; x > 0; x /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, x);
        m = top;
        l = l * a + sum;
        P[warp][lane] = p;
        __syncwarp();
        for (int c = 0, d = lane; d < D; c++, d += 32) {
            acc[c] *= a;
            for (int k = 0; k < n; k++) acc[c] += P[warp][k] * __bfloat162float(V[(size_t)key(k0 + k) * D + d]);
        }
        __syncwarp();
    }
    for (int c = 0, d = lane; d < D; c++, d += 32) O[row * D + d] = __float2bfloat16(acc[c] / l);
    if (lane == 0) L[row] = m + logf(l);
}

wb_status flash_sinks(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                      wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const size_t rows = (size_t)shape->batch * shape->q_heads * shape->q_len;
    flash_sinks_kernel<<<(unsigned)((rows + 1) / 2), 64, 0, stream>>>(O, L, Q, K, V, rows, shape->q_heads,
                                                                      shape->kv_heads, shape->q_len, shape->head_dim,
                                                                      shape->window, shape->sinks, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
