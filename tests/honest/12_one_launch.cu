// One launch: blocks of queries, blocks of keys and a block a sink side by side. Whoever wants delta computes it.
#include "workbook.h"

struct all {
    bf16 *dQ, *dK, *dV;
    float *dsinks, *delta;
    const bf16 *Q, *K, *V, *O, *dO;
    const float *sinks, *L;
    attention_shape s;
};

template <int D> static __device__ float dot(const bf16 *a, const bf16 *b)
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += float(a[d]) * float(b[d]);
    return sum;
}

template <int D> static __device__ void of_query(const all &g, size_t row, size_t kv, int i)
{
    const float delta = dot<D>(g.O + row * D, g.dO + row * D);
    float sum[D] = {};
    for (int j = i; j >= 0 && i - j < g.s.window; j--) {
        const float p = expf(g.s.scale * dot<D>(g.Q + row * D, g.K + (kv + j) * D) - g.L[row]);
        const float ds = p * (dot<D>(g.dO + row * D, g.V + (kv + j) * D) - delta);
        for (int d = 0; d < D; d++) sum[d] += ds * float(g.K[(kv + j) * D + d]);
    }
    for (int d = 0; d < D; d++) g.dQ[row * D + d] = bf16(g.s.scale * sum[d]);
    g.delta[row] = delta;
}

template <int D> static __device__ void of_key(const all &g, size_t first_row, size_t key, int j)
{
    const int N = g.s.q_len, group = g.s.q_heads / g.s.kv_heads;
    float of_k[D] = {}, of_v[D] = {};
    for (int h = 0; h < group; h++)
        for (int i = j; i < N && i - j < g.s.window; i++) {
            const size_t row = first_row + (size_t)h * N + i;
            const float p = expf(g.s.scale * dot<D>(g.Q + row * D, g.K + key * D) - g.L[row]);
            const float delta = dot<D>(g.O + row * D, g.dO + row * D);
            const float ds = p * (dot<D>(g.dO + row * D, g.V + key * D) - delta);
            for (int d = 0; d < D; d++) of_k[d] += ds * float(g.Q[row * D + d]);
            for (int d = 0; d < D; d++) of_v[d] += p * float(g.dO[row * D + d]);
        }
    for (int d = 0; d < D; d++) g.dK[key * D + d] = bf16(g.s.scale * of_k[d]);
    for (int d = 0; d < D; d++) g.dV[key * D + d] = bf16(of_v[d]);
}

template <int D> static __device__ void of_sink(const all &g, int h)
{
    const int N = g.s.q_len, lane = threadIdx.x;
    double sum = 0;
    for (int b = 0; b < g.s.batch; b++)
        for (int i = lane; i < N; i += 32) {
            const size_t row = ((size_t)b * g.s.q_heads + h) * N + i;
            sum -= expf(g.sinks[h] - g.L[row]) * dot<D>(g.O + row * D, g.dO + row * D);
        }
    for (int x = 16; x; x /= 2) sum += __shfl_xor_sync(0xffffffff, sum, x);
    if (lane == 0) g.dsinks[h] = (float)sum;
}

template <int D> __global__ void one_launch(all g, int tiles)
{
    const int N = g.s.q_len, group = g.s.q_heads / g.s.kv_heads;
    long long n = blockIdx.x;
    const long long queries = (long long)g.s.batch * g.s.q_heads * tiles;
    const long long keys = (long long)g.s.batch * g.s.kv_heads * tiles;
    if (n < g.s.q_heads) return of_sink<D>(g, (int)n);
    const bool is_key = (n -= g.s.q_heads) < keys;
    if (!is_key) n -= keys;
    if (n >= queries) return;
    const size_t head = n / tiles;
    const int i = (int)(n % tiles) * 32 + threadIdx.x;
    if (i >= N) return;
    if (is_key) return of_key<D>(g, head * group * N, head * N + i, i);
    of_query<D>(g, head * N + i, head / group * N, i);
}

wb_status flash_sink_logits_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q,
                                     const bf16 *K, const bf16 *V, const float *sinks, const bf16 *O, const float *L,
                                     const bf16 *dO, const attention_shape *s, wb_stream stream)
{
    const wb_status status =
        wb_check_sink_backward("flash_sink_logits_backward", dQ, dK, dV, dsinks, delta, Q, K, V, sinks, O, L, dO, s);
    if (status != WB_OK) return status;
    const all g = {dQ, dK, dV, dsinks, delta, Q, K, V, O, dO, sinks, L, *s};
    const int tiles = (s->q_len - 1) / 32 + 1;
    const unsigned blocks = s->q_heads + (unsigned)tiles * s->batch * (s->q_heads + s->kv_heads);
    switch (s->head_dim) {
    case 16: one_launch<16><<<blocks, 32, 0, stream>>>(g, tiles); break;
    case 32: one_launch<32><<<blocks, 32, 0, stream>>>(g, tiles); break;
    case 64: one_launch<64><<<blocks, 32, 0, stream>>>(g, tiles); break;
    default: one_launch<128><<<blocks, 32, 0, stream>>>(g, tiles); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
