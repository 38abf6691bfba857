// mistake: uses fixed chunks of W keys, 0 to W - 1, W to 2 W - 1 and so on, instead of a window that moves with the query
// Four lanes for each query, eight queries a warp. The four share the columns of q, k and v, and add up a score by shuffles.
#include "workbook.h"

#include <float.h>
#include <math.h>

template <int D> struct quarter {  // of a row: one lane's columns
    float x[D / 4];

    __device__ void load(const bf16 *row)
    {
        const int first = threadIdx.x % 4 * (D / 4);
        for (int c = 0; c < D / 4; c++) x[c] = __bfloat162float(row[first + c]);
    }
};

template <int D> __device__ float dot(const quarter<D> &a, const quarter<D> &b)
{
    float sum = 0;
    for (int c = 0; c < D / 4; c++) sum += a.x[c] * b.x[c];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
}

// The first key that query i sees.
__device__ int first_key(int i, int W) { return i / W * W; }

template <int D> __global__ void window_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                               int q_heads, int kv_heads, int N, int W, float scale)
{
    const int h = blockIdx.y, b = blockIdx.z;
    const int warp_i = blockIdx.x * 32 + threadIdx.x / 32 * 8, i = warp_i + threadIdx.x % 32 / 4;
    if (warp_i >= N) return;
    const int my_i = min(i, N - 1);  // beyond the end: do as the last query does, but store nothing
    const size_t row = ((size_t)b * q_heads + h) * N + my_i;
    const size_t key0 = ((size_t)b * kv_heads + h / (q_heads / kv_heads)) * N;

    // all eight queries of the warp walk together, each takes what it sees
    const int begin = first_key(warp_i, W), end = min(warp_i + 7, N - 1), from = first_key(my_i, W);
    quarter<D> q, k, v, o = {};
    q.load(Q + row * D);
    float m = -FLT_MAX, l = 0;
    for (int j = begin; j <= end; j++) {
        k.load(K + (key0 + j) * D);
        const float s = scale * dot(q, k);
        if (j < from || j > my_i) continue;
        v.load(V + (key0 + j) * D);
        const float m_new = fmaxf(m, s), alpha = expf(m - m_new), p = expf(s - m_new);
        m = m_new;
        l = alpha * l + p;
        for (int c = 0; c < D / 4; c++) o.x[c] = alpha * o.x[c] + p * v.x[c];
    }

    if (i >= N) return;
    const int lane = threadIdx.x % 4;
    for (int c = 0; c < D / 4; c++) O[row * D + lane * (D / 4) + c] = __float2bfloat16(o.x[c] / l);
    if (lane == 0) L[row] = m + logf(l);
}

template <int D> static wb_status run(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                      const attention_shape &s, wb_stream stream)
{
    const dim3 grid((s.q_len - 1) / 32 + 1, s.q_heads, s.batch);
    window_kernel<D><<<grid, 128, 0, stream>>>(O, L, Q, K, V, s.q_heads, s.kv_heads, s.q_len, s.window, s.scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return run<16>(O, L, Q, K, V, *shape, stream);
    case 32: return run<32>(O, L, Q, K, V, *shape, stream);
    case 64: return run<64>(O, L, Q, K, V, *shape, stream);
    default: return run<128>(O, L, Q, K, V, *shape, stream);
    }
}
