// atomic_dq.cu - flash_gqa_backward with five products instead of seven: one kernel owns a key tile and adds the
// contribution of each of its tiles of dS to dQ with atomics in device memory, as FlashAttention-2 does. The costs: a
// float32 copy of dQ, 4 B Hq N D bytes, and an order of additions, and so last bits of dQ, that change from run to run.
// It is for reading. The library uses the reference solution, which is deterministic, or, on a Hopper GPU, hopper.cu,
// which takes half the time there.
//
// exempt: memory same_twice
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
    for (int k = 0; k < 4; k++) {
        const float2 a = __bfloat1622float2(o[k]), b = __bfloat1622float2(g[k]);
        sum += a.x * b.x + a.y * b.y;
    }
    for (int lane = LANES / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (row < rows && at % LANES == 0) delta[row] = sum;
}

// --------------------------------------------------------------------------------------- dK and dV

// What a block of that kernel keeps in shared memory. Of the pairs, one is read while the other is filled.
template <int BK, int BQ, int D> struct dkdv_tiles {
    smem_tile<BK, D> K_smem, V_smem;
    smem_tile<BQ, D> Q_smem[2], dO_smem[2];
    smem_tile<BK, BQ> dS_smem[2];            // dS^T of all warps: one step's is written, the one before is read
    float L_smem[2][BQ], delta_smem[2][BQ];  // L in base 2
};

// dQ is summed up in fragments: the four numbers that a lane holds of a 16 x 8 block of a reg_tile stay together,
// those of the 32 lanes one after another. So a warp adds 512 neighbouring bytes at a time, and the rows come out
// again in `dq_kernel`.
template <int D> TILE_FN float4 *fragment(float4 *dQ_sum, size_t row, int col)  // multiples of 16 and 8
{
    return dQ_sum + (row / 16 * (D / 8) + col / 8) * 32 + lane_id();
}

TILE_FN void add(float4 *at, const float x[4])
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    atomicAdd(at, make_float4(x[0], x[1], x[2], x[3]));
#else
    float *to = &at->x;
    for (int i = 0; i < 4; i++) atomicAdd(to + i, x[i]);
#endif
}

// C += A^T B for columns col0, col0 + 1, ... of A and columns b_col0, ... of B: a warp's part of dS K.
template <int Rows, int Cols, int Depth, int ACols, int BCols> TILE_FN void mma_AtB_part(
    reg_tile<Rows, Cols> &c, const smem_tile<Depth, ACols> &a, int a_col0, const smem_tile<Depth, BCols> &b, int b_col0)
{
    using namespace tile_machine;
    multiply<Depth>(
        c,
        [&](uint32_t(*f)[4], int k) {
            TILE_UNROLL
            for (int r = 0; r < Rows / 16; r++) load_16x16<across, true>(f[r], a.at, 16 * k, a_col0 + 16 * r);
        },
        [&](uint32_t *f, int k, int n) { load_16x16<down, true>(f, b.at, 16 * k, b_col0 + 16 * n); });
}

// A block owns BK keys of one key head, each of its warps ROWS of them. It walks over the query heads of the group,
// and in each over the queries from the diagonal on, BQ at a time. The tiles lie on their sides: rows are keys,
// columns are queries. Then dV and dK stay in registers, and P and dS are left factors of the products that feed them.
// Of dQ's part of a step, BQ x D, each warp computes QROWS x QCOLS.
template <int D, int ROWS, int BQ, int QROWS, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void backward_kernel(
    bf16 *dK,            // [B, Hkv, N, D]
    bf16 *dV,            // [B, Hkv, N, D]
    float4 *dQ_sum,      // [B, Hq, N up to 64, D] in fragments
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
    constexpr int ROW_PARTS = BQ / QROWS, QCOLS = D * ROW_PARTS / WARPS;
    static_assert(QCOLS % 16 == 0, "a warp's part of dQ is made of 16 x 16 blocks");
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<dkdv_tiles<BK, BQ, D> *>(shared);

    // who am I: early keys are seen by the most queries, so their blocks start first, those of all heads side by side
    const size_t kv_head = (size_t)blockIdx.y * kv_heads + blockIdx.x % kv_heads;  // counted over the whole batch
    const int block_key = blockIdx.x / kv_heads * BK, warp_key = warp_id() * ROWS, key = block_key + warp_key;
    const size_t kv_row = kv_head * N + block_key;  // the row of K, V, dK and dV where the block's first key stands
    const int first = block_key / BQ * BQ;          // queries before it see none of the block's keys
    const int per_head = (N - first - 1) / BQ + 1;  // query tiles of a head
    const int group = q_heads / kv_heads, steps = per_head * group;

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
    const size_t sum_head = (N + 63) / 64 * 64;  // rows of dQ_sum a head
    size_t sum_row = kv_head * group * sum_head;
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
    // Adds dS K of a step, whose queries stand in rows row, row + 1 ... of dQ_sum: this warp's part of it.
    const auto add_dQ = [&](int half, size_t row) {
        const int part_row = warp_id() % ROW_PARTS * QROWS, part_col = warp_id() / ROW_PARTS * QCOLS;
        reg_tile<QROWS, QCOLS> dQ_reg = {};
        mma_AtB_part(dQ_reg, tiles.dS_smem[half], part_row, tiles.K_smem, part_col);
        TILE_UNROLL
        for (int r = 0; r < QROWS / 16; r++) {
            TILE_UNROLL
            for (int c = 0; c < QCOLS / 8; c++)
                add(fragment<D>(dQ_sum, row + part_row + 16 * r, part_col + 8 * c), dQ_reg.x[r][c]);
        }
    };
    size_t sum_before = 0;  // of the step before
    for (int step = 0; step < steps; step++) {
        const int now = step % 2, next = 1 - now;
        int next_i0 = i0 + BQ;
        size_t next_row = q_row + BQ;
        size_t next_sum = sum_row;
        if (next_i0 >= N) {  // the head is done: on to the next of the group, to the same place
            next_row += N - per_head * BQ;
            next_i0 = first;
            next_sum += sum_head;
        }
        loads_arrived<0>();
        __syncthreads();  // this step's tiles are there for all warps, and no warp still reads those of the step before
        float statistic = 0;
        if (step + 1 < steps) {
            load_step(next, next_row, next_i0);
            statistic = read_statistic(next_row, next_i0);
        }

        if (step > 0) add_dQ(next, sum_before);
        col_vec<BQ> L_col, delta_col;
        load(L_col, tiles.L_smem[now], BQ, 0);
        load(delta_col, tiles.delta_smem[now], BQ, 0);
        reg_tile<ROWS, BQ> P = {}, dS = {};
        mma_ABt(P, K_reg, tiles.Q_smem[now]);  // S^T = K Q^T
        if (i0 < key + ROWS - 1)               // on the diagonal
            each(P, [&](float &s, element e) {
                if (key + e.row > i0 + e.col) s = -INFINITY;
            });
        each(P, [&](float &s, element e) { s = exp2_fast(s * scale2 - L_col[e]); });  // S^T becomes P^T
        mma_AB(dV_reg, P, tiles.dO_smem[now]);                                        // dV += P^T dO
        mma_ABt(dS, V_reg, tiles.dO_smem[now]);                                       // dP^T = V dO^T
        each(dS, [&](float &x, element e) { x = P[e] * (x - delta_col[e]); });
        store(tiles.dS_smem[now], warp_key, dS);
        mma_AB(dK_reg, dS, tiles.Q_smem[now]);  // dK += dS^T Q, times scale at the end

        if (step + 1 < steps) store_statistic(next, statistic);  // read after the next barrier
        sum_before = sum_row + i0;
        i0 = next_i0;
        q_row = next_row;
        sum_row = next_sum;
    }
    __syncthreads();  // the last step's dS of all warps is there
    add_dQ((steps - 1) % 2, sum_before);

    each(dK_reg, [&](float &x, element) { x *= scale; });
    store(dK + (kv_row + warp_key) * D, dK_reg, N - key);
    store(dV + (kv_row + warp_key) * D, dV_reg, N - key);
}

// ---------------------------------------------------------------------------------------------- dQ

// dQ = scale times its sum, a warp 16 rows.
template <int D> __global__ __launch_bounds__(128) void dq_kernel(
    bf16 *dQ,        // [B, Hq, N, D]
    float4 *dQ_sum,  // [B, Hq, N up to 64, D] in fragments
    int N, float scale)
{
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;  // counted over the whole batch
    const int row = blockIdx.x * 64 + warp_id() * 16;
    reg_tile<16, D> dQ_reg;
    TILE_UNROLL
    for (int c = 0; c < D / 8; c++) {
        const float4 x = *fragment<D>(dQ_sum, head * ((N + 63) / 64 * 64) + row, 8 * c);
        const float four[4] = {x.x, x.y, x.z, x.w};
        TILE_UNROLL
        for (int i = 0; i < 4; i++) dQ_reg.x[0][c][i] = four[i] * scale;
    }
    store(dQ + (head * N + row) * D, dQ_reg, N - row);
}

// ------------------------------------------------------------------------------------------ launch

// Bytes of device memory that flash_gqa_backward_in needs beyond inputs and outputs: the sum of dQ, N up to a multiple
// of 64.
extern "C" size_t flash_gqa_backward_workspace(const attention_shape *shape)
{
    if (wb_check_shape("flash_gqa_backward", shape) != WB_OK) return 0;
    return (size_t)shape->batch * shape->q_heads * ((shape->q_len + (size_t)63) / 64 * 64) * shape->head_dim *
           sizeof(float);
}

template <int D, int ROWS, int BQ, int QROWS, int WARPS, int BLOCKS> static wb_status launch(
    float4 *dQ_sum, size_t sum_bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
    const bf16 *V, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    constexpr int BK = ROWS * WARPS;
    const int B = shape->batch, Hq = shape->q_heads, Hkv = shape->kv_heads, N = shape->q_len;
    const size_t rows = (size_t)B * Hq * N;
    delta_kernel<D><<<(unsigned)((rows * D / 8 - 1) / 256 + 1), 256, 0, stream>>>(delta, O, dO, rows);
    WB_CUDA(cudaGetLastError());

    WB_CUDA(cudaMemsetAsync(dQ_sum, 0, sum_bytes, stream));
    const auto kernel = backward_kernel<D, ROWS, BQ, QROWS, WARPS, BLOCKS>;
    const size_t bytes = sizeof(dkdv_tiles<BK, BQ, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((N - 1) / BK + 1) * Hkv, B);
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(dK, dV, dQ_sum, Q, K, V, dO, L, delta, Hq, Hkv, N, shape->scale);
    WB_CUDA(cudaGetLastError());
    dq_kernel<D><<<dim3((N - 1) / 64 + 1, Hq, B), 128, 0, stream>>>(dQ, dQ_sum, N, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// flash_gqa_backward in memory of the caller's.
extern "C" wb_status flash_gqa_backward_in(
    void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_gqa_backward";
    wb_status status = wb_check_backward(name, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    const size_t needed = status == WB_OK ? flash_gqa_backward_workspace(shape) : 0;
    if (status == WB_OK) status = wb_check_workspace(name, memory, bytes, needed);
    if (status != WB_OK) return status;
    const int D = shape->head_dim;
    const bool room = fits<dkdv_tiles<64, 32, 128>>(), ample = fits<dkdv_tiles<128, 32, 128>>();
    auto run = launch<16, 16, 64, 16, 4, 4>;
    if (D == 32) run = room ? launch<32, 32, 64, 16, 4, 2> : launch<32, 16, 64, 16, 4, 1>;
    if (D == 64) run = room ? launch<64, 32, 32, 16, 4, 2> : launch<64, 16, 32, 16, 4, 1>;
    if (D == 128) run = room ? launch<128, 16, 32, 32, 4, 1> : launch<128, 16, 16, 16, 4, 1>;
    if (D == 128 && ample) run = launch<128, 16, 32, 32, 8, 1>;
    return run(static_cast<float4 *>(memory), needed, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}

wb_status flash_gqa_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const size_t bytes = flash_gqa_backward_workspace(shape);
    void *memory;
    WB_CUDA(cudaMallocAsync(&memory, bytes, stream));
    status = flash_gqa_backward_in(memory, bytes, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    WB_CUDA(cudaFreeAsync(memory, stream));
    return status;
}
