// A thread a query: first its window, then the sinks that the window has not seen.
#include "workbook.h"

template <int D> struct row_state {
    float m = -INFINITY, l = 0, o[D] = {};

    __device__ void see(const float *q, const bf16 *k, const bf16 *v)
    {
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * float(k[d]);
        if (s > m) {
            const float a = exp2f(m - s);
            l *= a;
            for (int d = 0; d < D; d++) o[d] *= a;
            m = s;
        }
        const float p = exp2f(s - m);
        l += p;
        for (int d = 0; d < D; d++) o[d] += p * float(v[d]);
    }
};

template <int D>
__global__ void sinks_last(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, attention_shape shape)
{
    const int N = shape.q_len, i = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t b = blockIdx.z, head = b * shape.q_heads + blockIdx.y,
                 kv = b * shape.kv_heads + blockIdx.y / (shape.q_heads / shape.kv_heads);
    if (i >= N) return;
    float q[D];
    for (int d = 0; d < D; d++) q[d] = float(Q[(head * N + i) * D + d]) * shape.scale * 1.44269504f;
    row_state<D> state;
    const int start = i - shape.window + 1 > 0 ? i - shape.window + 1 : 0;
    for (int j = start; j <= i; j++) state.see(q, K + (kv * N + j) * D, V + (kv * N + j) * D);
    for (int j = 0; j < shape.sinks && j < start; j++) state.see(q, K + (kv * N + j) * D, V + (kv * N + j) * D);
    for (int d = 0; d < D; d++) O[(head * N + i) * D + d] = bf16(state.o[d] / state.l);
    L[head * N + i] = (state.m + log2f(state.l)) * 0.693147181f;
}

wb_status flash_sinks(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                      wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    const dim3 grid((s->q_len - 1) / 64 + 1, s->q_heads, s->batch);
    switch (s->head_dim) {
    case 16: sinks_last<16><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *s); break;
    case 32: sinks_last<32><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *s); break;
    case 64: sinks_last<64><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *s); break;
    default: sinks_last<128><<<grid, 64, 0, stream>>>(O, L, Q, K, V, *s); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
