// mistake: does not keep scale * Q in float32 but rounds it to bfloat16 before the product with K
#include "workbook.h"

// A thread a query, two passes over its keys: the maximum and the sum, then the output. Q is scaled once, in front.
template <int D> __device__ float score(const float (&q)[D], const bf16 *k)
{
    float s = 0;
    for (int d = 0; d < D; d++) s = fmaf(q[d], __bfloat162float(k[d]), s);
    return s;
}

template <int D> __global__ void flash_forward_kernel(bf16 *O,        // [B, H, Nq, D]
                                                      float *L,       // [B, H, Nq]
                                                      const bf16 *Q,  // [B, H, Nq, D]
                                                      const bf16 *K,  // [B, H, Nk, D]
                                                      const bf16 *V,  // [B, H, Nk, D]
                                                      int Nq, int Nk, float scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Nq) return;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const size_t row = head * Nq + i;
    K += head * Nk * D;
    V += head * Nk * D;

    const float to_base_2 = scale * 1.44269504f;
    float q[D];
    for (int d = 0; d < D; d++) q[d] = __bfloat162float(__float2bfloat16(__bfloat162float(Q[row * D + d]) * to_base_2));

    float m = -INFINITY, l = 0;
    for (int j = 0; j < Nk; j++) {
        const float s = score(q, K + (size_t)j * D);
        if (s > m) {
            l *= exp2f(m - s);
            m = s;
        }
        l += exp2f(s - m);
    }

    float o[D] = {};
    for (int j = 0; j < Nk; j++) {
        const float p = exp2f(score(q, K + (size_t)j * D) - m) / l;
        for (int d = 0; d < D; d++) o[d] += p * __bfloat162float(V[(size_t)j * D + d]);
    }
    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(o[d]);
    L[row] = (m + log2f(l)) * 0.69314718f;
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int Nq = shape->q_len, Nk = shape->kv_len;
    const dim3 grid((Nq - 1) / 32 + 1, shape->q_heads, shape->batch);
    switch (shape->head_dim) {
    case 16: flash_forward_kernel<16><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    case 32: flash_forward_kernel<32><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    case 64: flash_forward_kernel<64><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    default: flash_forward_kernel<128><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Nq, Nk, shape->scale); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
