// mistake: takes the sinks that lie in the window twice, as sinks and as keys of the window
#include "workbook.h"

#include <float.h>

// A thread a query. The sinks and the window are two attentions of their own, each with a log-sum-exp, merged at the end.
struct piece {
    float o[128];
    float lse;
};

__device__ static void attend(piece &x, const float *q, const bf16 *K, const bf16 *V, int from, int to, int D)
{
    float m = -FLT_MAX, l = 0;
    for (int d = 0; d < D; d++) x.o[d] = 0;
    for (int j = from; j < to; j++) {
        const bf16 *k = K + (size_t)j * D, *v = V + (size_t)j * D;
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * __bfloat162float(k[d]);
        if (s > m) {
            const float a = expf(m - s);
            l *= a;
            for (int d = 0; d < D; d++) x.o[d] *= a;
            m = s;
        }
        const float p = expf(s - m);
        l += p;
        for (int d = 0; d < D; d++) x.o[d] += p * __bfloat162float(v[d]);
    }
    x.lse = l > 0 ? m + logf(l) : -INFINITY;
    for (int d = 0; d < D; d++) x.o[d] = l > 0 ? x.o[d] / l : 0;
}

__global__ void flash_sinks_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, size_t rows, int Hq,
                                   int Hkv, int N, int D, int W, int sinks, float scale)
{
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int i = (int)(row % N), h = (int)(row / N % Hq);
    const size_t batch = row / N / Hq, kv = (batch * Hkv + h / (Hq / Hkv)) * N * D;

    float q[128];
    for (int d = 0; d < D; d++) q[d] = scale * __bfloat162float(Q[row * D + d]);
    const int left = max(0, i - W + 1);
    piece sink, window;
    attend(sink, q, K + kv, V + kv, 0, min(sinks, i + 1), D);
    attend(window, q, K + kv, V + kv, left, i + 1, D);

    const float top = fmaxf(sink.lse, window.lse);
    const float a = expf(sink.lse - top), b = expf(window.lse - top);
    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16((a * sink.o[d] + b * window.o[d]) / (a + b));
    L[row] = top + logf(a + b);
}

wb_status flash_sinks(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                      wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const size_t rows = (size_t)shape->batch * shape->q_heads * shape->q_len;
    flash_sinks_kernel<<<(unsigned)((rows - 1) / 32 + 1), 32, 0, stream>>>(
        O, L, Q, K, V, rows, shape->q_heads, shape->kv_heads, shape->q_len, shape->head_dim, shape->window,
        shape->sinks, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
