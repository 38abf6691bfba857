// mistake: collects dK and dV of a sink from the W queries after it alone, as if it were any other key
// Backward with window and sinks, one row at a time: delta, then dV, dK and dQ, each in a kernel of its own, a thread a row.
#include "workbook.h"

#include <math.h>

struct problem {
    const bf16 *Q, *K, *V, *O, *dO;
    const float *L;
    int Hq, Hkv, N, W, S;
    float scale;
};

// What a thread is: a position and a head, of queries or of keys.
struct place {
    int at, head;  // head counts over the batch
    bool exists;
};

__device__ place whoami(int N)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    return {at, (int)(blockIdx.z * gridDim.y + blockIdx.y), at < N};
}

template <int D> __device__ float product(const bf16 *a, const bf16 *b)
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += (float)a[d] * (float)b[d];
    return sum;
}

template <int D> __device__ void store_row(bf16 *out, const float (&x)[D], float factor)
{
    for (int d = 0; d < D; d++) out[d] = __float2bfloat16(factor * x[d]);
}

// The last query that sees key j.
__device__ int last_query(const problem &p, int j) { return min(p.N - 1, j + p.W - 1); }

template <int D> __device__ float P_of(const problem &p, size_t row, size_t key)
{
    return expf(p.scale * product<D>(p.Q + row * D, p.K + key * D) - p.L[row]);
}

template <int D> __device__ float dS_of(const problem &p, const float *delta, size_t row, size_t key)
{
    return P_of<D>(p, row, key) * (product<D>(p.dO + row * D, p.V + key * D) - delta[row]);
}

template <int D> __global__ void delta_kernel(problem p, float *delta)
{
    const place me = whoami(p.N);
    if (!me.exists) return;
    const size_t row = (size_t)me.head * p.N + me.at;
    delta[row] = product<D>(p.O + row * D, p.dO + row * D);
}

// dV[j] = sum of P[i, j] dO[i]
template <int D> __global__ void dv_kernel(problem p, bf16 *dV)
{
    const place me = whoami(p.N);
    if (!me.exists) return;
    const int group = p.Hq / p.Hkv, last = last_query(p, me.at);
    const size_t key = (size_t)me.head * p.N + me.at;
    float sum[D] = {};
    for (int g = 0; g < group; g++)
        for (int i = me.at; i <= last; i++) {
            const size_t row = ((size_t)me.head * group + g) * p.N + i;
            const float weight = P_of<D>(p, row, key);
            for (int d = 0; d < D; d++) sum[d] += weight * (float)p.dO[row * D + d];
        }
    store_row<D>(dV + key * D, sum, 1);
}

// dK[j] = scale times the sum of dS[i, j] Q[i]
template <int D> __global__ void dk_kernel(problem p, bf16 *dK, const float *delta)
{
    const place me = whoami(p.N);
    if (!me.exists) return;
    const int group = p.Hq / p.Hkv, last = last_query(p, me.at);
    const size_t key = (size_t)me.head * p.N + me.at;
    float sum[D] = {};
    for (int g = 0; g < group; g++)
        for (int i = me.at; i <= last; i++) {
            const size_t row = ((size_t)me.head * group + g) * p.N + i;
            const float ds = dS_of<D>(p, delta, row, key);
            for (int d = 0; d < D; d++) sum[d] += ds * (float)p.Q[row * D + d];
        }
    store_row<D>(dK + key * D, sum, p.scale);
}

// dQ[i] = scale times the sum of dS[i, j] K[j], over the sinks and the window
template <int D> __global__ void dq_kernel(problem p, bf16 *dQ, const float *delta)
{
    const place me = whoami(p.N);
    if (!me.exists) return;
    const size_t row = (size_t)me.head * p.N + me.at, key0 = (size_t)(me.head / (p.Hq / p.Hkv)) * p.N;
    const int window = max(0, me.at - p.W + 1);
    float sum[D] = {};
    int j = p.S > 0 ? 0 : window;
    while (j <= me.at) {
        const float ds = dS_of<D>(p, delta, row, key0 + j);
        for (int d = 0; d < D; d++) sum[d] += ds * (float)p.K[(key0 + j) * D + d];
        j++;
        if (j >= p.S && j < window) j = window;  // over what lies between
    }
    store_row<D>(dQ + row * D, sum, p.scale);
}

template <int D>
static wb_status all(const problem &p, int batch, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, wb_stream stream)
{
    const int threads = 32, blocks = (p.N + threads - 1) / threads;
    const dim3 queries(blocks, p.Hq, batch), keys(blocks, p.Hkv, batch);
    delta_kernel<D><<<queries, threads, 0, stream>>>(p, delta);
    dv_kernel<D><<<keys, threads, 0, stream>>>(p, dV);
    dk_kernel<D><<<keys, threads, 0, stream>>>(p, dK, delta);
    dq_kernel<D><<<queries, threads, 0, stream>>>(p, dQ, delta);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_sinks_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                               const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                               wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_sinks_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const int N = shape->q_len;  // a window or sinks beyond N are as good as N
    const problem p = {
        Q,           K, V, O, dO, L, shape->q_heads, shape->kv_heads, N, min(shape->window, N), min(shape->sinks, N),
        shape->scale};
    switch (shape->head_dim) {
    case 16: return all<16>(p, shape->batch, dQ, dK, dV, delta, stream);
    case 32: return all<32>(p, shape->batch, dQ, dK, dV, delta, stream);
    case 64: return all<64>(p, shape->batch, dQ, dK, dV, delta, stream);
    default: return all<128>(p, shape->batch, dQ, dK, dV, delta, stream);
    }
}
