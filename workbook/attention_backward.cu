// attention_backward.cu - the gradients of a pair of chunks, added (workbook.h: wb_attention_backward): a thread a row
// of queries for dQ, a thread a row of keys for dK and dV. Short, for any GPU and for the CPU layer, where memory is
// read once a block, 16 bytes at a time, as in attention.cu.
#include "attention.h"

// What there is already stays: rows are added to.
template <int D> static __device__ void add_to(float *tensor, size_t row, const float (&x)[D], float times)
{
    float4 *at = (float4 *)(tensor + row * D);
    for (int c = 0; c < D / 4; c++) {
        float4 sum = at[c];
        sum.x += times * x[4 * c], sum.y += times * x[4 * c + 1];
        sum.z += times * x[4 * c + 2], sum.w += times * x[4 * c + 3];
        at[c] = sum;
    }
}

template <int D> static __global__ void queries_kernel(float *dQ, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                       const bf16 *dO, const float *L, const float *delta,
                                                       attention_shape shape)
{
    __shared__ eight K_tile[ROWS][D / 8], V_tile[ROWS][D / 8];
    const int i = blockIdx.x * ROWS + threadIdx.x, head = blockIdx.y, b = blockIdx.z;
    const size_t kv_head = (size_t)b * shape.kv_heads + head / (shape.q_heads / shape.kv_heads);
    const size_t row = ((size_t)b * shape.q_heads + head) * shape.q_len + i;
    const bool mine = i < shape.q_len;
    float q[D], g[D], dq[D] = {}, l = 0, sum = 0;
    if (mine) read(q, Q, row), read(g, dO, row), l = L[row], sum = delta[row];
    bool zeros = sum == 0;  // and so are the gradients
    for (int d = 0; d < D && mine; d++) zeros &= g[d] == 0;
    if (__syncthreads_and(zeros)) return;
    const int keys = shape.causal ? min((int)(blockIdx.x + 1) * ROWS, shape.kv_len) : shape.kv_len;
    for (int first = 0; first < keys; first += ROWS) {
        __syncthreads();  // the tile before has been read
        fetch<D>(K_tile, V_tile, K, V, kv_head * shape.kv_len + first, min(ROWS, keys - first));
        __syncthreads();  // it is there
        const int seen = min(ROWS, (shape.causal ? min(i + 1, keys) : keys) - first);
        for (int j = 0; j < seen && mine; j++) {
            const float p = expf(dot(q, K_tile[j]) * shape.scale - l);
            add_times(dq, p * (dot(g, V_tile[j]) - sum), K_tile[j]);
        }
    }
    if (mine) add_to(dQ, row, dq, shape.scale);
}

template <int D> static __global__ void keys_kernel(float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                    const bf16 *dO, const float *L, const float *delta,
                                                    attention_shape shape)
{
    __shared__ eight Q_tile[ROWS][D / 8], dO_tile[ROWS][D / 8];
    __shared__ float L_tile[ROWS], delta_tile[ROWS];
    const int j = blockIdx.x * ROWS + threadIdx.x, kv_head = blockIdx.y, b = blockIdx.z;
    const size_t row = ((size_t)b * shape.kv_heads + kv_head) * shape.kv_len + j;
    const bool mine = j < shape.kv_len;
    const int group = shape.q_heads / shape.kv_heads;
    float k[D], v[D], dk[D] = {}, dv[D] = {};
    if (mine) read(k, K, row), read(v, V, row);
    for (int h = 0; h < group; h++) {
        const size_t queries = ((size_t)b * shape.q_heads + kv_head * group + h) * shape.q_len;
        for (int first = shape.causal ? blockIdx.x * ROWS : 0; first < shape.q_len; first += ROWS) {
            const int rows = min(ROWS, shape.q_len - first), t = threadIdx.x;
            __syncthreads();  // the tile before has been read
            fetch<D>(Q_tile, dO_tile, Q, dO, queries + first, rows);
            if (t < rows) L_tile[t] = L[queries + first + t], delta_tile[t] = delta[queries + first + t];
            __syncthreads();  // it is there
            bool zeros = t >= rows || delta_tile[t] == 0;
            for (int d = 0; d < D && t < rows; d++) zeros &= __bfloat162float(dO_tile[t][d / 8].of[d % 8]) == 0;
            if (__syncthreads_and(zeros)) continue;
            for (int i = shape.causal ? max(0, j - first) : 0; i < rows && mine; i++) {
                const float p = expf(dot(k, Q_tile[i]) * shape.scale - L_tile[i]);
                add_times(dv, p, dO_tile[i]);
                add_times(dk, p * (dot(v, dO_tile[i]) - delta_tile[i]), Q_tile[i]);
            }
        }
    }
    if (mine) add_to(dK, row, dk, shape.scale), add_to(dV, row, dv, 1);
}

template <int D> static wb_status launch(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const bf16 *dO, const float *L, const float *delta,
                                         const attention_shape &shape, wb_stream stream)
{
    const dim3 of_queries((shape.q_len - 1) / ROWS + 1, shape.q_heads, shape.batch);
    const dim3 of_keys((shape.kv_len - 1) / ROWS + 1, shape.kv_heads, shape.batch);
#ifdef __CUDACPU__
    const double flops = 10.0 * shape.head_dim * (double)wb_pairs(&shape);
    const void *const at[] = {Q, K, V, dO, L, delta, dQ, dK, dV};
    const wb_held held = wb_held_by(WB_GRADIENTS, &shape, "qkkqllQKK", 9, at);
    wb_held first = held;
    first.inputs = first.pieces = 0;
    wb_count_next(flops / 2, &first);  // half of what one kernel would that makes all three
#endif
    queries_kernel<D><<<of_queries, ROWS, 0, stream>>>(dQ, Q, K, V, dO, L, delta, shape);
    WB_CUDA(cudaGetLastError());
#ifdef __CUDACPU__
    wb_count_next(flops / 2, &held);
#endif
    keys_kernel<D><<<of_keys, ROWS, 0, stream>>>(dK, dV, Q, K, V, dO, L, delta, shape);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

extern "C" wb_status wb_attention_backward_anywhere(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K,
                                                    const bf16 *V, const bf16 *dO, const float *L, const float *delta,
                                                    const attention_shape *shape, wb_stream stream)
{
    const auto run = shape->head_dim == 64 ? launch<64> : launch<128>;
    return run(dQ, dK, dV, Q, K, V, dO, L, delta, *shape, stream);
}
