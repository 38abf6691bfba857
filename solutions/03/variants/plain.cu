// plain.cu - flash_forward as the lesson's four verbs say it, word by word: every tile has its maximum, its rescaling and its sum,
// each completed over the four lanes of a row at once. The answer key differs in the gaps alone: it leaves out what most tiles do not need.
#include "workbook.h"
#include "tile.cuh"

// What a block keeps in shared memory.
template <int BR, int BC, int D> struct forward_tiles {
    smem_tile<BR, D> Q_smem;
    smem_tile<BC, D> K_smem[2], V_smem[2];  // one of the two is read while the other is filled
};

// A block owns BR query rows of one head, each of its warps ROWS of them. The block walks over the keys, BC at a time.
template <int D, int ROWS, int BC, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void flash_forward_kernel(
    bf16 *O,        // [B, H, Nq, D]
    float *L,       // [B, H, Nq]
    const bf16 *Q,  // [B, H, Nq, D]
    const bf16 *K,  // [B, H, Nk, D]
    const bf16 *V,  // [B, H, Nk, D]
    int Nq, int Nk, float scale)
{
    constexpr int BR = ROWS * WARPS, THREADS = 32 * WARPS;
    extern __shared__ uint4 shared[];
    auto &[Q_smem, K_smem, V_smem] = *reinterpret_cast<forward_tiles<BR, BC, D> *>(shared);

    // who am I
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;  // counted over the whole batch
    const int block_row = blockIdx.x * BR, warp_row = warp_id() * ROWS, row = block_row + warp_row;
    Q += (head * Nq + block_row) * D;  // the block's first query
    K += head * Nk * D;                // the head's first key
    V += head * Nk * D;

    // load: the block's queries and the first tile of keys
    load_async<THREADS>(Q_smem, Q, Nq - block_row);
    load_async<THREADS>(K_smem[0], K, Nk);
    load_async<THREADS>(V_smem[0], V, Nk);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // every thread's part of Q has arrived
    operand<ROWS, D> Q_reg;
    load(Q_reg, Q_smem, warp_row);

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
    const int tiles = (Nk - 1) / BC + 1;
    for (int t = 0; t < tiles; t++) {
        const int now = t % 2, next = 1 - now, left = Nk - t * BC;  // keys from this tile on
        loads_arrived<0>();
        __syncthreads();  // tile t is there for all warps, and no warp reads tile t - 1 any more
        if (t + 1 < tiles) {
            load_async<THREADS>(K_smem[next], K + (size_t)(t + 1) * BC * D, left - BC);
            load_async<THREADS>(V_smem[next], V + (size_t)(t + 1) * BC * D, left - BC);
            loads_issued();
        }

        reg_tile<ROWS, BC> S = {};
        mma_ABt(S, Q_reg, K_smem[now]);  // S = Q K^T

        //{ tail: keys that do not exist
        if (left < BC)
            each(S, [&](float &s, element e) {
                if (e.col >= left) s = -INFINITY;
            });
        //}
        //{ max
        const row_vec<ROWS> m_new = max(m, row_max(S) * scale2);
        //}
        //{ rescale
        const row_vec<ROWS> alpha = exp2(m - m_new);
        m = m_new;
        l = l * alpha;
        scale_rows(O_reg, alpha);
        //}
        //{ accumulate
        each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });  // S becomes P
        l = l + row_sum(S);
        //}

        mma_AB(O_reg, S, V_smem[now]);  // O += P V
    }

    row_vec<ROWS> L_row = {};
    //{ finalize
    divide_rows(O_reg, l);
    L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e
    //}

    // store
    store(O + (head * Nq + row) * D, O_reg, Nq - row);
    store(L + head * Nq + row, L_row, Nq - row);
}

template <int D, int ROWS, int BC, int BLOCKS> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    constexpr int WARPS = 4, BR = ROWS * WARPS;
    const auto kernel = flash_forward_kernel<D, ROWS, BC, WARPS, BLOCKS>;
    const size_t bytes = sizeof(forward_tiles<BR, BC, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid((shape->q_len - 1) / BR + 1, shape->q_heads, shape->batch);
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_forward(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const bool room = fits<forward_tiles<128, 64, 128>>();
    switch (shape->head_dim) {
    case 16: return launch<16, 32, 64, 4>(O, L, Q, K, V, shape, stream);
    case 32: return launch<32, 32, 64, 3>(O, L, Q, K, V, shape, stream);
    case 64: return launch<64, 32, 64, 2>(O, L, Q, K, V, shape, stream);
    default:
        return room ? launch<128, 32, 64, 2>(O, L, Q, K, V, shape, stream)
                    : launch<128, 16, 32, 2>(O, L, Q, K, V, shape, stream);
    }
}
