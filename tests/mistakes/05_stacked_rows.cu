// mistake: uses a query's row in the group's stack of heads instead of its position in the sequence for the causal mask
// The query heads of a group lie one behind the other in memory: [Hq / Hkv, N, D] is also [Hq / Hkv * N, D]. So a group is one
// tall matrix of queries against one K and V, and a thread takes a row of it.
#include "workbook.h"

#include <math.h>

template <int D> __global__ void group_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                 int group, int N, float scale)
{
    const int r = blockIdx.x * blockDim.x + threadIdx.x;  // row of the tall matrix
    if (r >= group * N) return;
    const size_t kv = blockIdx.z * gridDim.y + blockIdx.y;
    const size_t row = kv * group * N + r;
    K += kv * N * D;
    V += kv * N * D;

    float q[D], o[D];
    for (int d = 0; d < D; d++) {
        q[d] = Q[row * D + d];
        o[d] = 0.0f;
    }

    const int last = min(r, N - 1);
    float m = -INFINITY, l = 0;
    for (int j = 0; j <= last; j++) {
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * (float)K[(size_t)j * D + d];
        s *= scale;
        const float m_new = fmaxf(m, s);
        const float a = expf(m - m_new), p = expf(s - m_new);
        l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * (float)V[(size_t)j * D + d];
        m = m_new;
    }

    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(o[d] / l);
    L[row] = m + logf(l);
}

template <int D> static void start(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                   const attention_shape *shape, wb_stream stream)
{
    const int group = shape->q_heads / shape->kv_heads, rows = group * shape->q_len;
    const dim3 grid((rows + 127) / 128, shape->kv_heads, shape->batch);
    group_attention<D><<<grid, 128, 0, stream>>>(O, L, Q, K, V, group, shape->q_len, shape->scale);
}

wb_status flash_gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                    wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (shape->head_dim == 16) start<16>(O, L, Q, K, V, shape, stream);
    if (shape->head_dim == 32) start<32>(O, L, Q, K, V, shape, stream);
    if (shape->head_dim == 64) start<64>(O, L, Q, K, V, shape, stream);
    if (shape->head_dim == 128) start<128>(O, L, Q, K, V, shape, stream);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
