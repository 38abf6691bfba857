// mistake: dK and dV hold the contribution of the last query head of the group only: each head overwrites what the one before wrote
#include "workbook.h"

#include <math.h>

// One thread a row everywhere, the row in registers as float.
template <int D> struct vec {
    float at[D];
};

template <int D> __device__ vec<D> fetch(const bf16 *row)
{
    vec<D> f;
    for (int d = 0; d < D; d++) f.at[d] = __bfloat162float(row[d]);
    return f;
}

template <int D> __device__ void put(bf16 *row, const vec<D> &f, float times)
{
    for (int d = 0; d < D; d++) row[d] = __float2bfloat16(times * f.at[d]);
}

template <int D> __device__ float inner(const vec<D> &a, const vec<D> &b)
{
    float s = 0;
    for (int d = 0; d < D; d++) s += a.at[d] * b.at[d];
    return s;
}

template <int D> __global__ void bwd_dq(bf16 *dQ, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                                        const bf16 *O, const float *L, const bf16 *dO, int Hq, int Hkv, int N,
                                        float scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    const size_t r = ((size_t)blockIdx.z * Hq + blockIdx.y) * N + i;
    const size_t kv0 = ((size_t)blockIdx.z * Hkv + blockIdx.y / (Hq / Hkv)) * N;
    const vec<D> q = fetch<D>(Q + r * D), g = fetch<D>(dO + r * D);
    const float del = inner(g, fetch<D>(O + r * D)), lse = L[r];
    delta[r] = del;
    vec<D> sum = {};
    for (int j = 0; j <= i; j++) {
        const vec<D> k = fetch<D>(K + (kv0 + j) * D), v = fetch<D>(V + (kv0 + j) * D);
        const float p = expf(scale * inner(q, k) - lse);
        const float ds = p * (inner(g, v) - del);
        for (int d = 0; d < D; d++) sum.at[d] += ds * k.at[d];
    }
    put(dQ + r * D, sum, scale);
}

template <int D> __global__ void bwd_dkv(bf16 *dK, bf16 *dV, const float *delta, const bf16 *Q, const bf16 *K,
                                         const bf16 *V, const float *L, const bf16 *dO, int Hq, int Hkv, int N,
                                         float scale)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= N) return;
    const int G = Hq / Hkv;
    const size_t kr = ((size_t)blockIdx.z * Hkv + blockIdx.y) * N + j;
    const vec<D> k = fetch<D>(K + kr * D), v = fetch<D>(V + kr * D);
    for (int n = 0; n < G; n++) {
        const size_t q0 = ((size_t)blockIdx.z * Hq + blockIdx.y * G + n) * N;
        vec<D> sum_k = {}, sum_v = {};
        for (int i = j; i < N; i++) {
            const vec<D> q = fetch<D>(Q + (q0 + i) * D), g = fetch<D>(dO + (q0 + i) * D);
            const float p = expf(scale * inner(q, k) - L[q0 + i]);
            const float ds = p * (inner(g, v) - delta[q0 + i]);
            for (int d = 0; d < D; d++) {
                sum_v.at[d] += p * g.at[d];
                sum_k.at[d] += ds * q.at[d];
            }
        }
        put(dK + kr * D, sum_k, scale);
        put(dV + kr * D, sum_v, 1.0f);
    }
}

template <int D> static void launch(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
                                    const bf16 *V, const bf16 *O, const float *L, const bf16 *dO,
                                    const attention_shape *s, wb_stream stream)
{
    const int threads = 64, blocks = (s->q_len + threads - 1) / threads;
    const dim3 gq(blocks, s->q_heads, s->batch), gk(blocks, s->kv_heads, s->batch);
    bwd_dq<D><<<gq, threads, 0, stream>>>(dQ, delta, Q, K, V, O, L, dO, s->q_heads, s->kv_heads, s->q_len, s->scale);
    bwd_dkv<D><<<gk, threads, 0, stream>>>(dK, dV, delta, Q, K, V, L, dO, s->q_heads, s->kv_heads, s->q_len, s->scale);
}

wb_status flash_gqa_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                             wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: launch<16>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream); break;
    case 32: launch<32>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream); break;
    case 64: launch<64>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream); break;
    default: launch<128>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
