// attention.cu - wb_attention for workers (workbook.h): a thread a row of queries, so that it is short and runs on any
// GPU and on the CPU layer. Memory is read once a block, 16 bytes at a time: where the layer looks at every access to
// a page (cpu/flight.h), each costs some microseconds. And wb_attention_backward for workers, whose kernels are
// attention_backward.cu's.
#include "attention.h"
#include "rank.h"

static uint64_t attended;
extern "C" uint64_t wb_attended(void)
{
    const uint64_t since = attended;
    attended = 0;
    return since;
}

// A block's queries that are all zeros see nothing but keys of score 0: the mean of V, key by key, a thread for some
// columns. So a long sequence of which few queries are not zeros costs little.
template <int D> static __device__ void mean_of_seen(bf16 *O, float *L, const bf16 *V, size_t kv_row, size_t row,
                                                     int first, attention_shape shape)
{
    __shared__ eight V_rows[ROWS][D / 8];
    const int rows = min(ROWS, shape.q_len - first), keys = shape.causal ? first + rows : shape.kv_len;
    float sum[D / ROWS] = {};
    for (int from = 0; from < keys; from += ROWS) {
        __syncthreads();  // the tile before has been read
        for (int n = threadIdx.x; n < min(ROWS, keys - from) * (D / 8); n += ROWS)
            V_rows[n / (D / 8)][n % (D / 8)] = ((const eight *)V)[(kv_row + from) * (D / 8) + n];
        __syncthreads();  // it is there
        for (int j = 0; j < min(ROWS, keys - from); j++)
            for (int c = 0; c < D / ROWS; c++) {
                const int d = threadIdx.x + c * ROWS, i = from + j - first;
                sum[c] += __bfloat162float(V_rows[j][d / 8].of[d % 8]);
                if (shape.causal && i >= 0) O[(row + i) * D + d] = __float2bfloat16(sum[c] / (from + j + 1));
            }
    }
    for (int i = 0; i < rows && !shape.causal; i++)
        for (int c = 0; c < D / ROWS; c++) O[(row + i) * D + threadIdx.x + c * ROWS] = __float2bfloat16(sum[c] / keys);
    const int i = threadIdx.x;
    if (i < rows) L[row + i] = logf(shape.causal ? first + i + 1 : keys);
}

template <int D> static __global__ void attention_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                         attention_shape shape)
{
    __shared__ eight K_tile[ROWS][D / 8], V_tile[ROWS][D / 8];
    const int i = blockIdx.x * ROWS + threadIdx.x, head = blockIdx.y, b = blockIdx.z;
    const size_t kv_head = (size_t)b * shape.kv_heads + head / (shape.q_heads / shape.kv_heads);
    const size_t row = ((size_t)b * shape.q_heads + head) * shape.q_len + i;
    const bool mine = i < shape.q_len;
    float q[D], o[D] = {}, m = -INFINITY, l = 0;
    if (mine) read(q, Q, row);
    bool zeros = true;
    for (int d = 0; d < D && mine; d++) zeros &= (q[d] *= shape.scale) == 0;
    if (__syncthreads_and(zeros))
        return mean_of_seen<D>(O, L, V, kv_head * shape.kv_len, row - threadIdx.x, i - threadIdx.x, shape);
    const int keys = shape.causal ? min((int)(blockIdx.x + 1) * ROWS, shape.q_len) : shape.kv_len;
    for (int first = 0; first < keys; first += ROWS) {
        __syncthreads();  // the tile before has been read
        fetch<D>(K_tile, V_tile, K, V, kv_head * shape.kv_len + first, min(ROWS, keys - first));
        __syncthreads();  // it is there
        const int seen = shape.causal ? min(i + 1, keys) : keys;
        for (int j = 0; j < ROWS && first + j < seen && mine; j++) {
            const float s = dot(q, K_tile[j]);
            if (s > m) {
                const float alpha = expf(m - s);
                m = s;
                l *= alpha;
                for (int d = 0; d < D; d++) o[d] *= alpha;
            }
            const float p = expf(s - m);
            l += p;
            add_times(o, p, V_tile[j]);
        }
    }
    for (int c = 0; c < D / 8 && mine; c++) {
        eight x;
        for (int d = 0; d < 8; d++) x.of[d] = __float2bfloat16(o[8 * c + d] / l);
        ((eight *)(O + row * D))[c] = x;
    }
    if (mine) L[row] = m + logf(l);
}

wb_status wb_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_hopper", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    attended += wb_pairs(shape);
#ifdef __CUDACPU__
    const void *const at[] = {Q, K, V, O, L};
    const wb_held held = wb_held_by(WB_ATTENDS, shape, "qkkql", 3, at);
    wb_count_next(4.0 * shape->head_dim * (double)wb_pairs(shape), &held);
#endif
    const dim3 grid((shape->q_len - 1) / ROWS + 1, shape->q_heads, shape->batch);
    if (shape->head_dim == 64)
        attention_kernel<64><<<grid, ROWS, 0, stream>>>(O, L, Q, K, V, *shape);
    else
        attention_kernel<128><<<grid, ROWS, 0, stream>>>(O, L, Q, K, V, *shape);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status wb_attention_backward(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                const bf16 *dO, const float *L, const float *delta, const attention_shape *shape,
                                wb_stream stream)
{
    const wb_status status = wb_check_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, shape);
    if (status != WB_OK) return status;
    attended += wb_pairs(shape);
    return wb_attention_backward_anywhere(dQ, dK, dV, Q, K, V, dO, L, delta, shape, stream);
}

wb_status wb_attention_backward_fastest(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                        const bf16 *dO, const float *L, const float *delta,
                                        const attention_shape *shape, wb_stream stream)
{
    return wb_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, shape, stream);
}
