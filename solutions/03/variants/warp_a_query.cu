// warp_a_query.cu - flash_forward with a warp for each query: a lane owns every 32nd column, so a warp reads a key's
// row in one piece. A score is a sum over the lanes, five shuffles a key.
// exempt: times
#include "workbook.h"

#include <float.h>

enum { THREADS = 128 };  // of a block: four queries

template <int D> __global__ __launch_bounds__(THREADS) void forward_kernel(
    bf16 *O,        // [B, H, Nq, D]
    float *L,       // [B, H, Nq]
    const bf16 *Q,  // [B, H, Nq, D]
    const bf16 *K,  // [B, H, Nk, D]
    const bf16 *V,  // [B, H, Nk, D]
    int Nq, int Nk, float scale)
{
    constexpr int LANES = D < 32 ? D : 32, COLS = D / LANES;  // D 16: lanes 16 to 31 do what 0 to 15 do
    // who am I: column `lane` of query i of a head; heads are counted over the whole batch
    const int i = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % LANES;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    if (i >= Nq) return;  // the whole warp
    Q += (head * Nq + i) * D + lane;
    K += head * Nk * D + lane;
    V += head * Nk * D + lane;

    // load: the query, times scale and log2(e), so that scores are in base 2
    float q[COLS], o[COLS] = {}, m = -FLT_MAX, l = 0;
    for (int c = 0; c < COLS; c++) q[c] = scale * 1.44269504f * (float)Q[32 * c];

    for (int j = 0; j < Nk; j++) {
        float s = 0;
        for (int c = 0; c < COLS; c++) s += q[c] * (float)K[(size_t)j * D + 32 * c];
        for (int other = LANES / 2; other > 0; other /= 2) s += __shfl_xor_sync(0xffffffffu, s, other);
        // max
        const float m_new = fmaxf(m, s);
        // rescale
        const float alpha = exp2f(m - m_new);
        m = m_new;
        l *= alpha;
        // accumulate
        const float p = exp2f(s - m);
        l += p;
        for (int c = 0; c < COLS; c++) o[c] = o[c] * alpha + p * (float)V[(size_t)j * D + 32 * c];
    }

    // finalize, store
    if (threadIdx.x % 32 >= LANES) return;
    for (int c = 0; c < COLS; c++) O[(head * Nq + i) * D + lane + 32 * c] = __float2bfloat16(o[c] / l);
    if (lane == 0) L[head * Nq + i] = (m + log2f(l)) * 0.69314718f;  // ln(2): base e
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
    const dim3 grid((shape->q_len - 1) / (THREADS / 32) + 1, shape->q_heads, shape->batch);
    kernel<<<grid, THREADS, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
