// mistake: does not subtract delta from dP
#include "workbook.h"

// Three kernels, a thread a row in each: delta of a query, dQ of a query, dK and dV of a key.

__global__ void delta_kernel(float *delta, const bf16 *O, const bf16 *dO, size_t rows, int D)
{
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int d = 0; d < D; d++) sum += (float)O[row * D + d] * (float)dO[row * D + d];
    delta[row] = sum;
}

template <int D> __device__ static float dot(const float (&a)[D], const bf16 *b)
{
    float s = 0;
    for (int d = 0; d < D; d++) s += a[d] * (float)b[d];
    return s;
}

template <int D> __global__ void dq_kernel(bf16 *dQ, const bf16 *Q, const bf16 *K, const bf16 *V, const float *L,
                                           const bf16 *dO, size_t rows, int Hq, int Hkv, int N, float scale)
{
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int i = (int)(row % N);
    const size_t head = row / N, kv = (head / Hq * Hkv + head % Hq / (Hq / Hkv)) * N;
    float q[D], g[D], sum[D];
    for (int d = 0; d < D; d++) q[d] = (float)Q[row * D + d], g[d] = (float)dO[row * D + d], sum[d] = 0;
    for (int j = 0; j <= i; j++) {
        const bf16 *k = K + (kv + j) * D;
        const float p = expf(scale * dot(q, k) - L[row]);
        const float dp = dot(g, V + (kv + j) * D);
        const float ds = p * dp;
        for (int d = 0; d < D; d++) sum[d] += ds * (float)k[d];
    }
    for (int d = 0; d < D; d++) dQ[row * D + d] = __float2bfloat16(scale * sum[d]);
}

template <int D> __global__ void dkdv_kernel(bf16 *dK, bf16 *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                             const float *L, const bf16 *dO, size_t rows, int Hq, int Hkv, int N,
                                             float scale)
{
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;  // of K and V
    if (row >= rows) return;
    const int j = (int)(row % N), group = Hq / Hkv;
    float k[D], v[D], k_sum[D], v_sum[D];
    for (int d = 0; d < D; d++) k[d] = (float)K[row * D + d], v[d] = (float)V[row * D + d], k_sum[d] = v_sum[d] = 0;
    for (int member = 0; member < group; member++) {
        const size_t first = (row / N * group + member) * N;
        for (int i = j; i < N; i++) {
            const bf16 *q = Q + (first + i) * D, *g = dO + (first + i) * D;
            const float p = expf(scale * dot(k, q) - L[first + i]);
            const float dp = dot(v, g);
            const float ds = p * dp;
            for (int d = 0; d < D; d++) {
                v_sum[d] += p * (float)g[d];
                k_sum[d] += ds * (float)q[d];
            }
        }
    }
    for (int d = 0; d < D; d++) {
        dK[row * D + d] = __float2bfloat16(scale * k_sum[d]);
        dV[row * D + d] = __float2bfloat16(v_sum[d]);
    }
}

template <int D> static wb_status backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
                                           const bf16 *V, const bf16 *O, const float *L, const bf16 *dO,
                                           const attention_shape *s, wb_stream stream)
{
    const int Hq = s->q_heads, Hkv = s->kv_heads, N = s->q_len;
    const size_t q_rows = (size_t)s->batch * Hq * N, k_rows = (size_t)s->batch * Hkv * N;
    const unsigned q_blocks = (unsigned)((q_rows - 1) / 64 + 1), k_blocks = (unsigned)((k_rows - 1) / 64 + 1);
    delta_kernel<<<q_blocks, 64, 0, stream>>>(delta, O, dO, q_rows, D);
    WB_CUDA(cudaGetLastError());
    dq_kernel<D><<<q_blocks, 64, 0, stream>>>(dQ, Q, K, V, L, dO, q_rows, Hq, Hkv, N, s->scale);
    WB_CUDA(cudaGetLastError());
    dkdv_kernel<D><<<k_blocks, 64, 0, stream>>>(dK, dV, Q, K, V, L, dO, k_rows, Hq, Hkv, N, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_gqa_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                             wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return backward<16>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    case 32: return backward<32>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    case 64: return backward<64>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    default: return backward<128>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    }
}
