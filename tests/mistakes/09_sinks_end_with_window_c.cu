// mistake: in dK and dV a sink only hears from the queries whose window holds it, not from all later ones
#include "workbook.h"

#include <math.h>

struct problem {
    bf16 *dQ, *dK, *dV;
    float *delta;
    const bf16 *Q, *K, *V, *O, *dO;
    const float *L;
    int Hq, Hkv, N, W, S;
    float scale;
};

template <int D> __device__ void fetch(float *to, const bf16 *from)
{
    for (int d = 0; d < D; d++) to[d] = __bfloat162float(from[d]);
}

template <int D> __device__ float inner(const float *a, const bf16 *b)
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += a[d] * __bfloat162float(b[d]);
    return sum;
}

// ---- delta and dQ: a thread owns a query

template <int D> __global__ void by_query(problem p)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.N) return;
    const size_t row = ((size_t)blockIdx.z * p.Hq + blockIdx.y) * p.N + i;
    const size_t key0 = ((size_t)blockIdx.z * p.Hkv + blockIdx.y / (p.Hq / p.Hkv)) * p.N;
    float q[D], g[D], dq[D] = {};
    fetch<D>(q, p.Q + row * D);
    fetch<D>(g, p.dO + row * D);
    const float delta = inner<D>(g, p.O + row * D);
    p.delta[row] = delta;

    const int window = max(0, i - p.W + 1);
    const auto add = [&](int j) {
        const bf16 *k = p.K + (key0 + j) * D, *v = p.V + (key0 + j) * D;
        const float P = expf(p.scale * inner<D>(q, k) - p.L[row]), dS = P * (inner<D>(g, v) - delta);
        for (int d = 0; d < D; d++) dq[d] += dS * __bfloat162float(k[d]);
    };
    for (int j = 0; j < min(p.S, window); j++) add(j);
    for (int j = window; j <= i; j++) add(j);
    for (int d = 0; d < D; d++) p.dQ[row * D + d] = __float2bfloat16(p.scale * dq[d]);
}

// ---- dK and dV: a warp owns a key, its lanes share out the queries

template <int D> __global__ void by_key(problem p)
{
    const int lane = threadIdx.x % 32, j = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (j >= p.N) return;
    const int group = p.Hq / p.Hkv;
    const size_t key = ((size_t)blockIdx.z * p.Hkv + blockIdx.y) * p.N + j;
    float k[D], v[D], dk[D] = {}, dv[D] = {};
    fetch<D>(k, p.K + key * D);
    fetch<D>(v, p.V + key * D);

    const int end = min(p.N, j + p.W);
    for (int h = 0; h < group; h++) {
        const size_t first = ((size_t)blockIdx.z * p.Hq + blockIdx.y * group + h) * p.N;
        for (int i = j + lane; i < end; i += 32) {
            const bf16 *q = p.Q + (first + i) * D, *g = p.dO + (first + i) * D;
            const float P = expf(p.scale * inner<D>(k, q) - p.L[first + i]);
            const float dS = P * (inner<D>(v, g) - p.delta[first + i]);
            for (int d = 0; d < D; d++) {
                dv[d] += P * __bfloat162float(g[d]);
                dk[d] += dS * __bfloat162float(q[d]);
            }
        }
    }

    for (int d = 0; d < D; d++) {
        for (int x = 16; x > 0; x /= 2) {
            dk[d] += __shfl_xor_sync(0xffffffffu, dk[d], x);
            dv[d] += __shfl_xor_sync(0xffffffffu, dv[d], x);
        }
        if (lane == 0) {
            p.dK[key * D + d] = __float2bfloat16(p.scale * dk[d]);
            p.dV[key * D + d] = __float2bfloat16(dv[d]);
        }
    }
}

template <int D> static wb_status start(const problem &p, int B, wb_stream stream)
{
    by_query<D><<<dim3((p.N + 31) / 32, p.Hq, B), 32, 0, stream>>>(p);
    WB_CUDA(cudaGetLastError());
    by_key<D><<<dim3((p.N + 3) / 4, p.Hkv, B), 128, 0, stream>>>(p);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_sinks_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                               const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                               wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_sinks_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const int N = shape->q_len;
    problem p;
    p.dQ = dQ, p.dK = dK, p.dV = dV, p.delta = delta;
    p.Q = Q, p.K = K, p.V = V, p.O = O, p.dO = dO, p.L = L;
    p.Hq = shape->q_heads, p.Hkv = shape->kv_heads, p.N = N;
    p.W = min(shape->window, N), p.S = min(shape->sinks, N);
    p.scale = shape->scale;
    switch (shape->head_dim) {
    case 16: return start<16>(p, shape->batch, stream);
    case 32: return start<32>(p, shape->batch, stream);
    case 64: return start<64>(p, shape->batch, stream);
    default: return start<128>(p, shape->batch, stream);
    }
}
