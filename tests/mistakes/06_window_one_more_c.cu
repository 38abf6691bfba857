// mistake: the window begins at key i - W, so every query sees W + 1 keys
#include "workbook.h"

#include <math.h>

#define MAX_D 128

__device__ static float dot_product(const float *a, const bf16 *b, int n)
{
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[k] * __bfloat162float(b[k]);
    return sum;
}

// thread = query
__global__ void window_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, attention_shape shape)
{
    const int N = shape.q_len, D = shape.head_dim, W = shape.window;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    const int head = blockIdx.y % shape.q_heads, batch = blockIdx.y / shape.q_heads;
    const int kv = head / (shape.q_heads / shape.kv_heads);
    const size_t row = ((size_t)batch * shape.q_heads + head) * N + i;
    const size_t first_key = ((size_t)batch * shape.kv_heads + kv) * N;

    float q[MAX_D], out[MAX_D];
    for (int d = 0; d < D; d++) q[d] = __bfloat162float(Q[row * D + d]), out[d] = 0;

    const int begin = max(0, i - W), end = i + 1;

    // pass over the window once, largest score first found on the way
    float biggest = -INFINITY, total = 0;
    for (int j = begin; j < end; j++) {
        const float score = shape.scale * dot_product(q, K + (first_key + j) * D, D);
        float weight = 1;
        if (score > biggest) {
            const float shrink = expf(biggest - score);
            total *= shrink;
            for (int d = 0; d < D; d++) out[d] *= shrink;
            biggest = score;
        } else {
            weight = expf(score - biggest);
        }
        total += weight;
        for (int d = 0; d < D; d++) out[d] += weight * __bfloat162float(V[(first_key + j) * D + d]);
    }

    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(out[d] / total);
    L[row] = biggest + logf(total);
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const dim3 grid((shape->q_len - 1) / 128 + 1, shape->q_heads * shape->batch);
    window_kernel<<<grid, 128, 0, stream>>>(O, L, Q, K, V, *shape);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
