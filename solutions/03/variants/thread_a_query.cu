// thread_a_query.cu - the simplest flash_forward: one thread owns a query and iterates over its keys. The four steps of
// problem 01 in plain CUDA: no tiles, no shared memory, no barrier. Each thread reads all keys by itself, so it is
// slow.
// exempt: times
#include "workbook.h"

#include <float.h>

enum { THREADS = 128 };  // queries of a block

template <int D> __global__ __launch_bounds__(THREADS) void forward_kernel(
    bf16 *O,        // [B, H, Nq, D]
    float *L,       // [B, H, Nq]
    const bf16 *Q,  // [B, H, Nq, D]
    const bf16 *K,  // [B, H, Nk, D]
    const bf16 *V,  // [B, H, Nk, D]
    int Nq, int Nk, float scale)
{
    // who am I: query i of a head; heads are counted over the whole batch
    const int i = blockIdx.x * THREADS + threadIdx.x;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    if (i >= Nq) return;  // there is no barrier that would miss this thread
    Q += (head * Nq + i) * D;
    K += head * Nk * D;
    V += head * Nk * D;

    // load: the query, times scale and log2(e), so that scores are in base 2
    float q[D], o[D] = {}, m = -FLT_MAX, l = 0;
    for (int d = 0; d < D; d++) q[d] = scale * 1.44269504f * (float)Q[d];

    for (int j = 0; j < Nk; j++) {
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * (float)K[(size_t)j * D + d];
        // max
        const float m_new = fmaxf(m, s);
        // rescale
        const float alpha = exp2f(m - m_new);
        m = m_new;
        l *= alpha;
        // accumulate
        const float p = exp2f(s - m);
        l += p;
        for (int d = 0; d < D; d++) o[d] = o[d] * alpha + p * (float)V[(size_t)j * D + d];
    }

    // finalize, store
    for (int d = 0; d < D; d++) O[(head * Nq + i) * D + d] = __float2bfloat16(o[d] / l);
    L[head * Nq + i] = (m + log2f(l)) * 0.69314718f;  // ln(2): base e
}

wb_status flash_forward(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    auto kernel = forward_kernel<16>;
    if (shape->head_dim == 32) kernel = forward_kernel<32>;
    if (shape->head_dim == 64) kernel = forward_kernel<64>;
    if (shape->head_dim == 128) kernel = forward_kernel<128>;
    const dim3 grid((shape->q_len - 1) / THREADS + 1, shape->q_heads, shape->batch);
    kernel<<<grid, THREADS, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
