// mistake: P is recomputed as exp2(score in base 2 - L) although L is a natural logarithm
#include "workbook.h"

#include <math.h>

// Three plain kernels: delta, then a thread per key for dK and dV, then a thread per query for dQ.

#define LOG2E 1.44269504f

struct Sizes {
    int Hq, Hkv, N, D;
    float scale;
};

__device__ float dot(const bf16 *a, const bf16 *b, int D)
{
    float x = 0;
    for (int d = 0; d < D; d++) x += (float)a[d] * (float)b[d];
    return x;
}

// weight of one key for one query
__device__ float prob(const bf16 *q, const bf16 *k, float L, Sizes z)
{
    const float score2 = dot(q, k, z.D) * z.scale * LOG2E;
    return exp2f(score2 - L);
}

__global__ void delta_kernel(float *delta, const bf16 *O, const bf16 *dO, size_t rows, int D)
{
    const size_t r = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) delta[r] = dot(O + r * D, dO + r * D, D);
}

__global__ void keys_kernel(bf16 *dK, bf16 *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO,
                            const float *L, const float *delta, Sizes z)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, D = z.D, N = z.N;
    if (j >= N) return;
    const size_t key = ((size_t)blockIdx.z * z.Hkv + blockIdx.y) * N + j;
    const int g = z.Hq / z.Hkv;
    float dk[128] = {}, dv[128] = {};
    for (int x = 0; x < g; x++) {
        const size_t head = (size_t)blockIdx.z * z.Hq + blockIdx.y * g + x;
        for (int i = j; i < N; i++) {
            const size_t row = head * N + i;
            const bf16 *q = Q + row * D, *go = dO + row * D;
            const float p = prob(q, K + key * D, L[row], z);
            const float ds = p * (dot(go, V + key * D, D) - delta[row]);
            for (int d = 0; d < D; d++) {
                dv[d] += p * (float)go[d];
                dk[d] += ds * (float)q[d];
            }
        }
    }
    for (int d = 0; d < D; d++) {
        dK[key * D + d] = __float2bfloat16(dk[d] * z.scale);
        dV[key * D + d] = __float2bfloat16(dv[d]);
    }
}

__global__ void queries_kernel(bf16 *dQ, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO, const float *L,
                               const float *delta, Sizes z)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, D = z.D;
    if (i >= z.N) return;
    const size_t row = ((size_t)blockIdx.z * z.Hq + blockIdx.y) * z.N + i;
    const size_t key0 = ((size_t)blockIdx.z * z.Hkv + blockIdx.y / (z.Hq / z.Hkv)) * z.N;
    float dq[128] = {};
    for (int j = 0; j <= i; j++) {
        const bf16 *k = K + (key0 + j) * D;
        const float p = prob(Q + row * D, k, L[row], z);
        const float ds = p * (dot(dO + row * D, V + (key0 + j) * D, D) - delta[row]);
        for (int d = 0; d < D; d++) dq[d] += ds * (float)k[d];
    }
    for (int d = 0; d < D; d++) dQ[row * D + d] = __float2bfloat16(dq[d] * z.scale);
}

wb_status flash_gqa_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                             wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const Sizes z = {shape->q_heads, shape->kv_heads, shape->q_len, shape->head_dim, shape->scale};
    const size_t rows = (size_t)shape->batch * z.Hq * z.N;
    const unsigned blocks = (z.N + 63) / 64;
    delta_kernel<<<(unsigned)((rows + 63) / 64), 64, 0, stream>>>(delta, O, dO, rows, z.D);
    WB_CUDA(cudaGetLastError());
    keys_kernel<<<dim3(blocks, z.Hkv, shape->batch), 64, 0, stream>>>(dK, dV, Q, K, V, dO, L, delta, z);
    WB_CUDA(cudaGetLastError());
    queries_kernel<<<dim3(blocks, z.Hq, shape->batch), 64, 0, stream>>>(dQ, Q, K, V, dO, L, delta, z);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
