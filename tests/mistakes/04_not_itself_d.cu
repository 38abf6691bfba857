// mistake: a query sees only the keys before it, not its own
#include "workbook.h"

#include <float.h>
#include <math.h>

enum { BLK = 32, TK = 16 };

// thread t of the block: query q0 + t. Tiles of TK keys in shared memory, as float.
template <int D>
__global__ void causal_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int N, float scale)
{
    __shared__ float kt[TK * D], vt[TK * D];
    const int q0 = blockIdx.x * BLK, i = q0 + (int)threadIdx.x;
    const size_t base = ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * N;
    float query[D], out[D];
    for (int d = 0; d < D; d++) {
        query[d] = i < N ? (float)Q[(base + i) * D + d] : 0.f;
        out[d] = 0.f;
    }
    float run_max = -FLT_MAX, run_sum = 0.f;
    const int stop = min(q0 + BLK, N);
    for (int j0 = 0; j0 < stop; j0 += TK) {
        const int n = min(TK, stop - j0);
        __syncthreads();
        for (int e = threadIdx.x; e < n * D; e += BLK) {
            kt[e] = (float)K[(base + j0) * D + e];
            vt[e] = (float)V[(base + j0) * D + e];
        }
        __syncthreads();
        for (int j = 0; j < n; j++) {
            if (j0 + j >= i) break;
            float s = 0.f;
            for (int d = 0; d < D; d++) s += query[d] * kt[j * D + d];
            s *= scale;
            if (s > run_max) {
                const float r = expf(run_max - s);
                run_sum *= r;
                for (int d = 0; d < D; d++) out[d] *= r;
                run_max = s;
            }
            const float p = expf(s - run_max);
            run_sum += p;
            for (int d = 0; d < D; d++) out[d] += p * vt[j * D + d];
        }
    }
    if (i >= N) return;
    const float inv = run_sum > 0.f ? 1.f / run_sum : 0.f;
    for (int d = 0; d < D; d++) O[(base + i) * D + d] = __float2bfloat16(out[d] * inv);
    L[base + i] = run_sum > 0.f ? run_max + logf(run_sum) : -INFINITY;
}

wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_causal", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const dim3 grid((shape->q_len - 1) / BLK + 1, shape->q_heads, shape->batch);
    const int N = shape->q_len;
    if (shape->head_dim == 16) causal_kernel<16><<<grid, BLK, 0, stream>>>(O, L, Q, K, V, N, shape->scale);
    if (shape->head_dim == 32) causal_kernel<32><<<grid, BLK, 0, stream>>>(O, L, Q, K, V, N, shape->scale);
    if (shape->head_dim == 64) causal_kernel<64><<<grid, BLK, 0, stream>>>(O, L, Q, K, V, N, shape->scale);
    if (shape->head_dim == 128) causal_kernel<128><<<grid, BLK, 0, stream>>>(O, L, Q, K, V, N, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
