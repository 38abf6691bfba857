// mistake: uses -infinity instead of a finite number as the first maximum of a row, whose first tile may be hidden
#include "workbook.h"
#include "tile.cuh"

template <int D> struct buffers {
    smem_tile<64, D> Q;
    smem_tile<16, D> K[2], V[2];
};

// Four warps of 16 queries, 16 keys a tile. The block walks from the tile where its first query's window begins.
template <int D> __global__ __launch_bounds__(128) void flash_window_kernel(bf16 *O, float *L, const bf16 *Q,
                                                                            const bf16 *K, const bf16 *V, int group,
                                                                            int N, int W, float scale)
{
    extern __shared__ uint4 shared[];
    auto &b = *reinterpret_cast<buffers<D> *>(shared);
    const int block_row = blockIdx.x * 64, row = block_row + 16 * warp_id();
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const size_t kv_head = (size_t)blockIdx.z * (gridDim.y / group) + blockIdx.y / group;
    K += kv_head * N * D;
    V += kv_head * N * D;

    const int begin = max(0, block_row - W + 1) / 16, end = (min(N, block_row + 64) - 1) / 16 + 1;
    load_async<128>(b.Q, Q + (head * N + block_row) * D, N - block_row);
    load_async<128>(b.K[begin % 2], K + (size_t)begin * 16 * D, N - begin * 16);
    load_async<128>(b.V[begin % 2], V + (size_t)begin * 16 * D, N - begin * 16);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();
    operand<16, D> q;
    load(q, b.Q, 16 * warp_id());

    reg_tile<16, D> o = {};
    row_vec<16> m, l = {};
    fill(m, -INFINITY);
    for (int t = begin; t < end; t++) {
        loads_arrived<0>();
        __syncthreads();
        if (t + 1 < end) {
            load_async<128>(b.K[(t + 1) % 2], K + (size_t)(t + 1) * 16 * D, N - (t + 1) * 16);
            load_async<128>(b.V[(t + 1) % 2], V + (size_t)(t + 1) * 16 * D, N - (t + 1) * 16);
            loads_issued();
        }
        reg_tile<16, 16> S = {};
        mma_ABt(S, q, b.K[t % 2]);
        each(S, [&](float &s, element e) {
            const int i = row + e.row, j = 16 * t + e.col;
            s = j <= i && i - j < W ? s * scale * 1.44269504f : -INFINITY;
        });
        const row_vec<16> m_new = max(m, row_max(S)), alpha = exp2(m - m_new);
        each(S, [&](float &s, element e) { s = exp2_fast(s - m_new[e]); });
        l = l * alpha + row_sum(S);
        scale_rows(o, alpha);
        m = m_new;
        mma_AB(o, S, b.V[t % 2]);
    }

    scale_rows(o, rowwise(l, [](float x) { return 1 / x; }));
    store(O + (head * N + row) * D, o, N - row);
    store(L + head * N + row, rowwise(m, l, [](float a, float x) { return (a + log2f(x)) * 0.69314718f; }), N - row);
}

template <int D> static wb_status launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const attention_shape *shape, wb_stream stream)
{
    const int N = shape->q_len, group = shape->q_heads / shape->kv_heads;
    WB_CUDA(cudaFuncSetAttribute(flash_window_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)sizeof(buffers<D>)));
    flash_window_kernel<D><<<dim3((N - 1) / 64 + 1, shape->q_heads, shape->batch), 128, sizeof(buffers<D>), stream>>>(
        O, L, Q, K, V, group, N, shape->window, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return launch<16>(O, L, Q, K, V, shape, stream);
    case 32: return launch<32>(O, L, Q, K, V, shape, stream);
    case 64: return launch<64>(O, L, Q, K, V, shape, stream);
    default: return launch<128>(O, L, Q, K, V, shape, stream);
    }
}
