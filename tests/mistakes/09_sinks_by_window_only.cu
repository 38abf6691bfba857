// mistake: does not add to dK and dV of a sink what queries beyond its window contribute
#include "workbook.h"

// A thread a query for delta and dQ, then a thread a key for dK and dV. Index arithmetic in one place.
struct sizes {
    int B, Hq, Hkv, N, D, W, S;
    float scale;
    __device__ size_t key_row(size_t q_row) const  // the first key of the head that this row of Q reads
    {
        const size_t q_head = q_row / N;
        return (q_head / Hq * Hkv + q_head % Hq / (Hq / Hkv)) * N;
    }
};

__device__ static float inner(const bf16 *a, const bf16 *b, int D)
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += (float)a[d] * (float)b[d];
    return sum;
}

__global__ void query_side(bf16 *dQ, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
                           const float *L, const bf16 *dO, sizes z)
{
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (size_t)z.B * z.Hq * z.N) return;
    const int i = (int)(row % z.N), D = z.D, left = max(0, i - z.W + 1);
    const size_t keys = z.key_row(row);
    const float own_delta = inner(O + row * D, dO + row * D, D);
    delta[row] = own_delta;

    float sum[128];
    for (int d = 0; d < D; d++) sum[d] = 0;
    for (int j = 0; j <= i; j++) {
        if (j >= z.S && j < left) {
            j = left - 1;
            continue;
        }
        const bf16 *const k = K + (keys + j) * D;
        const float p = expf(z.scale * inner(Q + row * D, k, D) - L[row]);
        const float ds = p * (inner(dO + row * D, V + (keys + j) * D, D) - own_delta);
        for (int d = 0; d < D; d++) sum[d] += ds * (float)k[d];
    }
    for (int d = 0; d < D; d++) dQ[row * D + d] = __float2bfloat16(z.scale * sum[d]);
}

__global__ void key_side(bf16 *dK, bf16 *dV, const float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                         const float *L, const bf16 *dO, sizes z)
{
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (size_t)z.B * z.Hkv * z.N) return;
    const int j = (int)(row % z.N), D = z.D, group = z.Hq / z.Hkv;
    const int end = z.W < z.N - j ? j + z.W : z.N;

    float k_sum[128], v_sum[128];
    for (int d = 0; d < D; d++) k_sum[d] = v_sum[d] = 0;
    for (int g = 0; g < group; g++)
        for (int i = j; i < end; i++) {
            const size_t at = (row / z.N * group + g) * z.N + i;
            const float p = expf(z.scale * inner(Q + at * D, K + row * D, D) - L[at]);
            const float ds = p * (inner(dO + at * D, V + row * D, D) - delta[at]);
            for (int d = 0; d < D; d++) {
                v_sum[d] += p * (float)dO[at * D + d];
                k_sum[d] += ds * (float)Q[at * D + d];
            }
        }
    for (int d = 0; d < D; d++) {
        dK[row * D + d] = __float2bfloat16(z.scale * k_sum[d]);
        dV[row * D + d] = __float2bfloat16(v_sum[d]);
    }
}

wb_status flash_sinks_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                               const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                               wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_sinks_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const sizes z = {shape->batch,    shape->q_heads, shape->kv_heads, shape->q_len,
                     shape->head_dim, shape->window,  shape->sinks,    shape->scale};
    const size_t q_rows = (size_t)z.B * z.Hq * z.N, k_rows = (size_t)z.B * z.Hkv * z.N;
    query_side<<<(unsigned)((q_rows + 31) / 32), 32, 0, stream>>>(dQ, delta, Q, K, V, O, L, dO, z);
    WB_CUDA(cudaGetLastError());
    key_side<<<(unsigned)((k_rows + 31) / 32), 32, 0, stream>>>(dK, dV, delta, Q, K, V, L, dO, z);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
