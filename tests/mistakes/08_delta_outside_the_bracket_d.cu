// mistake: dS is P * dP - delta instead of P * (dP - delta)
#include "workbook.h"

#include <math.h>

enum { T = 32 };  // threads of a block, one row each

__global__ void row_dot(float *delta, const bf16 *O, const bf16 *dO, size_t rows, int D)
{
    const size_t r = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int d = 0; d < D; d++) s += (float)O[r * D + d] * (float)dO[r * D + d];
    delta[r] = s;
}

// P and dS of one pair, from rows that lie anywhere.
template <int D> __device__ void pair(float &p, float &ds, const float *q, const float *g, const float *k,
                                      const float *v, float lse, float delta, float scale)
{
    float s = 0, dp = 0;
    for (int d = 0; d < D; d++) {
        s += q[d] * k[d];
        dp += g[d] * v[d];
    }
    p = expf(s * scale - lse);
    ds = p * dp - delta;
}

// thread = query; walks over keys 0 ... i, T of them in shared memory
template <int D> __global__ void grad_q(bf16 *dQ, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO,
                                        const float *L, const float *delta, int Hq, int Hkv, int N, float scale)
{
    __shared__ float k[T][D], v[T][D];
    const int t = threadIdx.x, i0 = blockIdx.x * T, i = i0 + t;
    const size_t rq = ((size_t)blockIdx.z * Hq + blockIdx.y) * N;
    const size_t rk = ((size_t)blockIdx.z * Hkv + blockIdx.y / (Hq / Hkv)) * N;
    const bool alive = i < N;
    float q[D], g[D], dq[D];
    for (int d = 0; d < D; d++) {
        q[d] = alive ? (float)Q[(rq + i) * D + d] : 0;
        g[d] = alive ? (float)dO[(rq + i) * D + d] : 0;
        dq[d] = 0;
    }
    const float lse = alive ? L[rq + i] : 0, del = alive ? delta[rq + i] : 0;
    for (int j0 = 0; j0 <= i0; j0 += T) {
        __syncthreads();
        if (j0 + t < N)
            for (int d = 0; d < D; d++) {
                k[t][d] = (float)K[(rk + j0 + t) * D + d];
                v[t][d] = (float)V[(rk + j0 + t) * D + d];
            }
        __syncthreads();
        for (int j = 0; alive && j < T && j0 + j <= i; j++) {
            float p, ds;
            pair<D>(p, ds, q, g, k[j], v[j], lse, del, scale);
            for (int d = 0; d < D; d++) dq[d] += ds * k[j][d];
        }
    }
    if (alive)
        for (int d = 0; d < D; d++) dQ[(rq + i) * D + d] = __float2bfloat16(dq[d] * scale);
}

// thread = key; walks over the queries from its own on, for each head of the group
template <int D> __global__ void grad_kv(bf16 *dK, bf16 *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const bf16 *dO, const float *L, const float *delta, int Hq, int Hkv, int N,
                                         float scale)
{
    __shared__ float q[T][D], g[T][D], lse[T], del[T];
    const int t = threadIdx.x, j0 = blockIdx.x * T, j = j0 + t, group = Hq / Hkv;
    const size_t rk = ((size_t)blockIdx.z * Hkv + blockIdx.y) * N;
    const bool alive = j < N;
    float k[D], v[D], dk[D], dv[D];
    for (int d = 0; d < D; d++) {
        k[d] = alive ? (float)K[(rk + j) * D + d] : 0;
        v[d] = alive ? (float)V[(rk + j) * D + d] : 0;
        dk[d] = dv[d] = 0;
    }
    for (int h = 0; h < group; h++) {
        const size_t rq = ((size_t)blockIdx.z * Hq + blockIdx.y * group + h) * N;
        for (int i0 = j0; i0 < N; i0 += T) {
            __syncthreads();
            if (i0 + t < N) {
                for (int d = 0; d < D; d++) {
                    q[t][d] = (float)Q[(rq + i0 + t) * D + d];
                    g[t][d] = (float)dO[(rq + i0 + t) * D + d];
                }
                lse[t] = L[rq + i0 + t];
                del[t] = delta[rq + i0 + t];
            }
            __syncthreads();
            for (int i = 0; alive && i < T && i0 + i < N; i++) {
                if (i0 + i < j) continue;
                float p, ds;
                pair<D>(p, ds, q[i], g[i], k, v, lse[i], del[i], scale);
                for (int d = 0; d < D; d++) {
                    dv[d] += p * g[i][d];
                    dk[d] += ds * q[i][d];
                }
            }
        }
    }
    if (!alive) return;
    for (int d = 0; d < D; d++) {
        dK[(rk + j) * D + d] = __float2bfloat16(dk[d] * scale);
        dV[(rk + j) * D + d] = __float2bfloat16(dv[d]);
    }
}

wb_status flash_gqa_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                             wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const int B = shape->batch, Hq = shape->q_heads, Hkv = shape->kv_heads, N = shape->q_len;
    const float scale = shape->scale;
    const size_t rows = (size_t)B * Hq * N;
    row_dot<<<(unsigned)((rows + 127) / 128), 128, 0, stream>>>(delta, O, dO, rows, shape->head_dim);
    WB_CUDA(cudaGetLastError());
    const dim3 gq((N - 1) / T + 1, Hq, B), gk((N - 1) / T + 1, Hkv, B);
#define BOTH(D)                                                                                                        \
    grad_q<D><<<gq, T, 0, stream>>>(dQ, Q, K, V, dO, L, delta, Hq, Hkv, N, scale);                                     \
    grad_kv<D><<<gk, T, 0, stream>>>(dK, dV, Q, K, V, dO, L, delta, Hq, Hkv, N, scale)
    switch (shape->head_dim) {
    case 16: BOTH(16); break;
    case 32: BOTH(32); break;
    case 64: BOTH(64); break;
    default: BOTH(128); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
