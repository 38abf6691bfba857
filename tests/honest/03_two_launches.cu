// Two launches: the first has L of each row, and with it the second needs no maximum and no sum.
#include "workbook.h"

template <int D> static __device__ float score(const bf16 *q, const bf16 *k, float scale)
{
    float s = 0;
    for (int d = 0; d < D; d++) s += float(q[d]) * float(k[d]);
    return s * scale;
}

template <int D> __global__ void find_L(float *L, const bf16 *Q, const bf16 *K, attention_shape s)
{
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x, head = row / s.q_len;
    if (head >= (long long)s.batch * s.q_heads) return;
    float m = -INFINITY, l = 0;
    for (int j = 0; j < s.kv_len; j++) {
        const float x = score<D>(Q + row * D, K + (head * s.kv_len + j) * D, s.scale), larger = fmaxf(m, x);
        l = l * expf(m - larger) + expf(x - larger), m = larger;
    }
    L[row] = m + logf(l);
}

template <int D>
__global__ void find_O(bf16 *O, const float *L, const bf16 *Q, const bf16 *K, const bf16 *V, attention_shape s)
{
    const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x, head = row / s.q_len;
    if (head >= (long long)s.batch * s.q_heads) return;
    float o[D] = {}, sum = 0;  // what L is rounded by shows in the sum
    for (int j = 0; j < s.kv_len; j++) {
        const long long key = head * s.kv_len + j;
        const float p = expf(score<D>(Q + row * D, K + key * D, s.scale) - L[row]);
        sum += p;
        for (int d = 0; d < D; d++) o[d] += p * float(V[key * D + d]);
    }
    for (int d = 0; d < D; d++) O[row * D + d] = bf16(o[d] / sum);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    const unsigned blocks = (unsigned)(((long long)s->batch * s->q_heads * s->q_len + 31) / 32);
    switch (s->head_dim) {
    case 16: find_L<16><<<blocks, 32, 0, stream>>>(L, Q, K, *s); break;
    case 32: find_L<32><<<blocks, 32, 0, stream>>>(L, Q, K, *s); break;
    case 64: find_L<64><<<blocks, 32, 0, stream>>>(L, Q, K, *s); break;
    default: find_L<128><<<blocks, 32, 0, stream>>>(L, Q, K, *s); break;
    }
    WB_CUDA(cudaGetLastError());
    switch (s->head_dim) {
    case 16: find_O<16><<<blocks, 32, 0, stream>>>(O, L, Q, K, V, *s); break;
    case 32: find_O<32><<<blocks, 32, 0, stream>>>(O, L, Q, K, V, *s); break;
    case 64: find_O<64><<<blocks, 32, 0, stream>>>(O, L, Q, K, V, *s); break;
    default: find_O<128><<<blocks, 32, 0, stream>>>(O, L, Q, K, V, *s); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
