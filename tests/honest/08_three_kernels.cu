// Three kernels: delta; dQ, a thread a query; dK and dV, a thread a key. Float32 throughout, straight from device
// memory.
#include "workbook.h"

struct gradients {
    bf16 *dQ, *dK, *dV;
    float *delta;
    const bf16 *Q, *K, *V, *O;
    const float *L;
    const bf16 *dO;
    attention_shape s;
};

template <int D> __device__ float dot(const bf16 *a, const bf16 *b)
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += float(a[d]) * float(b[d]);
    return sum;
}

template <int D> __global__ void deltas(gradients g)
{
    const long row = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < (long)g.s.batch * g.s.q_heads * g.s.q_len) g.delta[row] = dot<D>(g.O + row * D, g.dO + row * D);
}

template <int D> __global__ void query_side(gradients g)
{
    const int N = g.s.q_len, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    const long head = (long)blockIdx.z * g.s.q_heads + blockIdx.y, row = head * N + i;
    const long kv = (long)blockIdx.z * g.s.kv_heads + blockIdx.y / (g.s.q_heads / g.s.kv_heads);
    float sum[D] = {};
    for (int j = 0; j <= i; j++) {
        const bf16 *k = g.K + (kv * N + j) * D;
        const float p = expf(g.s.scale * dot<D>(g.Q + row * D, k) - g.L[row]);
        const float ds = p * (dot<D>(g.dO + row * D, g.V + (kv * N + j) * D) - g.delta[row]);
        for (int d = 0; d < D; d++) sum[d] += ds * float(k[d]);
    }
    for (int d = 0; d < D; d++) g.dQ[row * D + d] = bf16(g.s.scale * sum[d]);
}

template <int D> __global__ void key_side(gradients g)
{
    const int N = g.s.q_len, j = blockIdx.x * blockDim.x + threadIdx.x, group = g.s.q_heads / g.s.kv_heads;
    if (j >= N) return;
    const long kv = ((long)blockIdx.z * g.s.kv_heads + blockIdx.y) * N + j;
    float of_k[D] = {}, of_v[D] = {};
    for (int n = 0; n < group; n++)
        for (int i = j; i < N; i++) {
            const long row = ((long)blockIdx.z * g.s.q_heads + blockIdx.y * group + n) * N + i;
            const float p = expf(g.s.scale * dot<D>(g.Q + row * D, g.K + kv * D) - g.L[row]);
            const float ds = p * (dot<D>(g.dO + row * D, g.V + kv * D) - g.delta[row]);
            for (int d = 0; d < D; d++) {
                of_k[d] += ds * float(g.Q[row * D + d]);
                of_v[d] += p * float(g.dO[row * D + d]);
            }
        }
    for (int d = 0; d < D; d++) {
        g.dK[kv * D + d] = bf16(g.s.scale * of_k[d]);
        g.dV[kv * D + d] = bf16(of_v[d]);
    }
}

template <int D> static wb_status run(const gradients &g, wb_stream stream)
{
    const long rows = (long)g.s.batch * g.s.q_heads * g.s.q_len;
    const unsigned blocks = (g.s.q_len + 31) / 32;
    deltas<D><<<(unsigned)((rows + 127) / 128), 128, 0, stream>>>(g);
    query_side<D><<<dim3(blocks, g.s.q_heads, g.s.batch), 32, 0, stream>>>(g);
    key_side<D><<<dim3(blocks, g.s.kv_heads, g.s.batch), 32, 0, stream>>>(g);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

static wb_status run(const gradients &g, wb_stream stream)
{
    switch (g.s.head_dim) {
    case 16: return run<16>(g, stream);
    case 32: return run<32>(g, stream);
    case 64: return run<64>(g, stream);
    default: return run<128>(g, stream);
    }
}

wb_status flash_gqa_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const attention_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, s);
    return status == WB_OK ? run({dQ, dK, dV, delta, Q, K, V, O, L, dO, *s}, stream) : status;
}
