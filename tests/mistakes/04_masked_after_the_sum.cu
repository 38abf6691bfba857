// mistake: hides keys only after their weights have been counted in the sum
// A thread a query, 16 keys at a time, as in the paper's algorithm but without tensor cores.
#include "workbook.h"

#include <math.h>

#define BC 16

struct softmax_state {
    float m, l;
};

// Scores to weights, in place; returns the factor for what was accumulated before.
__device__ float online_softmax(softmax_state &state, float *s, int n)
{
    float m_new = state.m;
    for (int j = 0; j < n; j++) m_new = fmaxf(m_new, s[j]);
    const float factor = exp2f(state.m - m_new);
    float sum = 0;
    for (int j = 0; j < n; j++) {
        s[j] = exp2f(s[j] - m_new);
        sum += s[j];
    }
    state.m = m_new;
    state.l = state.l * factor + sum;
    return factor;
}

// Sets what lies right of the diagonal.
__device__ void mask(float *s, int n, int i, int j0, float hidden)
{
    for (int j = 0; j < n; j++)
        if (j0 + j > i) s[j] = hidden;
}

template <int D>
__global__ void causal_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int N, float scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    const size_t head = blockIdx.y + (size_t)blockIdx.z * gridDim.y, row = head * N + i;

    float q[D], o[D] = {};
    for (int d = 0; d < D; d++) q[d] = __bfloat162float(Q[row * D + d]) * (scale * 1.44269504f);

    softmax_state state = {-INFINITY, 0};
    for (int j0 = 0; j0 <= i; j0 += BC) {
        const int n = min(BC, N - j0);
        const bf16 *k = K + (head * N + j0) * D, *v = V + (head * N + j0) * D;
        float p[BC];
        for (int j = 0; j < n; j++) {
            p[j] = 0;
            for (int d = 0; d < D; d++) p[j] += q[d] * __bfloat162float(k[j * D + d]);
        }
        const float factor = online_softmax(state, p, n);
        mask(p, n, i, j0, 0);
        for (int d = 0; d < D; d++) {
            o[d] *= factor;
            for (int j = 0; j < n; j++) o[d] += p[j] * __bfloat162float(v[j * D + d]);
        }
    }

    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(o[d] / state.l);
    L[row] = (state.m + log2f(state.l)) * 0.69314718f;
}

wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_causal", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int N = shape->q_len, threads = 32;
    const dim3 grid((N + threads - 1) / threads, shape->q_heads, shape->batch);
    switch (shape->head_dim) {
    case 16: causal_kernel<16><<<grid, threads, 0, stream>>>(O, L, Q, K, V, N, shape->scale); break;
    case 32: causal_kernel<32><<<grid, threads, 0, stream>>>(O, L, Q, K, V, N, shape->scale); break;
    case 64: causal_kernel<64><<<grid, threads, 0, stream>>>(O, L, Q, K, V, N, shape->scale); break;
    default: causal_kernel<128><<<grid, threads, 0, stream>>>(O, L, Q, K, V, N, shape->scale); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
