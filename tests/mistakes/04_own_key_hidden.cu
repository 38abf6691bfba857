// mistake: does not let a query see its own key
#include "workbook.h"

// A thread a query. Row i of the lower triangle is a plain loop.
__global__ void flash_causal_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int N, int D,
                                    size_t rows, float scale)
{
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int i = (int)(row % N);
    const size_t first_key = row - i;

    float q[128], acc[128];
    for (int d = 0; d < D; d++) q[d] = (float)Q[row * D + d], acc[d] = 0;
    float biggest = -INFINITY, sum = 0;
    for (int j = 0; j < i; j++) {
        const bf16 *const k = K + (first_key + j) * D, *const v = V + (first_key + j) * D;
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * (float)k[d];
        s *= scale;
        const float grown = fmaxf(biggest, s);
        const float keep = expf(biggest - grown), p = expf(s - grown);
        for (int d = 0; d < D; d++) acc[d] = keep * acc[d] + p * (float)v[d];
        sum = keep * sum + p;
        biggest = grown;
    }
    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(sum > 0 ? acc[d] / sum : 0.0f);
    L[row] = sum > 0 ? biggest + logf(sum) : -INFINITY;
}

wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_causal", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const size_t rows = (size_t)shape->batch * shape->q_heads * shape->q_len;
    flash_causal_kernel<<<(unsigned)((rows - 1) / 128 + 1), 128, 0, stream>>>(O, L, Q, K, V, shape->q_len,
                                                                              shape->head_dim, rows, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
