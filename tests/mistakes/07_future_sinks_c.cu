// mistake: the sinks are visible to every query, also to queries that come before them
#include "workbook.h"

#include <float.h>

struct Mask {
    int window, sinks;
    __device__ bool sees(int query, int key) const
    {
        const bool in_window = key <= query && query - key < window;
        const bool is_sink = key < sinks;
        return in_window || is_sink;
    }
};

struct Row {
    float m, l;
    float o[128];
};

__device__ void add_key(Row &r, float score, const bf16 *v, int D)
{
    const float m = fmaxf(r.m, score), old = expf(r.m - m), p = expf(score - m);
    r.m = m;
    r.l = r.l * old + p;
    for (int d = 0; d < D; d++) r.o[d] = r.o[d] * old + p * (float)v[d];
}

__global__ void sinks_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Hq, int Hkv, int N,
                             int D, Mask mask, float scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    const int h = blockIdx.y, b = blockIdx.z;
    const bf16 *q = Q + (((size_t)b * Hq + h) * N + i) * D;
    const size_t kv = ((size_t)b * Hkv + h / (Hq / Hkv)) * N * D;

    Row r;
    r.m = -FLT_MAX, r.l = 0;
    for (int d = 0; d < D; d++) r.o[d] = 0;

    const auto visit = [&](int j) {
        if (!mask.sees(i, j)) return;
        float s = 0;
        for (int d = 0; d < D; d++) s += (float)q[d] * (float)K[kv + (size_t)j * D + d];
        add_key(r, s * scale, V + kv + (size_t)j * D, D);
    };
    const int sink_end = min(mask.sinks, N);
    const int window_begin = i - mask.window + 1 > 0 ? i - mask.window + 1 : 0;
    for (int j = 0; j < sink_end; j++) visit(j);
    for (int j = max(window_begin, sink_end); j <= i; j++) visit(j);

    bf16 *o = O + (((size_t)b * Hq + h) * N + i) * D;
    for (int d = 0; d < D; d++) o[d] = __float2bfloat16(r.o[d] / r.l);
    L[((size_t)b * Hq + h) * N + i] = r.m + logf(r.l);
}

wb_status flash_sinks(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                      wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const Mask mask = {shape->window, shape->sinks};
    const dim3 grid((shape->q_len + 31) / 32, shape->q_heads, shape->batch);
    sinks_kernel<<<grid, 32, 0, stream>>>(O, L, Q, K, V, shape->q_heads, shape->kv_heads, shape->q_len, shape->head_dim,
                                          mask, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
