// mistake: uses the block's number in launch order instead of its reversed query tile for the rows of the causal mask
#include "workbook.h"
#include "tile.cuh"

// Two warps with 32 queries each, tiles of 32 keys. Late queries have the most to do, so they come first.
template <int D> __global__ __launch_bounds__(64) void flash_causal_kernel(bf16 *O, float *L, const bf16 *Q,
                                                                           const bf16 *K, const bf16 *V, int N,
                                                                           float scale)
{
    constexpr int ROWS = 32, BR = 64, BC = 32;
    __shared__ smem_tile<BR, D> Q_smem;
    __shared__ smem_tile<BC, D> K_smem, V_smem;

    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const int tile = gridDim.x - 1 - blockIdx.x, warp_row = ROWS * warp_id();
    const int block_row = tile * BR;
    const int first_query = blockIdx.x * BR;
    Q += (head * N + block_row) * D;
    K += head * N * D;
    V += head * N * D;
    O += (head * N + block_row + warp_row) * D;
    L += head * N + block_row + warp_row;

    load_async<64>(Q_smem, Q, N - block_row);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // the queries are there
    operand<ROWS, D> Q_reg;
    load(Q_reg, Q_smem, warp_row);

    const float scale2 = scale * 1.44269504f;
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);
    const int keys = min(N, first_query + BR);
    for (int j0 = 0; j0 < keys; j0 += BC) {
        load_async<64>(K_smem, K + (size_t)j0 * D, N - j0);
        load_async<64>(V_smem, V + (size_t)j0 * D, N - j0);
        loads_issued();
        loads_arrived<0>();
        __syncthreads();  // the keys are there

        reg_tile<ROWS, BC> S = {};
        mma_ABt(S, Q_reg, K_smem);
        each(S, [&](float &s, element e) {
            const int i = first_query + warp_row + e.row, j = j0 + e.col;
            s = j <= i && j < N ? s * scale2 : -INFINITY;
        });
        const row_vec<ROWS> m_new = max(m, row_max(S)), alpha = exp2(m - m_new);
        each(S, [&](float &s, element e) { s = exp2_fast(s - m_new[e]); });
        m = m_new;
        l = l * alpha + row_sum(S);
        scale_rows(O_reg, alpha);
        mma_AB(O_reg, S, V_smem);
        __syncthreads();  // the keys may go
    }

    scale_rows(O_reg, rowwise(l, [](float x) { return 1 / x; }));
    store(O, O_reg, N - block_row - warp_row);
    store(L, rowwise(m, l, [](float a, float b) { return (a + log2f(b)) * 0.69314718f; }), N - block_row - warp_row);
}

template <int D> static wb_status launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const attention_shape *shape, wb_stream stream)
{
    const dim3 grid((shape->q_len - 1) / 64 + 1, shape->q_heads, shape->batch);
    flash_causal_kernel<D><<<grid, 64, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_causal", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return launch<16>(O, L, Q, K, V, shape, stream);
    case 32: return launch<32>(O, L, Q, K, V, shape, stream);
    case 64: return launch<64>(O, L, Q, K, V, shape, stream);
    default: return launch<128>(O, L, Q, K, V, shape, stream);
    }
}
