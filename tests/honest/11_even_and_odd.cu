// Two lanes a query: one has the keys at even places and the sink, the other those at odd places. A shuffle merges what
// they have seen.
#include "workbook.h"

template <int D> __global__ void even_and_odd(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                              const float *sink_logits, attention_shape s)
{
    const int N = s.q_len, half = threadIdx.x % 2, i = blockIdx.x * 32 + threadIdx.x / 2, h = blockIdx.y;
    if (i >= N) return;
    const unsigned both = 3u << threadIdx.x % 32 / 2 * 2;
    const size_t row = ((size_t)blockIdx.z * s.q_heads + h) * N + i;
    const size_t keys = ((size_t)blockIdx.z * s.kv_heads + h / (s.q_heads / s.kv_heads)) * N;
    float o[D] = {}, m = half ? -INFINITY : sink_logits[h], l = m > -INFINITY;
    for (int j = i - half; j >= 0 && i - j < s.window; j -= 2) {
        float x = 0;
        for (int d = 0; d < D; d++) x += float(Q[row * D + d]) * float(K[(keys + j) * D + d]);
        x *= s.scale;
        const float larger = fmaxf(m, x), a = expf(m - larger), p = expf(x - larger);
        m = larger, l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * float(V[(keys + j) * D + d]);
    }
    const float larger = fmaxf(m, __shfl_xor_sync(both, m, 1)), a = expf(m - larger);
    l *= a, l += __shfl_xor_sync(both, l, 1);
    for (int d = 0; d < D; d++) {
        o[d] *= a;
        const float sum = o[d] + __shfl_xor_sync(both, o[d], 1);
        if (d % 2 == half) O[row * D + d] = bf16(sum / l);
    }
    if (half) L[row] = larger + logf(l);
}

wb_status flash_sink_logits(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
                            const attention_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_sink_forward("flash_sink_logits", O, L, Q, K, V, sink_logits, s);
    if (status != WB_OK) return status;
    const dim3 grid((s->q_len - 1) / 32 + 1, s->q_heads, s->batch);
    switch (s->head_dim) {
    case 16: even_and_odd<16><<<grid, 64, 0, stream>>>(O, L, Q, K, V, sink_logits, *s); break;
    case 32: even_and_odd<32><<<grid, 64, 0, stream>>>(O, L, Q, K, V, sink_logits, *s); break;
    case 64: even_and_odd<64><<<grid, 64, 0, stream>>>(O, L, Q, K, V, sink_logits, *s); break;
    default: even_and_odd<128><<<grid, 64, 0, stream>>>(O, L, Q, K, V, sink_logits, *s); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
