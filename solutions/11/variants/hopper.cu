// hopper.cu - flash_sink_logits by two kernels, since the sink can join any.
//
// D 64 and 128 on a GPU of sm_90: 07's hopper_any_window.cu, the copies and products of problem 10, which run on their own. All else: a block takes
// few positions of many heads instead of many positions of one, as 07's packed_heads.cu does, whose comments say why.
#include "workbook.h"
#include "tile.cuh"
#include "hopper.cuh"

#define SINK_LOGITS
#include "../../07/variants/hopper_any_window.cu"

// -------------------------------------------------------------------------------------------------------- heads side by side

constexpr int WARPS = 4, ROWS = 32, THREADS = 32 * WARPS, BLOCK_ROWS = ROWS * WARPS;

// What a block keeps in shared memory. Row r of Q is position r % POSITIONS of head r / POSITIONS. Of the STAGES tiles of the window
// one is read while the others are on their way.
template <int BC, int STAGES, int D> struct packed_tiles {
    smem_tile<BLOCK_ROWS, D> Q_smem;
    smem_tile<BC, D> K_smem[STAGES], V_smem[STAGES];
};

// Rows row0 ... row0 + Rows - 1 of a tile as a tile.
template <int Rows, int TileRows, int Cols>
TILE_FN smem_tile<Rows, Cols> &part(smem_tile<TileRows, Cols> &tile, int row0)
{
    return reinterpret_cast<smem_tile<Rows, Cols> &>(tile.at[row0]);
}

// One step of the online softmax, as in the key.
template <int BC, int D, class Mask> TILE_FN void attend(
    reg_tile<ROWS, D> &O_reg, row_vec<ROWS> &m, row_vec<ROWS> &l, const operand<ROWS, D> &Q_reg,
    const smem_tile<BC, D> &K_smem, const smem_tile<BC, D> &V_smem, float scale2, Mask mask)
{
    reg_tile<ROWS, BC> S = {};
    mma_ABt(S, Q_reg, K_smem);  // S = Q K^T
    mask(S);
    const row_vec<ROWS> S_max = row_max_part(S) * scale2;
    if (any_above(S_max, m + 8.0f)) {
        const row_vec<ROWS> m_new = max(m, row_max_whole(S_max)), alpha = exp2(m - m_new);
        m = m_new;
        l = l * alpha;
        scale_rows(O_reg, alpha);
    }
    each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });  // S becomes P
    l = l + row_sum_part(S);
    mma_AB(O_reg, S, V_smem);  // O += P V
}

// A block owns POSITIONS query rows of HEADS heads that share K and V, each of its warps ROWS rows of the packed tile.
template <int D, int HEADS, int BC, int STAGES, int BLOCKS>
__global__ __launch_bounds__(THREADS, BLOCKS) void packed_kernel(
    bf16 *O,                   // [B, Hq, N, D]
    float *L,                  // [B, Hq, N]
    const bf16 *Q,             // [B, Hq, N, D]
    const bf16 *K,             // [B, Hkv, N, D]
    const bf16 *V,             // [B, Hkv, N, D]
    const float *sink_logits,  // [Hq]
    int q_heads, int kv_heads, int N, int W, float scale)
{
    constexpr int POSITIONS = BLOCK_ROWS / HEADS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<packed_tiles<BC, STAGES, D> *>(shared);

    // who am I
    const int packs = q_heads / HEADS, q_head = blockIdx.x % packs * HEADS, kv_head = q_head / (q_heads / kv_heads);
    const int block_row = ((N - 1) / POSITIONS - blockIdx.x / packs) * POSITIONS;  // position of the block's first rows
    const int warp_row = warp_id() * ROWS;                                         // in the packed tile
    const int row = block_row + warp_row % POSITIONS;                              // position of the warp's first row
    const size_t head = (size_t)blockIdx.y * q_heads + q_head;                     // the first of HEADS
    K += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;
    V += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;

    // what the block sees: keys first ... last, in tiles that begin where the window begins
    const int first = max(0, block_row - W + 1), last = min(block_row + POSITIONS, N) - 1;
    const int count = (last - first) / BC + 1;

    // load: queries, then the first tiles of the window, a group of loads each
    const auto send_for = [&](int t) {
        if (t < count) {
            const int key = first + t * BC;
            load_async<THREADS>(tiles.K_smem[t % STAGES], K + (size_t)key * D, N - key);
            load_async<THREADS>(tiles.V_smem[t % STAGES], V + (size_t)key * D, N - key);
        }
        loads_issued();
    };
    for (int h = 0; h < HEADS; h++)
        load_async<THREADS>(
            part<POSITIONS>(tiles.Q_smem, h * POSITIONS), Q + ((head + h) * N + block_row) * D, N - block_row);
    loads_issued();
    for (int t = 0; t < STAGES - 1; t++) send_for(t);
    loads_arrived<STAGES - 1>();
    __syncthreads();  // the queries are there for all
    operand<ROWS, D> Q_reg;
    load(Q_reg, tiles.Q_smem, warp_row);

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);
    // the window and the diagonal
    for (int t = 0; t < count; t++) {
        loads_arrived<STAGES - 2>();
        __syncthreads();  // tile t is there for all warps, and no warp reads tile t - 1 any more
        send_for(t + STAGES - 1);
        attend(
            O_reg, m, l, Q_reg, tiles.K_smem[t % STAGES], tiles.V_smem[t % STAGES], scale2, [&](reg_tile<ROWS, BC> &S) {
                const int key = first + t * BC, last_row = row + min(ROWS, POSITIONS) - 1;
                if (key + BC - 1 > row || key <= last_row - W)
                    each(S, [&](float &s, element e) {
                        const int i = row + e.row % POSITIONS, j = key + e.col;
                        if (j > i || j <= i - W) s = -INFINITY;
                    });
            });
    }

    // finalize
    l = row_sum_whole(l);
    row_vec<ROWS> L_row = (m + log2(l)) * 0.69314718f, sink;  // ln(2): base e
    TILE_UNROLL
    for (int r = 0; r < ROWS / 8; r++) sink.x[r] = sink_logits[q_head + (warp_row + 8 * r) / POSITIONS];
    join(l, L_row, sink);
    divide_rows(O_reg, l);

    // store: 16 rows at a time, which are of one head
    TILE_UNROLL
    for (int r = 0; r < ROWS / 16; r++) {
        const int packed_row = warp_row + 16 * r, i = block_row + packed_row % POSITIONS;
        const size_t at = (head + packed_row / POSITIONS) * N + i;
        store(O + at * D, reinterpret_cast<const reg_tile<16, D> &>(O_reg.x[r]), N - i);
        store(L + at, reinterpret_cast<const row_vec<16> &>(L_row.x[2 * r]), N - i);
    }
}

template <int D, int HEADS, int BC, int STAGES, int BLOCKS> static wb_status launch_packed(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const auto kernel = packed_kernel<D, HEADS, BC, STAGES, BLOCKS>;
    const size_t bytes = sizeof(packed_tiles<BC, STAGES, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((shape->q_len - 1) / (BLOCK_ROWS / HEADS) + 1) * (shape->q_heads / HEADS), shape->batch);
    kernel<<<grid, THREADS, bytes, stream>>>(
        O, L, Q, K, V, sink_logits, shape->q_heads, shape->kv_heads, shape->q_len, shape->window, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// The largest pack that divides the group.
template <int D, int BC, int STAGES, int BLOCKS> static wb_status packed(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const int group = shape->q_heads / shape->kv_heads;
    if (group % 8 == 0) return launch_packed<D, 8, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
    if (group % 4 == 0) return launch_packed<D, 4, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
    if (group % 2 == 0) return launch_packed<D, 2, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
    return launch_packed<D, 1, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
}

wb_status flash_sink_logits(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_sink_forward("flash_sink_logits", O, L, Q, K, V, sink_logits, shape);
    if (status != WB_OK) return status;
    if (walks_here("flash_sink_logits", shape)) return walk_on_hopper(O, L, Q, K, V, sink_logits, shape, stream);
    const bool room = fits<packed_tiles<32, 3, 128>>();
    switch (shape->head_dim) {
    case 16: return packed<16, 48, 3, 4>(O, L, Q, K, V, sink_logits, shape, stream);
    case 32: return packed<32, 48, 3, 3>(O, L, Q, K, V, sink_logits, shape, stream);
    case 64: return packed<64, 48, 3, 3>(O, L, Q, K, V, sink_logits, shape, stream);
    default:
        return room ? packed<128, 32, 3, 2>(O, L, Q, K, V, sink_logits, shape, stream)
                    : packed<128, 16, 2, 1>(O, L, Q, K, V, sink_logits, shape, stream);
    }
}
