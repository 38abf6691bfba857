// mistake: the mask compares the position inside the key tile with the position inside the query tile, in every tile
#include "workbook.h"

#include <float.h>

// 32 queries against 32 keys at a time, all in plain floats. Thread t has query t of the block.
enum { TILE = 32, DMAX = 128 };

__global__ void causal_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int N, int D, float scale)
{
    __shared__ float Ks[TILE][DMAX], Vs[TILE][DMAX];
    const int q0 = blockIdx.x * TILE, tid = threadIdx.x, query = q0 + tid;
    const size_t base = ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * N * D;

    float q[DMAX], o[DMAX];
    for (int d = 0; d < D; d++) {
        q[d] = query < N ? __bfloat162float(Q[base + (size_t)query * D + d]) : 0.f;
        o[d] = 0.f;
    }

    float m = -FLT_MAX, l = 0.f;
    for (int k0 = 0; k0 <= q0; k0 += TILE) {  // up to the tile on the diagonal
        __syncthreads();
        for (int x = tid; x < TILE * D; x += TILE) {
            const int r = x / D, c = x % D;
            const bool there = k0 + r < N;
            Ks[r][c] = there ? __bfloat162float(K[base + (size_t)(k0 + r) * D + c]) : 0.f;
            Vs[r][c] = there ? __bfloat162float(V[base + (size_t)(k0 + r) * D + c]) : 0.f;
        }
        __syncthreads();

        float s[TILE], mx = m;
        for (int j = 0; j < TILE; j++) {
            float x = 0.f;
            for (int d = 0; d < D; d++) x += q[d] * Ks[j][d];
            const bool hidden = j > tid;
            s[j] = hidden ? -INFINITY : x * scale;
            mx = fmaxf(mx, s[j]);
        }
        const float a = expf(m - mx);
        m = mx;
        l *= a;
        for (int d = 0; d < D; d++) o[d] *= a;
        for (int j = 0; j < TILE; j++) {
            if (s[j] == -INFINITY) continue;
            const float p = expf(s[j] - m);
            l += p;
            for (int d = 0; d < D; d++) o[d] += p * Vs[j][d];
        }
    }

    if (query < N) {
        for (int d = 0; d < D; d++) O[base + (size_t)query * D + d] = __float2bfloat16(o[d] / l);
        L[base / D + query] = m + logf(l);
    }
}

wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_causal", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const dim3 grid((shape->q_len + TILE - 1) / TILE, shape->q_heads, shape->batch);
    causal_kernel<<<grid, TILE, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->head_dim, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
