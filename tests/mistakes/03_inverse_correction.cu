// mistake: takes exp(new maximum - old maximum) instead of its inverse as the correction of what was summed
// Simple version: every thread has one query and goes over all keys by itself.
#include "workbook.h"

#include <math.h>

template <int D> __global__ void simple_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                  int Nq, int Nk, float scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Nq) return;
    const size_t head = blockIdx.z * (size_t)gridDim.y + blockIdx.y;
    Q += (head * Nq + i) * D;
    O += (head * Nq + i) * D;
    K += head * Nk * D;
    V += head * Nk * D;

    float q[D], acc[D];
    for (int d = 0; d < D; d++) {
        q[d] = (float)Q[d] * scale;
        acc[d] = (float)V[d];  // the first key begins with weight 1
    }
    float m = 0, l = 1;
    for (int d = 0; d < D; d++) m += q[d] * (float)K[d];

    for (int j = 1; j < Nk; j++) {
        const bf16 *k = K + (size_t)j * D, *v = V + (size_t)j * D;
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * (float)k[d];

        float p = 1;
        if (s > m) {
            const float correction = expf(s - m);
            l *= correction;
            for (int d = 0; d < D; d++) acc[d] *= correction;
            m = s;
        } else {
            p = expf(s - m);
        }
        l += p;
        for (int d = 0; d < D; d++) acc[d] += p * (float)v[d];
    }

    for (int d = 0; d < D; d++) O[d] = __float2bfloat16(acc[d] / l);
    L[head * Nq + i] = m + logf(l);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int threads = 64;
    const dim3 grid((shape->q_len + threads - 1) / threads, shape->q_heads, shape->batch);
    const auto kernel = shape->head_dim == 16   ? simple_attention<16>
                        : shape->head_dim == 32 ? simple_attention<32>
                        : shape->head_dim == 64 ? simple_attention<64>
                                                : simple_attention<128>;
    kernel<<<grid, threads, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
