// flash1.cu - flash_forward with the loops exchanged, as in FlashAttention-1 (Dao et al. 2022, algorithm 1): a block
// owns a head and iterates over its tiles of keys. For each of them it iterates over all tiles of queries, loads their
// O, l and m from device memory, and stores them again. The costs: 8 D + 64 bytes per query row and tile of keys, a
// float32 copy of O, and no more blocks than heads.
//
// exempt: memory
#include "workbook.h"
#include "tile.cuh"

// What a block keeps in shared memory.
template <int BR, int BC, int D> struct forward_tiles {
    smem_tile<BC, D> K_smem, V_smem;
    smem_tile<BR, D> Q_smem[2];  // one of the two is read while the other is filled
};

// What is known of a query row before its last tile of keys, in device memory. Each lane finds its own numbers again:
// they lie as it held them, those of the 32 lanes side by side.
template <int ROWS, int D> struct running {
    reg_tile<ROWS, D> O_reg;
    row_vec<ROWS> m, l;
    static constexpr int WORDS = ROWS * D / 32 + ROWS / 4;  // of a lane
};

template <int ROWS, int D> TILE_FN void fetch(running<ROWS, D> &now, const float *at)  // the warp's [WORDS, 32]
{
    float *word = reinterpret_cast<float *>(&now);
    TILE_UNROLL
    for (int i = 0; i < now.WORDS; i++) word[i] = at[i * 32 + lane_id()];
}

template <int ROWS, int D> TILE_FN void put_back(float *at, const running<ROWS, D> &now)
{
    const float *word = reinterpret_cast<const float *>(&now);
    TILE_UNROLL
    for (int i = 0; i < now.WORDS; i++) at[i * 32 + lane_id()] = word[i];
}

template <int D, int ROWS, int BC, int WARPS> __global__ __launch_bounds__(32 * WARPS) void flash1_kernel(
    bf16 *O,        // [B, H, Nq, D]
    float *L,       // [B, H, Nq]
    float *memory,  // [B, H, tiles of queries, WARPS, WORDS, 32]
    const bf16 *Q,  // [B, H, Nq, D]
    const bf16 *K,  // [B, H, Nk, D]
    const bf16 *V,  // [B, H, Nk, D]
    int Nq, int Nk, float scale)
{
    constexpr int BR = ROWS * WARPS, THREADS = 32 * WARPS, WORDS = running<ROWS, D>::WORDS;
    extern __shared__ uint4 shared[];
    auto &[K_smem, V_smem, Q_smem] = *reinterpret_cast<forward_tiles<BR, BC, D> *>(shared);

    // who am I: one head
    const size_t head = (size_t)blockIdx.y * gridDim.x + blockIdx.x;  // counted over the whole batch
    const int warp_row = warp_id() * ROWS, query_tiles = (Nq - 1) / BR + 1;
    O += head * Nq * D;
    L += head * Nq;
    Q += head * Nq * D;
    K += head * Nk * D;
    V += head * Nk * D;
    memory += (head * query_tiles * WARPS + warp_id()) * WORDS * 32;  // this warp's part of the first tile

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    for (int first_key = 0; first_key < Nk; first_key += BC) {
        // load: this tile of keys, for all queries; and the first queries
        const int left = Nk - first_key;
        __syncthreads();  // no warp reads the tile before any more
        load_async<THREADS>(K_smem, K + (size_t)first_key * D, left);
        load_async<THREADS>(V_smem, V + (size_t)first_key * D, left);
        load_async<THREADS>(Q_smem[0], Q, Nq);
        loads_issued();

        for (int i = 0; i < query_tiles; i++) {
            const int now = i % 2, row = i * BR + warp_row;
            loads_arrived<0>();
            __syncthreads();  // queries i are there for all warps, and no warp reads queries i - 1 any more
            if (i + 1 < query_tiles) {
                load_async<THREADS>(Q_smem[1 - now], Q + (size_t)(i + 1) * BR * D, Nq - (i + 1) * BR);
                loads_issued();
            }

            float *mine = memory + (size_t)i * WARPS * WORDS * 32;
            running<ROWS, D> known = {};
            auto &[O_reg, m, l] = known;
            fill(m, -FLT_MAX);
            if (first_key > 0) fetch(known, mine);

            operand<ROWS, D> Q_reg;
            load(Q_reg, Q_smem[now], warp_row);
            reg_tile<ROWS, BC> S = {};
            mma_ABt(S, Q_reg, K_smem);  // S = Q K^T
            if (left < BC)
                each(S, [&](float &s, element e) {
                    if (e.col >= left) s = -INFINITY;
                });
            // max
            const row_vec<ROWS> m_new = max(m, row_max(S) * scale2), alpha = exp2(m - m_new);
            // rescale
            m = m_new;
            l = l * alpha;
            scale_rows(O_reg, alpha);
            // accumulate
            each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m_new[e]); });  // S becomes P
            l = l + row_sum(S);
            mma_AB(O_reg, S, V_smem);  // O += P V

            if (left > BC) {
                put_back(mine, known);
                continue;
            }
            // finalize, and store
            divide_rows(O_reg, l);
            const row_vec<ROWS> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e
            store(O + (size_t)row * D, O_reg, Nq - row);
            store(L + row, L_row, Nq - row);
        }
    }
}

template <int D, int ROWS, int BC> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    constexpr int WARPS = 4, BR = ROWS * WARPS;
    const auto kernel = flash1_kernel<D, ROWS, BC, WARPS>;
    const size_t bytes = sizeof(forward_tiles<BR, BC, D>);
    const size_t warps = (size_t)shape->batch * shape->q_heads * ((shape->q_len - 1) / BR + 1) * WARPS;
    float *memory;
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    WB_CUDA(cudaMallocAsync(reinterpret_cast<void **>(&memory), warps * sizeof(running<ROWS, D>) * 32, stream));
    kernel<<<dim3(shape->q_heads, shape->batch), 32 * WARPS, bytes, stream>>>(
        O, L, memory, Q, K, V, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    WB_CUDA(cudaFreeAsync(memory, stream));
    return WB_OK;
}

wb_status flash_forward(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return launch<16, 32, 64>(O, L, Q, K, V, shape, stream);
    case 32: return launch<32, 32, 64>(O, L, Q, K, V, shape, stream);
    case 64: return launch<64, 32, 64>(O, L, Q, K, V, shape, stream);
    default: return launch<128, 16, 32>(O, L, Q, K, V, shape, stream);
    }
}
