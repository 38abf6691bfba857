// mistake: takes W keys to the left besides the query's own key instead of W keys with its own
#include "workbook.h"

// A thread a query, two passes over its window: first m and l, then O.
template <int D> __device__ static inline float dot(const bf16 *a, const bf16 *b)
{
    float s = 0;
    for (int d = 0; d < D; d++) s += (float)a[d] * (float)b[d];
    return s;
}

template <int D> __global__ void flash_window_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                     int Hq, int Hkv, int N, int W, float scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    const size_t row = ((size_t)blockIdx.z * Hq + blockIdx.y) * N + i;
    const size_t keys = ((size_t)blockIdx.z * Hkv + blockIdx.y / (Hq / Hkv)) * N;
    const int left = i >= W ? i - W : 0;

    float m = -INFINITY;
    for (int j = left; j <= i; j++) m = fmaxf(m, scale * dot<D>(Q + row * D, K + (keys + j) * D));
    float l = 0, o[D] = {};
    for (int j = left; j <= i; j++) {
        const float p = expf(scale * dot<D>(Q + row * D, K + (keys + j) * D) - m);
        l += p;
        for (int d = 0; d < D; d++) o[d] += p * (float)V[(keys + j) * D + d];
    }
    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(o[d] / l);
    L[row] = m + logf(l);
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int Hq = shape->q_heads, Hkv = shape->kv_heads, N = shape->q_len, W = shape->window;
    const dim3 grid((N - 1) / 64 + 1, Hq, shape->batch);
    switch (shape->head_dim) {
    case 16: flash_window_kernel<16><<<grid, 64, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, shape->scale); break;
    case 32: flash_window_kernel<32><<<grid, 64, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, shape->scale); break;
    case 64: flash_window_kernel<64><<<grid, 64, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, shape->scale); break;
    default: flash_window_kernel<128><<<grid, 64, 0, stream>>>(O, L, Q, K, V, Hq, Hkv, N, W, shape->scale); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
