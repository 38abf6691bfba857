// mistake: query head h reads key head h % Hkv instead of h / (Hq / Hkv)
#include "workbook.h"

#include <math.h>

// one block of 32 threads per query, lanes split the keys; at the end the 32 partial softmaxes are merged
template <int D> __global__ void gqa_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Hq,
                                            int Hkv, int N, float scale)
{
    const int lane = threadIdx.x, i = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
    const int kh = h % Hkv;
    const size_t qrow = ((size_t)b * Hq + h) * N + i;
    const bf16 *k = K + ((size_t)b * Hkv + kh) * N * D;
    const bf16 *v = V + ((size_t)b * Hkv + kh) * N * D;

    float q[D], o[D];
    for (int d = 0; d < D; d++) {
        q[d] = scale * (float)Q[qrow * D + d];
        o[d] = 0;
    }

    float m = -INFINITY, l = 0;
    for (int j = lane; j <= i; j += 32) {
        const bf16 *kj = k + (size_t)j * D, *vj = v + (size_t)j * D;
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * (float)kj[d];
        const float m2 = fmaxf(m, s), a = expf(m - m2), p = expf(s - m2);
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * (float)vj[d];
        l = l * a + p;
        m = m2;
    }

    // merge
    float top = m;
    for (int x = 16; x; x >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, x));
    const float mine = m == -INFINITY ? 0.f : expf(m - top);
    l *= mine;
    for (int x = 16; x; x >>= 1) l += __shfl_xor_sync(0xffffffffu, l, x);
    for (int d = 0; d < D; d++) {
        float part = o[d] * mine;
        for (int x = 16; x; x >>= 1) part += __shfl_xor_sync(0xffffffffu, part, x);
        if (lane == 0) O[qrow * D + d] = __float2bfloat16(part / l);
    }
    if (lane == 0) L[qrow] = top + logf(l);
}

wb_status flash_gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                    wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int Hq = shape->q_heads, Hkv = shape->kv_heads, N = shape->q_len;
    const float c = shape->scale;
    const dim3 grid(N, Hq, shape->batch);
    if (shape->head_dim == 16) gqa_kernel<16><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, c);
    if (shape->head_dim == 32) gqa_kernel<32><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, c);
    if (shape->head_dim == 64) gqa_kernel<64><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, c);
    if (shape->head_dim == 128) gqa_kernel<128><<<grid, 32, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, c);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
