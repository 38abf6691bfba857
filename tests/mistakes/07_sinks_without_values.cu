// mistake: counts the sinks left of the window in the sum of weights but does not add their values to O
// One thread walks over the keys of one query: first the sinks, then the window.
#include "workbook.h"

#include <float.h>
#include <math.h>

struct running {
    float max, sum;
};

// Returns the weight of a key with this score; `shrink` is what older sums must be multiplied by.
__device__ inline float next_weight(running &r, float score, float &shrink)
{
    const float top = score > r.max ? score : r.max;
    shrink = exp2f(r.max - top);
    const float weight = exp2f(score - top);
    r.max = top;
    r.sum = r.sum * shrink + weight;
    return weight;
}

template <int D> __device__ inline float score_of(const float (&q)[D], const bf16 *k)
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += q[d] * __bfloat162float(k[d]);
    return sum;
}

template <int D>
__global__ void sinks_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, attention_shape shape)
{
    const int N = shape.q_len, i = blockIdx.x * blockDim.x + threadIdx.x;
    const int b = blockIdx.z, h = blockIdx.y, g = h / (shape.q_heads / shape.kv_heads);
    if (i >= N) return;
    const size_t row = ((size_t)b * shape.q_heads + h) * N + i;
    K += ((size_t)b * shape.kv_heads + g) * N * D;
    V += ((size_t)b * shape.kv_heads + g) * N * D;

    float q[D], acc[D];
    for (int d = 0; d < D; d++) {
        q[d] = __bfloat162float(Q[row * D + d]) * shape.scale * 1.44269504f;
        acc[d] = 0;
    }

    const int window_begin = max(0, i - shape.window + 1);
    const int sinks_end = min(shape.sinks, window_begin);  // a sink in the window is a key like all others
    running r = {-FLT_MAX, 0};
    float shrink;
    for (int j = 0; j < sinks_end; j++) { next_weight(r, score_of<D>(q, K + (size_t)j * D), shrink); }
    for (int j = window_begin; j <= i; j++) {
        const float p = next_weight(r, score_of<D>(q, K + (size_t)j * D), shrink);
        for (int d = 0; d < D; d++) acc[d] = acc[d] * shrink + p * __bfloat162float(V[(size_t)j * D + d]);
    }

    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(acc[d] / r.sum);
    L[row] = (r.max + log2f(r.sum)) * 0.69314718f;
}

wb_status flash_sinks(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                      wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const dim3 grid((shape->q_len + 63) / 64, shape->q_heads, shape->batch);
    const auto kernel = shape->head_dim == 16   ? sinks_kernel<16>
                        : shape->head_dim == 32 ? sinks_kernel<32>
                        : shape->head_dim == 64 ? sinks_kernel<64>
                                                : sinks_kernel<128>;
    kernel<<<grid, 64, 0, stream>>>(O, L, Q, K, V, *shape);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
