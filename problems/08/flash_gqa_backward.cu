// flash_gqa_backward.cu - the gradient of causal attention with grouped-query heads: from Q, K, V, O, L and dO to dQ,
// dK and dV. FlashAttention-2, algorithm 2, without its atomics. P is recomputed from Q, K and L, tile by tile. There
// are three kernels: for delta, for dK and dV (a block owns rows of these), and for dQ (likewise).
#include "workbook.h"
#include "tile.cuh"

#define LOG2_E 1.44269504f  // exp(x) = exp2(LOG2_E x)

// delta = rowsum(dO * O): D / 8 neighbouring lanes share a row, each of them 16 bytes of it.
template <int D> __global__ __launch_bounds__(256) void delta_kernel(
    float *delta,    // [B, Hq, N]
    const bf16 *O,   // [B, Hq, N, D]
    const bf16 *dO,  // [B, Hq, N, D]
    size_t rows)     // B Hq N
{
    constexpr int LANES = D / 8;
    const size_t at = (size_t)blockIdx.x * 256 + threadIdx.x, row = at / LANES;
    uint4 O_reg = {}, dO_reg = {};  // eight bf16 each; nothing beyond the last row
    if (row < rows) {
        O_reg = reinterpret_cast<const uint4 *>(O)[at];
        dO_reg = reinterpret_cast<const uint4 *>(dO)[at];
    }
    const auto *o = reinterpret_cast<const __nv_bfloat162 *>(&O_reg),
               *g = reinterpret_cast<const __nv_bfloat162 *>(&dO_reg);
    float sum = 0;
    //{ delta
    // TODO(08) delta: this lane's share of rowsum(dO * O), then the sum over the row's LANES lanes.  (about 4 lines)
    (void)o, (void)g;
    //}
    if (row < rows && at % LANES == 0) delta[row] = sum;
}

// --------------------------------------------------------------------------------------- dK and dV

// What a block of that kernel keeps in shared memory. Of the pairs, one is read while the other is filled.
template <int BK, int BQ, int D> struct dkdv_tiles {
    smem_tile<BK, D> K_smem, V_smem;
    smem_tile<BQ, D> Q_smem[2], dO_smem[2];
    float L_smem[2][BQ], delta_smem[2][BQ];  // L in base 2
};

// A block owns BK keys of one key head, each of its warps ROWS of them. It walks over the query heads of the group,
// and in each over the queries from the diagonal on, BQ at a time. The tiles lie on their sides: rows are keys,
// columns are queries. Then dV and dK stay in registers, and P and dS are left factors of the products that feed them.
template <int D, int ROWS, int BQ, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void dkdv_kernel(
    bf16 *dK,            // [B, Hkv, N, D]
    bf16 *dV,            // [B, Hkv, N, D]
    const bf16 *Q,       // [B, Hq, N, D]
    const bf16 *K,       // [B, Hkv, N, D]
    const bf16 *V,       // [B, Hkv, N, D]
    const bf16 *dO,      // [B, Hq, N, D]
    const float *L,      // [B, Hq, N]
    const float *delta,  // [B, Hq, N]
    int q_heads, int kv_heads, int N, float scale)
{
    constexpr int BK = ROWS * WARPS, THREADS = 32 * WARPS;
    static_assert(2 * BQ <= THREADS, "a thread brings one L or one delta of each tile");
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<dkdv_tiles<BK, BQ, D> *>(shared);

    // who am I: early keys are seen by the most queries, so their blocks start first, those of all heads side by side
    const size_t kv_head = (size_t)blockIdx.y * kv_heads + blockIdx.x % kv_heads;  // counted over the whole batch
    const int block_key = blockIdx.x / kv_heads * BK, warp_key = warp_id() * ROWS, key = block_key + warp_key;
    const size_t kv_row = kv_head * N + block_key;  // the row of K, V, dK and dV where the block's first key stands

    // which queries see the block's keys: first ... N - 1 of each head of the group, in steps of BQ
    const int first = block_key, per_head = (N - first + BQ - 1) / BQ, group = q_heads / kv_heads;
    int steps = per_head;
    //{ group
    // TODO(08) group: dK and dV are sums over the query heads that share this key head.  (1 line)
    (void)group;
    //}

    // A step takes the queries from i0 on, of one head; they stand in rows q_row ... of Q, dO, L and delta.
    const auto load_step = [&](int half, size_t q_row, int i0) {
        load_async<THREADS>(tiles.Q_smem[half], Q + q_row * D, N - i0);
        load_async<THREADS>(tiles.dO_smem[half], dO + q_row * D, N - i0);
        loads_issued();
    };
    // The first BQ threads bring an L each, the next BQ a delta: read early, stored when there was time for them to
    // arrive. A query that does not exist has L = infinity, and thereby P = 0.
    const bool brings_L = threadIdx.x < BQ, brings_delta = !brings_L && threadIdx.x < 2 * BQ;
    const int mine = threadIdx.x % BQ;
    const auto read_statistic = [&](size_t q_row, int i0) {
        if (i0 + mine >= N) return brings_L ? INFINITY : 0.0f;
        return brings_L ? L[q_row + mine] * LOG2_E : brings_delta ? delta[q_row + mine] : 0.0f;
    };
    const auto store_statistic = [&](int half, float value) {
        if (brings_L) tiles.L_smem[half][mine] = value;
        if (brings_delta) tiles.delta_smem[half][mine] = value;
    };

    // load: the block's keys and values, and the first step's queries
    int i0 = first;
    size_t q_row = kv_head * group * N + first;
    load_async<THREADS>(tiles.K_smem, K + kv_row * D, N - block_key);
    load_async<THREADS>(tiles.V_smem, V + kv_row * D, N - block_key);
    load_step(0, q_row, i0);
    store_statistic(0, read_statistic(q_row, i0));
    loads_arrived<0>();
    __syncthreads();  // every thread's part of K and V has arrived
    operand<ROWS, D> K_reg, V_reg;
    load(K_reg, tiles.K_smem, warp_key);
    load(V_reg, tiles.V_smem, warp_key);

    const float scale2 = scale * LOG2_E;
    reg_tile<ROWS, D> dK_reg = {}, dV_reg = {};
    for (int step = 0; step < steps; step++) {
        const int now = step % 2, next = 1 - now;
        int next_i0 = i0 + BQ;
        size_t next_row = q_row + BQ;
        //{ next head
        // TODO(08) next head: after a head's last query tile, the first one of the group's next head.  (about 4 lines)
        //}
        loads_arrived<0>();
        __syncthreads();  // this step's tiles are there for all warps, and no warp still reads those of the step before
        float statistic = 0;
        if (step + 1 < steps) {
            load_step(next, next_row, next_i0);
            statistic = read_statistic(next_row, next_i0);
        }

        col_vec<BQ> L_col, delta_col;
        load(L_col, tiles.L_smem[now], BQ, 0);
        load(delta_col, tiles.delta_smem[now], BQ, 0);
        reg_tile<ROWS, BQ> P = {}, dS = {};
        mma_ABt(P, K_reg, tiles.Q_smem[now]);  // S^T = K Q^T
        //{ recompute
        // TODO(08) recompute: S^T becomes P^T, by L, in base 2; hidden pairs become 0.  (about 6 lines)
        (void)scale2, (void)key;
        //}
        //{ dV
        // TODO(08) dV: dV += P^T dO.  (1 line)
        //}
        //{ dS
        // TODO(08) dS: first dP^T = V dO^T, then dS^T from it, from P^T and from delta.  (2 lines)
        (void)dS;
        //}
        //{ dK
        // TODO(08) dK: dK += dS^T Q; the scale can wait.  (1 line)
        //}

        if (step + 1 < steps) store_statistic(next, statistic);  // read after the next barrier
        i0 = next_i0;
        q_row = next_row;
    }

    //{ dK scale
    // TODO(08) dK scale: the scale that was left out of S.  (1 line)
    //}
    store(dK + (kv_row + warp_key) * D, dK_reg, N - key);
    store(dV + (kv_row + warp_key) * D, dV_reg, N - key);
}

// ---------------------------------------------------------------------------------------------- dQ

template <int BR, int BC, int D> struct dq_tiles {
    smem_tile<BR, D> Q_smem, dO_smem;
    smem_tile<BC, D> K_smem[2], V_smem[2];
};

// A block owns BR queries of one query head, each of its warps ROWS of them, and walks over the keys up to the
// diagonal, BC at a time: the loop of problem 05, with other products.
template <int D, int ROWS, int BC, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void dq_kernel(
    bf16 *dQ,            // [B, Hq, N, D]
    const bf16 *Q,       // [B, Hq, N, D]
    const bf16 *K,       // [B, Hkv, N, D]
    const bf16 *V,       // [B, Hkv, N, D]
    const bf16 *dO,      // [B, Hq, N, D]
    const float *L,      // [B, Hq, N]
    const float *delta,  // [B, Hq, N]
    int q_heads, int kv_heads, int N, float scale)
{
    constexpr int BR = ROWS * WARPS, THREADS = 32 * WARPS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<dq_tiles<BR, BC, D> *>(shared);

    // who am I: late queries see the most keys, so their blocks start first
    const int q_head = blockIdx.x % q_heads, tile = (N - 1) / BR - blockIdx.x / q_heads;
    const int block_row = tile * BR, warp_row = warp_id() * ROWS, row = block_row + warp_row;
    const size_t head = (size_t)blockIdx.y * q_heads + q_head;  // counted over the whole batch
    const size_t q_row = head * N + block_row;
    const int kv_head = q_head / (q_heads / kv_heads);
    K += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;  // that head's first key
    V += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;

    // which keys the block sees: 0 ... end - 1, in steps of BC
    const int end = min(N, block_row + BR);

    // A step takes the keys from j0 on.
    const auto load_step = [&](int half, int j0) {
        load_async<THREADS>(tiles.K_smem[half], K + (size_t)j0 * D, N - j0);
        load_async<THREADS>(tiles.V_smem[half], V + (size_t)j0 * D, N - j0);
        loads_issued();
    };

    // load: the block's queries and their dO, and the first step's keys
    load_async<THREADS>(tiles.Q_smem, Q + q_row * D, N - block_row);
    load_async<THREADS>(tiles.dO_smem, dO + q_row * D, N - block_row);
    load_step(0, 0);
    row_vec<ROWS> L_row, delta_row;
    load(L_row, L + q_row + warp_row, N - row, INFINITY);  // a query that does not exist: P = 0
    load(delta_row, delta + q_row + warp_row, N - row, 0);
    L_row = L_row * LOG2_E;
    loads_arrived<0>();
    __syncthreads();  // every thread's part of Q and dO has arrived
    operand<ROWS, D> Q_reg, dO_reg;
    load(Q_reg, tiles.Q_smem, warp_row);
    load(dO_reg, tiles.dO_smem, warp_row);

    const float scale2 = scale * LOG2_E;
    reg_tile<ROWS, D> dQ_reg = {};
    for (int j0 = 0, now = 0; j0 < end; j0 += BC, now = 1 - now) {
        const int next_j0 = j0 + BC;
        loads_arrived<0>();
        __syncthreads();  // this step's tiles are there for all warps, and no warp still reads those of the step before
        if (next_j0 < end) load_step(1 - now, next_j0);

        if (j0 >= row + ROWS) continue;  // on the diagonal of later warps
        reg_tile<ROWS, BC> P = {}, dS = {};
        mma_ABt(P, Q_reg, tiles.K_smem[now]);  // S = Q K^T
        //{ recompute for dQ
        // TODO(08) recompute for dQ: S becomes P as above, with rows and columns exchanged.  (about 6 lines)
        (void)scale2;
        //}
        //{ dS for dQ
        // TODO(08) dS for dQ: dP = dO V^T, then dS.  (2 lines)
        (void)dS;
        //}
        //{ dQ
        // TODO(08) dQ: dQ += dS K.  (1 line)
        //}
    }

    //{ dQ scale
    // TODO(08) dQ scale: the scale.  (1 line)
    //}
    store(dQ + (q_row + warp_row) * D, dQ_reg, N - row);
}

// ------------------------------------------------------------------------------------------ launch

// KROWS, BQ, KBLOCKS are of the kernel for dK and dV, QROWS, BC, QBLOCKS of the one for dQ.
template <int D, int KROWS, int BQ, int KBLOCKS, int QROWS, int BC, int QBLOCKS> static wb_status launch(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    constexpr int WARPS = 4, BK = KROWS * WARPS, BR = QROWS * WARPS;
    const int B = shape->batch, Hq = shape->q_heads, Hkv = shape->kv_heads, N = shape->q_len;
    const size_t rows = (size_t)B * Hq * N;
    delta_kernel<D><<<(unsigned)((rows * D / 8 - 1) / 256 + 1), 256, 0, stream>>>(delta, O, dO, rows);
    WB_CUDA(cudaGetLastError());

    const auto dkdv = dkdv_kernel<D, KROWS, BQ, WARPS, KBLOCKS>;
    const size_t dkdv_bytes = sizeof(dkdv_tiles<BK, BQ, D>);
    WB_CUDA(cudaFuncSetAttribute(dkdv, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dkdv_bytes));
    const dim3 dkdv_grid(((N - 1) / BK + 1) * Hkv, B);
    dkdv<<<dkdv_grid, 32 * WARPS, dkdv_bytes, stream>>>(dK, dV, Q, K, V, dO, L, delta, Hq, Hkv, N, shape->scale);
    WB_CUDA(cudaGetLastError());

    const auto dq = dq_kernel<D, QROWS, BC, WARPS, QBLOCKS>;
    const size_t dq_bytes = sizeof(dq_tiles<BR, BC, D>);
    WB_CUDA(cudaFuncSetAttribute(dq, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dq_bytes));
    const dim3 dq_grid(((N - 1) / BR + 1) * Hq, B);
    dq<<<dq_grid, 32 * WARPS, dq_bytes, stream>>>(dQ, Q, K, V, dO, L, delta, Hq, Hkv, N, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_gqa_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const bool room = fits<dq_tiles<128, 32, 128>>();
    auto go = launch<16, 16, 64, 4, 32, 64, 3>;
    if (shape->head_dim == 32) go = launch<32, 32, 64, 2, 32, 64, 2>;
    if (shape->head_dim == 64) go = launch<64, 32, 32, 2, 32, 32, 2>;
    if (shape->head_dim == 128) go = room ? launch<128, 16, 32, 2, 32, 32, 2> : launch<128, 16, 16, 1, 16, 16, 1>;
    return go(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}
