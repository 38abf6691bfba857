// Plain CUDA: one warp a query, one key a lane for the scores, columns of V a lane for the sum. All in float32, nothing shared.
#include "workbook.h"

template <int D>
__global__ void warp_row(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Nq, int Nk, float scale)
{
    const int lane = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    if (row >= Nq) return;
    const bf16 *q = Q + (head * Nq + row) * D, *k = K + head * Nk * D, *v = V + head * Nk * D;
    constexpr int PER = D < 32 ? 1 : D / 32;
    float m = -INFINITY, l = 0, o[PER] = {};
    for (int j0 = 0; j0 < Nk; j0 += 32) {
        const int j = j0 + lane;
        float s = -INFINITY;
        if (j < Nk) {
            s = 0;
            for (int d = 0; d < D; d++) s += __bfloat162float(q[d]) * __bfloat162float(k[(size_t)j * D + d]);
            s *= scale;
        }
        float top = s;
        for (int x = 16; x; x /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, x));
        const float m_new = fmaxf(m, top), a = expf(m - m_new), p = expf(s - m_new);
        float sum = p;
        for (int x = 16; x; x /= 2) sum += __shfl_xor_sync(~0u, sum, x);
        l = l * a + sum;
        m = m_new;
        for (int c = 0; c < PER; c++) o[c] *= a;
        for (int n = 0; n < 32 && j0 + n < Nk; n++) {
            const float weight = __shfl_sync(~0u, p, n);
            for (int c = 0; c < PER; c++)
                if (lane + 32 * c < D) o[c] += weight * __bfloat162float(v[(size_t)(j0 + n) * D + lane + 32 * c]);
        }
    }
    for (int c = 0; c < PER; c++)
        if (lane + 32 * c < D) O[(head * Nq + row) * D + lane + 32 * c] = __float2bfloat16(o[c] / l);
    if (lane == 0) L[head * Nq + row] = m + logf(l);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    const dim3 grid((s->q_len + 3) / 4, s->q_heads, s->batch), block(32, 4);
    switch (s->head_dim) {
    case 16: warp_row<16><<<grid, block, 0, stream>>>(O, L, Q, K, V, s->q_len, s->kv_len, s->scale); break;
    case 32: warp_row<32><<<grid, block, 0, stream>>>(O, L, Q, K, V, s->q_len, s->kv_len, s->scale); break;
    case 64: warp_row<64><<<grid, block, 0, stream>>>(O, L, Q, K, V, s->q_len, s->kv_len, s->scale); break;
    default: warp_row<128><<<grid, block, 0, stream>>>(O, L, Q, K, V, s->q_len, s->kv_len, s->scale); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
