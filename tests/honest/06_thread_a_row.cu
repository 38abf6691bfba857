// A thread a query, 1024 in a block: each walks over its own window, and none waits for another.
#include "workbook.h"

template <int D>
__global__ void thread_a_row(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, attention_shape shape)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, h = blockIdx.y, N = shape.q_len;
    const size_t mine = i < N ? i : N - 1;
    const size_t head = (size_t)blockIdx.z * shape.q_heads + h;
    const size_t kv = (size_t)blockIdx.z * shape.kv_heads + h / (shape.q_heads / shape.kv_heads);
    float q[D], o[D] = {}, m = -INFINITY, l = 0;
    for (int d = 0; d < D; d++) q[d] = float(Q[(head * N + mine) * D + d]) * shape.scale;
    __syncthreads();  // all begin with their first keys at once
    if (i >= N) return;
    for (int j = i < shape.window ? 0 : i - shape.window + 1; j <= i; j++) {
        const bf16 *k = K + (kv * N + j) * D, *v = V + (kv * N + j) * D;
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * float(k[d]);
        const float larger = fmaxf(m, s), a = expf(m - larger), p = expf(s - larger);
        m = larger, l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * float(v[d]);
    }
    for (int d = 0; d < D; d++) O[(head * N + i) * D + d] = bf16(o[d] / l);
    L[head * N + i] = m + logf(l);
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    const dim3 grid((s->q_len - 1) / 1024 + 1, s->q_heads, s->batch);
    switch (s->head_dim) {
    case 16: thread_a_row<16><<<grid, 1024, 0, stream>>>(O, L, Q, K, V, *s); break;
    case 32: thread_a_row<32><<<grid, 1024, 0, stream>>>(O, L, Q, K, V, *s); break;
    case 64: thread_a_row<64><<<grid, 1024, 0, stream>>>(O, L, Q, K, V, *s); break;
    default: thread_a_row<128><<<grid, 1024, 0, stream>>>(O, L, Q, K, V, *s); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
