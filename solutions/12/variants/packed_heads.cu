// packed_heads.cu - flash_sink_logits_backward, faster for short windows. The differences from the reference solution
// serve speed only:
//
// - A block of the kernel for dQ takes 16 positions of 4 heads that share K and V, not 64 positions of one. Its window
//   is W + 15 keys long, not W + 63, and a key that was loaded serves all four heads.
// - A warp skips the products of a step in which it sees nothing, in both kernels, and the mask where it sees all.
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "../../08/variants/delta.cuh"

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
    int q_heads, int kv_heads, int N, int W, float scale)
{
    constexpr int BK = ROWS * WARPS, THREADS = 32 * WARPS;
    static_assert(2 * BQ <= THREADS, "a thread brings one L or one delta of each tile");
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<dkdv_tiles<BK, BQ, D> *>(shared);

    // who am I: a tile of keys, those of all heads side by side
    const int group = q_heads / kv_heads;
    const size_t kv_head = (size_t)blockIdx.y * kv_heads + blockIdx.x % kv_heads;  // counted over the whole batch
    const int block_key = blockIdx.x / kv_heads * BK, warp_key = warp_id() * ROWS, key = block_key + warp_key;
    const size_t kv_row = kv_head * N + block_key;  // the row of K, V, dK and dV where the block's first key stands

    // which queries see the tile: first ... last - 1 of each head, BQ at a time
    const int first = block_key,
              last = min(N, block_key + BK - 1 + W);  // the tile's last key is in the window of W queries
    const int per_head = (last - first + BQ - 1) / BQ, steps = per_head * group;

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
        if (next_i0 >= last) {  // the head is done: on to the next of the group, to the same place
            next_row += N - per_head * BQ;
            next_i0 = first;
        }
        loads_arrived<0>();
        __syncthreads();  // this step's tiles are there for all warps, and no warp reads those of the step before any more
        float statistic = 0;
        if (step + 1 < steps) {
            load_step(next, next_row, next_i0);
            statistic = read_statistic(next_row, next_i0);
        }

        // of the pairs of this warp's keys and these queries, whether none or all are visible
        const bool none = i0 + BQ <= key || i0 - (key + ROWS - 1) >= W;
        const bool all = i0 >= key + ROWS - 1 && i0 + BQ - 1 - key < W;
        const auto hidden = [&](int i, int j) { return j > i || i - j >= W; };
        if (!none) {
            col_vec<BQ> L_col, delta_col;
            load(L_col, tiles.L_smem[now], BQ, 0);
            load(delta_col, tiles.delta_smem[now], BQ, 0);
            reg_tile<ROWS, BQ> P = {}, dS = {};
            mma_ABt(P, K_reg, tiles.Q_smem[now]);  // S^T = K Q^T
            if (!all)
                each(P, [&](float &s, element e) {
                    if (hidden(i0 + e.col, key + e.row)) s = -INFINITY;
                });
            each(P, [&](float &s, element e) { s = exp2_fast(s * scale2 - L_col[e]); });  // S^T becomes P^T
            mma_AB(dV_reg, P, tiles.dO_smem[now]);                                        // dV += P^T dO
            mma_ABt(dS, V_reg, tiles.dO_smem[now]);                                       // dP^T = V dO^T
            each(dS, [&](float &x, element e) { x = P[e] * (x - delta_col[e]); });
            mma_AB(dK_reg, dS, tiles.Q_smem[now]);  // dK += dS^T Q, times scale at the end
        }

        if (step + 1 < steps) store_statistic(next, statistic);  // read after the next barrier
        i0 = next_i0;
        q_row = next_row;
    }

    each(dK_reg, [&](float &x, element) { x *= scale; });
    store(dK + (kv_row + warp_key) * D, dK_reg, N - key);
    store(dV + (kv_row + warp_key) * D, dV_reg, N - key);
}

// ---------------------------------------------------------------------------------------------- dQ

template <int BR, int HEADS, int BC, int D> struct dq_tiles {
    smem_tile<BR, D> Q_smem[HEADS], dO_smem[HEADS];
    smem_tile<BC, D> K_smem[2], V_smem[2];
};

// A block owns the same BR queries of HEADS query heads of a group, which share the tiles of keys; each of its warps
// ROWS of them, in one head. It walks over the window up to the diagonal, BC keys at a time.
template <int D, int ROWS, int BC, int HEADS, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void dq_kernel(
    bf16 *dQ,            // [B, Hq, N, D]
    const bf16 *Q,       // [B, Hq, N, D]
    const bf16 *K,       // [B, Hkv, N, D]
    const bf16 *V,       // [B, Hkv, N, D]
    const bf16 *dO,      // [B, Hq, N, D]
    const float *L,      // [B, Hq, N]
    const float *delta,  // [B, Hq, N]
    int q_heads, int kv_heads, int N, int W, float scale)
{
    constexpr int BR = ROWS * WARPS / HEADS, THREADS = 32 * WARPS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<dq_tiles<BR, HEADS, BC, D> *>(shared);

    // who am I: late queries see the most keys, so their blocks start first
    const int head0 = blockIdx.x % (q_heads / HEADS) * HEADS, tile = (N - 1) / BR - blockIdx.x / (q_heads / HEADS);
    const int block_row = tile * BR, warp_head = warp_id() % HEADS, warp_row = warp_id() / HEADS * ROWS;
    const int row = block_row + warp_row;
    const size_t block_head = (size_t)blockIdx.y * q_heads + head0;  // counted over the whole batch
    const size_t q_row = (block_head + warp_head) * N + row;         // where the warp's first query stands
    const int kv_head = head0 / (q_heads / kv_heads);
    K += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;  // that head's first key
    V += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;

    // what the block sees: keys first ... end - 1, BC at a time
    const int first = max(0, block_row - W + 1), end = min(block_row + BR, N);

    // load
    for (int h = 0; h < HEADS; h++) {
        const size_t at = ((block_head + h) * N + block_row) * D;
        load_async<THREADS>(tiles.Q_smem[h], Q + at, N - block_row);
        load_async<THREADS>(tiles.dO_smem[h], dO + at, N - block_row);
    }
    load_async<THREADS>(tiles.K_smem[0], K + (size_t)first * D, N - first);
    load_async<THREADS>(tiles.V_smem[0], V + (size_t)first * D, N - first);
    loads_issued();
    row_vec<ROWS> L_row, delta_row;
    load(L_row, L + q_row, N - row, INFINITY);  // a query that does not exist: P = 0
    load(delta_row, delta + q_row, N - row, 0);
    L_row = L_row * LOG2_E;
    loads_arrived<0>();
    __syncthreads();  // every thread's part of Q and dO has arrived
    operand<ROWS, D> Q_reg, dO_reg;
    load(Q_reg, tiles.Q_smem[warp_head], warp_row);
    load(dO_reg, tiles.dO_smem[warp_head], warp_row);

    const float scale2 = scale * LOG2_E;
    reg_tile<ROWS, D> dQ_reg = {};
    for (int j0 = first, now = 0; j0 < end; j0 += BC, now = 1 - now) {
        const int next = 1 - now, next_j0 = j0 + BC;
        loads_arrived<0>();
        __syncthreads();  // this step's tile is there for all warps, and no warp reads the one before any more
        if (next_j0 < end) {
            load_async<THREADS>(tiles.K_smem[next], K + (size_t)next_j0 * D, N - next_j0);
            load_async<THREADS>(tiles.V_smem[next], V + (size_t)next_j0 * D, N - next_j0);
            loads_issued();
        }

        // of the pairs of this warp's queries and these keys, whether none or all are visible
        const bool none = j0 >= row + ROWS || row - (j0 + BC - 1) >= W;
        const bool all = j0 + BC - 1 <= row && row + ROWS - 1 - j0 < W;
        const auto hidden = [&](int i, int j) { return j > i || i - j >= W; };
        if (none) continue;
        reg_tile<ROWS, BC> P = {}, dS = {};
        mma_ABt(P, Q_reg, tiles.K_smem[now]);  // S = Q K^T
        if (!all)
            each(P, [&](float &s, element e) {
                if (hidden(row + e.row, j0 + e.col)) s = -INFINITY;
            });
        each(P, [&](float &s, element e) { s = exp2_fast(s * scale2 - L_row[e]); });  // S becomes P
        mma_ABt(dS, dO_reg, tiles.V_smem[now]);                                       // dP = dO V^T
        each(dS, [&](float &x, element e) { x = P[e] * (x - delta_row[e]); });
        mma_AB(dQ_reg, dS, tiles.K_smem[now]);  // dQ += dS K, times scale at the end
    }

    each(dQ_reg, [&](float &x, element) { x *= scale; });
    store(dQ + q_row * D, dQ_reg, N - row);
}

// ---------------------------------------------------------------------------------------------- ds

// ds = -sum over the rows of a head, in all batches, of exp(s - L) delta. A block owns a head: each thread adds up
// every THREADS-th row, then the block the sums of its threads, in a tree. The order is always the same, and so are
// the bits.
template <int THREADS> __global__ __launch_bounds__(THREADS) void dsinks_kernel(
    float *dsinks,             // [Hq]
    const float *sink_logits,  // [Hq]
    const float *L,            // [B, Hq, N]
    const float *delta,        // [B, Hq, N]
    int batch, int N)
{
    static_assert(THREADS <= 1024 && THREADS % 32 == 0, "the sums of all warps are added up by the lanes of one");
    __shared__ float sums[32];
    const int head = blockIdx.x, q_heads = gridDim.x;
    const float s = sink_logits[head];  // as it enters the softmax: base e, without scale; -INFINITY: no sink
    float sum = 0;
    for (int b = 0; b < batch; b++)
        for (int i = threadIdx.x; i < N; i += THREADS) {
            const size_t row = ((size_t)b * q_heads + head) * N + i;
            sum -= exp2_fast((s - L[row]) * LOG2_E) * delta[row];
        }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (lane_id() == 0) sums[warp_id()] = sum;
    __syncthreads();  // the sums of all warps are there
    if (warp_id() == 0) {
        sum = lane_id() < THREADS / 32 ? sums[lane_id()] : 0;
        for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    }
    if (threadIdx.x == 0) dsinks[head] = sum;
}

// ------------------------------------------------------------------------------------------ launch

// KROWS, BQ, KWARPS, KBLOCKS are of the kernel for dK and dV, QROWS, BC, QBLOCKS of the one for dQ.
template <int D, int KROWS, int BQ, int KWARPS, int KBLOCKS, int QROWS, int BC, int QBLOCKS> static wb_status launch(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream)
{
    constexpr int WARPS = 4, BK = KROWS * KWARPS;
    const int B = shape->batch, Hq = shape->q_heads, Hkv = shape->kv_heads, N = shape->q_len;
    const int W = min(shape->window, N);  // so that sums with it do not overflow
    const size_t rows = (size_t)B * Hq * N;
    delta_kernel<D><<<(unsigned)((rows * D / 8 - 1) / 256 + 1), 256, 0, stream>>>(delta, O, dO, rows);
    WB_CUDA(cudaGetLastError());
    dsinks_kernel<1024><<<Hq, 1024, 0, stream>>>(dsinks, sink_logits, L, delta, B, N);
    WB_CUDA(cudaGetLastError());

    const auto dkdv = dkdv_kernel<D, KROWS, BQ, KWARPS, KBLOCKS>;
    const size_t dkdv_bytes = sizeof(dkdv_tiles<BK, BQ, D>);
    WB_CUDA(cudaFuncSetAttribute(dkdv, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dkdv_bytes));
    const dim3 dkdv_grid(((N - 1) / BK + 1) * Hkv, B);
    dkdv<<<dkdv_grid, 32 * KWARPS, dkdv_bytes, stream>>>(dK, dV, Q, K, V, dO, L, delta, Hq, Hkv, N, W, shape->scale);
    WB_CUDA(cudaGetLastError());

    // In a short window, heads that share K and V share blocks too. The tiles are as large in either case.
    const int heads = Hq / Hkv % 4 == 0 && W <= 512 ? 4 : 1, BR = QROWS * WARPS / heads;
    const auto dq =
        heads == 4 ? dq_kernel<D, QROWS, BC, 4, WARPS, QBLOCKS> : dq_kernel<D, QROWS, BC, 1, WARPS, QBLOCKS>;
    const size_t dq_bytes = sizeof(dq_tiles<QROWS * WARPS, 1, BC, D>);
    WB_CUDA(cudaFuncSetAttribute(dq, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dq_bytes));
    const dim3 dq_grid(((N - 1) / BR + 1) * (Hq / heads), B);
    dq<<<dq_grid, 32 * WARPS, dq_bytes, stream>>>(dQ, Q, K, V, dO, L, delta, Hq, Hkv, N, W, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_sink_logits_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream)
{
    const wb_status status = wb_check_sink_backward(
        "flash_sink_logits_backward", dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    if (status != WB_OK) return status;
    const bool wide = shape->window >= 512;  // a long walk likes large tiles, those of 08; a short window small ones
    auto go = launch<16, 16, 64, 4, 5, 16, 32, 6>;
    switch (shape->head_dim) {
    case 16: break;
    case 32: go = launch<32, 16, 32, 2, 8, 16, 32, 5>; break;
    case 64: go = wide ? launch<64, 32, 32, 4, 2, 32, 32, 2> : launch<64, 16, 32, 2, 6, 16, 16, 5>; break;
    default:
        go = wide && fits<dq_tiles<128, 1, 32, 128>>() ? launch<128, 16, 32, 4, 2, 32, 32, 2>
                                                       : launch<128, 16, 32, 2, 3, 16, 16, 3>;
    }
    return go(dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
}

double flash_sink_logits_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    const int D = shape->head_dim, heads = shape->window <= 512 && wb_group_of(shape) % 4 == 0 ? 4 : 1;
    const int rows = D == 16 ? 64 : 32, at_once = D == 16 ? 5 : D == 32 ? 8 : D == 64 ? 6 : 3;
    wb_walks over_keys = wb_over_keys(shape, 64 / heads, D < 64 ? 32 : 16, D == 16 ? 6 : D == 128 ? 3 : 5);
    over_keys.blocks /= heads;
    return wb_backward(shape, device, wb_over_queries(shape, rows, rows, at_once), over_keys) +
           wb_summing(shape->batch * ceil(shape->q_len / 1024.0));
}
