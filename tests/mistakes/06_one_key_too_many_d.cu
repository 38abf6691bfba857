// mistake: the window holds W keys besides the query's own, one too many
#include "workbook.h"

#include <math.h>

// A block of 4 warps, a warp a query; each lane goes over every 32nd key of the window with softmax statistics of its own,
// and at the end the lanes are merged.
template <int D> __global__ void window_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                  int Hq, int Hkv, int N, int W, float scale)
{
    const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
    const int pos = blockIdx.x * 4 + wid;
    if (pos >= N) return;
    const int h = blockIdx.y, b = blockIdx.z;
    const int hk = h / (Hq / Hkv);
    const size_t qrow = ((size_t)b * Hq + h) * N + pos;
    const size_t krow = ((size_t)b * Hkv + hk) * N;

    float acc[D];
    for (int d = 0; d < D; d++) acc[d] = 0;
    float mx = -INFINITY, sum = 0;
    const int oldest = pos - W > 0 ? pos - W : 0;
    for (int j = oldest + lane; j <= pos; j += 32) {
        float s = 0;
        for (int d = 0; d < D; d++) s += __bfloat162float(Q[qrow * D + d]) * __bfloat162float(K[(krow + j) * D + d]);
        s *= scale;
        const float mnew = fmaxf(mx, s);
        const float f = expf(mx - mnew), p = expf(s - mnew);
        sum = sum * f + p;
        for (int d = 0; d < D; d++) acc[d] = acc[d] * f + p * __bfloat162float(V[(krow + j) * D + d]);
        mx = mnew;
    }

    float all = mx;
    for (int o = 16; o; o /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, o));
    const float f = expf(mx - all);  // a lane without any key: 0
    sum *= f;
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    for (int d = 0; d < D; d++) {
        float a = acc[d] * f;
        for (int o = 16; o; o /= 2) a += __shfl_xor_sync(0xffffffffu, a, o);
        if (lane == 0) O[qrow * D + d] = __float2bfloat16(a / sum);
    }
    if (lane == 0) L[qrow] = all + logf(sum);
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int N = shape->q_len, Hq = shape->q_heads, Hkv = shape->kv_heads, W = shape->window;
    const dim3 grid((N + 3) / 4, Hq, shape->batch);
    const float sc = shape->scale;
    switch (shape->head_dim) {
    case 16: window_attention<16><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, sc); break;
    case 32: window_attention<32><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, sc); break;
    case 64: window_attention<64><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, sc); break;
    case 128: window_attention<128><<<grid, 128, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, sc); break;
    default: return wb_fail(WB_UNSUPPORTED, "head_dim %d", shape->head_dim);
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
