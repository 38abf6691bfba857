// packed_heads.cu - flash_sinks for short windows: a block processes few positions of many heads instead of many
// positions of one.
//
// The query heads of a group read the same K and V. So the block's 128 rows are 16 positions of 8 heads (or 32 of 4,
// 64 of 2): its window is W + 15 keys long, not W + 63, fewer scores are computed only to be masked, and a key that
// was loaded serves all heads of the group. The sinks have a small tile of their own, as in the key.
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"

constexpr int WARPS = 4, ROWS = 32, THREADS = 32 * WARPS, BR = ROWS * WARPS;
constexpr int SINKS = 16;  // keys in a tile of sinks

// What a block keeps in shared memory. Row r of Q is position r % POSITIONS of head r / POSITIONS. Of the STAGES tiles
// of the window one is read while the others are on their way.
template <int BC, int STAGES, int D> struct packed_tiles {
    smem_tile<BR, D> Q_smem;
    smem_tile<SINKS, D> K_sinks, V_sinks;
    smem_tile<BC, D> K_smem[STAGES], V_smem[STAGES];
};

// Rows row0 ... row0 + Rows - 1 of a tile as a tile.
template <int Rows, int TileRows, int Cols>
TILE_FN smem_tile<Rows, Cols> &part(smem_tile<TileRows, Cols> &tile, int row0)
{
    return reinterpret_cast<smem_tile<Rows, Cols> &>(tile.at[row0]);
}

// One step of the online softmax, as in flash_sinks.cu.
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
    bf16 *O,        // [B, Hq, N, D]
    float *L,       // [B, Hq, N]
    const bf16 *Q,  // [B, Hq, N, D]
    const bf16 *K,  // [B, Hkv, N, D]
    const bf16 *V,  // [B, Hkv, N, D]
    int q_heads, int kv_heads, int N, int W, int sinks, float scale)
{
    constexpr int POSITIONS = BR / HEADS;
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

    // what the block sees: sinks left of the window, and keys first ... last, in tiles that begin where the window
    // begins
    const int first = max(0, block_row - W + 1), last = min(block_row + POSITIONS, N) - 1, sink_end = min(sinks, first);
    const int count = (last - first) / BC + 1;

    // load: queries and sinks, then the first tiles of the window, a group of loads each
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
    if (sink_end > 0) {
        load_async<THREADS>(tiles.K_sinks, K, N);
        load_async<THREADS>(tiles.V_sinks, V, N);
    }
    loads_issued();
    for (int t = 0; t < STAGES - 1; t++) send_for(t);
    loads_arrived<STAGES - 1>();
    __syncthreads();  // queries and sinks are there for all
    operand<ROWS, D> Q_reg;
    load(Q_reg, tiles.Q_smem, warp_row);

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);
    // phase 1: the sinks
    for (int key = 0; key < sink_end; key += SINKS) {
        if (key > 0) {        // more sinks than their tile holds: rare, so nothing overlaps
            __syncthreads();  // no warp reads the ones before any more
            load_async<THREADS>(tiles.K_sinks, K + (size_t)key * D, N - key);
            load_async<THREADS>(tiles.V_sinks, V + (size_t)key * D, N - key);
            loads_issued();
            loads_arrived<0>();
            __syncthreads();  // these are there for all
        }
        attend(O_reg, m, l, Q_reg, tiles.K_sinks, tiles.V_sinks, scale2, [&](reg_tile<ROWS, SINKS> &S) {
            each(S, [&](float &s, element e) {
                if (key + e.col >= sink_end) s = -INFINITY;
            });
        });
    }
    // phases 2 and 3: the window and the diagonal
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
                        if (j > i || (j <= i - W && j >= sinks)) s = -INFINITY;
                    });
            });
    }

    // finalize
    l = row_sum_whole(l);
    divide_rows(O_reg, l);
    const row_vec<ROWS> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e

    // store: 16 rows at a time, which are of one head
    TILE_UNROLL
    for (int r = 0; r < ROWS / 16; r++) {
        const int packed_row = warp_row + 16 * r, i = block_row + packed_row % POSITIONS;
        const size_t at = (head + packed_row / POSITIONS) * N + i;
        store(O + at * D, reinterpret_cast<const reg_tile<16, D> &>(O_reg.x[r]), N - i);
        store(L + at, reinterpret_cast<const row_vec<16> &>(L_row.x[2 * r]), N - i);
    }
}

template <int D, int HEADS, int BC, int STAGES, int BLOCKS> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const auto kernel = packed_kernel<D, HEADS, BC, STAGES, BLOCKS>;
    const size_t bytes = sizeof(packed_tiles<BC, STAGES, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((shape->q_len - 1) / (BR / HEADS) + 1) * (shape->q_heads / HEADS), shape->batch);
    kernel<<<grid, THREADS, bytes, stream>>>(
        O, L, Q, K, V, shape->q_heads, shape->kv_heads, shape->q_len, shape->window, shape->sinks, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// The largest pack that divides the group.
template <int D, int BC, int STAGES, int BLOCKS> static wb_status
choose(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const int group = shape->q_heads / shape->kv_heads;
    if (group % 8 == 0) return launch<D, 8, BC, STAGES, BLOCKS>(O, L, Q, K, V, shape, stream);
    if (group % 4 == 0) return launch<D, 4, BC, STAGES, BLOCKS>(O, L, Q, K, V, shape, stream);
    if (group % 2 == 0) return launch<D, 2, BC, STAGES, BLOCKS>(O, L, Q, K, V, shape, stream);
    return launch<D, 1, BC, STAGES, BLOCKS>(O, L, Q, K, V, shape, stream);
}

wb_status flash_sinks(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const bool room = fits<packed_tiles<32, 3, 128>>();
    switch (shape->head_dim) {
    case 16: return choose<16, 48, 3, 4>(O, L, Q, K, V, shape, stream);
    case 32: return choose<32, 48, 3, 3>(O, L, Q, K, V, shape, stream);
    case 64: return choose<64, 48, 3, 3>(O, L, Q, K, V, shape, stream);
    default:
        return room ? choose<128, 32, 3, 2>(O, L, Q, K, V, shape, stream)
                    : choose<128, 16, 2, 1>(O, L, Q, K, V, shape, stream);
    }
}

double flash_sinks_microseconds(const attention_shape *shape, const wb_device *device)
{
    const int D = shape->head_dim, heads = wb_pack_of(shape, 8);
    wb_walks w = wb_over_keys(shape, BR / heads, D == 128 ? 32 : 48, D == 16 ? 4 : D == 128 ? 2 : 3);
    w.blocks /= heads;
    return wb_forward(shape, device, w);
}
