// A thread a query, 1024 in a block: the window from the right, then the sinks, nothing shared. Two passes: the maximum, then the sums.
#include "workbook.h"

// f(key) for each key that query i sees.
template <class F> static __device__ void each_key(int i, const attention_shape &shape, F f)
{
    const int begin = i < shape.window ? 0 : i - shape.window + 1;
    for (int j = i; j >= begin; j--) f(j);
    for (int j = 0; j < shape.sinks && j < begin; j++) f(j);
}

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
    const auto score = [&](int j) {
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * float(K[(kv * N + j) * D + d]);
        return s;
    };
    each_key(i, shape, [&](int j) { m = fmaxf(m, score(j)); });
    each_key(i, shape, [&](int j) {
        const float p = expf(score(j) - m);
        l += p;
        for (int d = 0; d < D; d++) o[d] += p * float(V[(kv * N + j) * D + d]);
    });
    for (int d = 0; d < D; d++) O[(head * N + i) * D + d] = bf16(o[d] / l);
    L[head * N + i] = m + logf(l);
}

wb_status flash_sinks(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                      wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, s);
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
