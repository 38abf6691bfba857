// A thread a query, 32 a block; each walks its keys from its own back to the first, straight from device memory.
#include "workbook.h"

template <int D>
__global__ void backwards(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int N, float scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t head = blockIdx.y + (size_t)gridDim.y * blockIdx.z;
    if (i >= N) return;
    const bf16 *q = Q + (head * N + i) * D;
    float m = 0, l = 0, o[D];
    for (int j = i; j >= 0; j--) {
        const bf16 *k = K + (head * N + j) * D, *v = V + (head * N + j) * D;
        float s = 0;
        for (int d = 0; d < D; d++) s += float(q[d]) * float(k[d]);
        s *= scale;
        const bool first = j == i;
        const float m_new = first ? s : fmaxf(m, s), a = first ? 0 : expf(m - m_new), p = expf(s - m_new);
        l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = (first ? 0 : o[d] * a) + p * float(v[d]);
        m = m_new;
    }
    for (int d = 0; d < D; d++) O[(head * N + i) * D + d] = bf16(o[d] / l);
    L[head * N + i] = m + logf(l);
}

wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_causal", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    const dim3 grid((s->q_len + 31) / 32, s->q_heads, s->batch);
    switch (s->head_dim) {
    case 16: backwards<16><<<grid, 32, 0, stream>>>(O, L, Q, K, V, s->q_len, s->scale); break;
    case 32: backwards<32><<<grid, 32, 0, stream>>>(O, L, Q, K, V, s->q_len, s->scale); break;
    case 64: backwards<64><<<grid, 32, 0, stream>>>(O, L, Q, K, V, s->q_len, s->scale); break;
    default: backwards<128><<<grid, 32, 0, stream>>>(O, L, Q, K, V, s->q_len, s->scale); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
