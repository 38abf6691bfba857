// mistake: divides exp(score) by L instead of subtracting L from the score before the exponential
// Backward, the simple way: a thread a query for delta and dQ, then a thread a key for dK and dV.
#include "workbook.h"

#include <math.h>

struct sizes {
    int q_heads, kv_heads, N;
    float scale;
};

template <int D> __device__ float dot(const bf16 *a, const bf16 *b)
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += __bfloat162float(a[d]) * __bfloat162float(b[d]);
    return sum;
}

// The weight of a key, from the forward's L.
__device__ float weight(float score, float L) { return expf(score) / L; }

template <int D> __global__ void query_kernel(bf16 *dQ, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                                              const bf16 *O, const float *L, const bf16 *dO, sizes s)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.N) return;
    const int h = blockIdx.y, b = blockIdx.z;
    const size_t row = ((size_t)b * s.q_heads + h) * s.N + i;
    const size_t key = ((size_t)b * s.kv_heads + h / (s.q_heads / s.kv_heads)) * s.N;
    const bf16 *q = Q + row * D, *g = dO + row * D;

    const float sum = dot<D>(g, O + row * D);
    delta[row] = sum;

    float dq[D] = {};
    for (int j = 0; j <= i; j++) {
        const bf16 *k = K + (key + j) * D, *v = V + (key + j) * D;
        const float p = weight(s.scale * dot<D>(q, k), L[row]);
        const float ds = p * (dot<D>(g, v) - sum);
        for (int d = 0; d < D; d++) dq[d] += ds * __bfloat162float(k[d]);
    }
    for (int d = 0; d < D; d++) dQ[row * D + d] = __float2bfloat16(s.scale * dq[d]);
}

template <int D> __global__ void key_kernel(bf16 *dK, bf16 *dV, const float *delta, const bf16 *Q, const bf16 *K,
                                            const bf16 *V, const float *L, const bf16 *dO, sizes s)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= s.N) return;
    const int kv = blockIdx.y, b = blockIdx.z, group = s.q_heads / s.kv_heads;
    const size_t key = ((size_t)b * s.kv_heads + kv) * s.N + j;

    float dk[D] = {}, dv[D] = {};
    for (int h = kv * group; h < (kv + 1) * group; h++)
        for (int i = j; i < s.N; i++) {
            const size_t row = ((size_t)b * s.q_heads + h) * s.N + i;
            const bf16 *q = Q + row * D, *g = dO + row * D;
            const float p = weight(s.scale * dot<D>(q, K + key * D), L[row]);
            const float ds = p * (dot<D>(g, V + key * D) - delta[row]);
            for (int d = 0; d < D; d++) {
                dv[d] += p * __bfloat162float(g[d]);
                dk[d] += ds * __bfloat162float(q[d]);
            }
        }
    for (int d = 0; d < D; d++) {
        dK[key * D + d] = __float2bfloat16(s.scale * dk[d]);
        dV[key * D + d] = __float2bfloat16(dv[d]);
    }
}

template <int D> static wb_status run(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
                                      const bf16 *V, const bf16 *O, const float *L, const bf16 *dO,
                                      const attention_shape *shape, wb_stream stream)
{
    const sizes s = {shape->q_heads, shape->kv_heads, shape->q_len, shape->scale};
    const int threads = 64, blocks = (s.N - 1) / threads + 1;
    query_kernel<D><<<dim3(blocks, s.q_heads, shape->batch), threads, 0, stream>>>(dQ, delta, Q, K, V, O, L, dO, s);
    WB_CUDA(cudaGetLastError());
    key_kernel<D><<<dim3(blocks, s.kv_heads, shape->batch), threads, 0, stream>>>(dK, dV, delta, Q, K, V, L, dO, s);
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
    case 16: return run<16>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    case 32: return run<32>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    case 64: return run<64>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    default: return run<128>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    }
}
