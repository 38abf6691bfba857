// mistake: takes the largest log-sum-exp of the split keys as L instead of the logarithm of the sum of their exponentials
#include "workbook.h"

// Split keys: SPLITS threads share a query, each of them attends to its own run of keys and leaves a normalised output and a
// log-sum-exp in shared memory; then they merge.
#define QUERIES 16
#define SPLITS  4

__global__ void flash_forward_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Nq, int Nk,
                                     int D, float scale)
{
    __shared__ float part_o[SPLITS][QUERIES][128 + 1];
    __shared__ float part_lse[SPLITS][QUERIES];

    const int r = threadIdx.x % QUERIES, split = threadIdx.x / QUERIES;
    const size_t head = blockIdx.y + (size_t)gridDim.y * blockIdx.z;
    const int i = blockIdx.x * QUERIES + r;
    const int run = (Nk + SPLITS - 1) / SPLITS;
    const int from = min(Nk, split * run), to = min(Nk, from + run);

    if (i < Nq) {
        const bf16 *const q = Q + (head * Nq + i) * D;
        float *const o = part_o[split][r];
        float max = -INFINITY, sum = 0;
        for (int d = 0; d < D; d++) o[d] = 0;
        for (int j = from; j < to; j++) {
            const size_t at = (head * Nk + j) * D;
            float s = 0;
            for (int d = 0; d < D; d++) s += __bfloat162float(q[d]) * __bfloat162float(K[at + d]);
            s *= scale;
            if (s > max) {
                const float shrink = expf(max - s);
                sum *= shrink;
                for (int d = 0; d < D; d++) o[d] *= shrink;
                max = s;
            }
            const float p = expf(s - max);
            sum += p;
            for (int d = 0; d < D; d++) o[d] += p * __bfloat162float(V[at + d]);
        }
        for (int d = 0; d < D; d++) o[d] = sum > 0 ? o[d] / sum : 0;
        part_lse[split][r] = sum > 0 ? max + logf(sum) : -INFINITY;
    }
    __syncthreads();  // all parts are there
    if (i >= Nq) return;

    float top = part_lse[0][r];
    for (int k = 1; k < SPLITS; k++) top = fmaxf(top, part_lse[k][r]);
    float weight[SPLITS], total = 0;
    for (int k = 0; k < SPLITS; k++) total += weight[k] = expf(part_lse[k][r] - top);
    for (int d = split; d < D; d += SPLITS) {
        float sum = 0;
        for (int k = 0; k < SPLITS; k++) sum += weight[k] * part_o[k][r][d];
        O[(head * Nq + i) * D + d] = __float2bfloat16(sum / total);
    }
    if (split == 0) L[head * Nq + i] = top;
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const dim3 grid((shape->q_len + QUERIES - 1) / QUERIES, shape->q_heads, shape->batch);
    flash_forward_kernel<<<grid, QUERIES * SPLITS, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len,
                                                                shape->head_dim, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
