// shared_tile.cu - flash_gqa that shares tiles inside a block: a block serves HEADS query heads of a group, and the
// warps of all these heads read the same tile of K and V. Each tile is loaded once for HEADS heads; the reference
// solution leaves that to the L2 cache.
// Random shapes that it is chosen for: 3 of 319 forward passes (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"

// What a block keeps in shared memory.
template <int HEADS, int BR, int BC, int D> struct forward_tiles {
    smem_tile<BR, D> Q_smem[HEADS];
    smem_tile<BC, D> K_smem[2], V_smem[2];  // one of the two is read while the other is filled
};

// One step of the online softmax, as in 03: a warp's rows see one more tile of keys, but for the scores that mask(S)
// hides.
template <int ROWS, int BC, int D, class Mask> TILE_FN void attend(
    reg_tile<ROWS, D> &O_reg, row_vec<ROWS> &m, row_vec<ROWS> &l, const operand<ROWS, D> &Q_reg,
    const smem_tile<BC, D> &K_smem, const smem_tile<BC, D> &V_smem, float scale2, Mask mask)
{
    reg_tile<ROWS, BC> S = {};
    mma_ABt(S, Q_reg, K_smem);  // S = Q K^T
    mask(S);
    // max: m stays until a score exceeds it by 8
    const row_vec<ROWS> S_max = row_max_part(S) * scale2;
    const bool outgrown = any_above(S_max, m + 8.0f);
    // rescale
    if (outgrown) {
        const row_vec<ROWS> m_new = max(m, row_max_whole(S_max)), alpha = exp2(m - m_new);
        m = m_new;
        l = l * alpha;
        scale_rows(O_reg, alpha);
    }
    // accumulate
    each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });  // S becomes P
    l = l + row_sum_part(S);
    mma_AB(O_reg, S, V_smem);  // O += P V
}

// A block owns BR query rows of HEADS heads, each of its warps ROWS of one. The block walks over the keys, BC at a
// time.
template <int D, int HEADS, int ROWS, int BC, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void forward_kernel(
    bf16 *O,        // [B, Hq, N, D]
    float *L,       // [B, Hq, N]
    const bf16 *Q,  // [B, Hq, N, D]
    const bf16 *K,  // [B, Hkv, N, D]
    const bf16 *V,  // [B, Hkv, N, D]
    int q_heads, int kv_heads, int N, float scale)
{
    constexpr int BR = ROWS * WARPS / HEADS, THREADS = 32 * WARPS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<forward_tiles<HEADS, BR, BC, D> *>(shared);

    // who am I: late rows see the most keys, so their blocks start first, those of all heads side by side
    const int packs = q_heads / HEADS, tile = (N - 1) / BR - blockIdx.x / packs;
    const int first_head = blockIdx.x % packs * HEADS, my_head = warp_id() % HEADS, q_head = first_head + my_head;
    const int block_row = tile * BR, warp_row = warp_id() / HEADS * ROWS, row = block_row + warp_row;
    const size_t head = (size_t)blockIdx.y * q_heads + q_head;  // counted over the whole batch
    Q += ((head - my_head) * N + block_row) * D;                // the first query of the block's first head
    const int kv_head = q_head / (q_heads / kv_heads);          // the same for all warps
    K += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;     // that head's first key
    V += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;

    // what the block sees: tiles 0 ... full - 1, left of the diagonal, and full ... end - 1, on it
    const int full = (block_row + 1) / BC;                  // the block's first row sees keys 0 ... block_row
    const int end = (min(block_row + BR, N) - 1) / BC + 1;  // its last row sees itself, and no row sees more

    // load: the block's queries and the first tile of keys
    for (int h = 0; h < HEADS; h++) load_async<THREADS>(tiles.Q_smem[h], Q + (size_t)h * N * D, N - block_row);
    load_async<THREADS>(tiles.K_smem[0], K, N);
    load_async<THREADS>(tiles.V_smem[0], V, N);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // every thread's part of Q has arrived
    operand<ROWS, D> Q_reg;
    load(Q_reg, tiles.Q_smem[my_head], warp_row);

    // Turns to the tile whose loads are on their way, and sends for tile `next` meanwhile, if the block sees it.
    int now = 1;
    const auto turn_page = [&](int next) {
        now = 1 - now;
        loads_arrived<0>();
        __syncthreads();  // the tile is there for all warps, and no warp reads the one before any more
        if (next < end) {
            load_async<THREADS>(tiles.K_smem[1 - now], K + (size_t)next * BC * D, N - next * BC);
            load_async<THREADS>(tiles.V_smem[1 - now], V + (size_t)next * BC * D, N - next * BC);
            loads_issued();
        }
    };

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
    // phase 1: left of the diagonal. No mask.
    for (int t = 0; t < full; t++) {
        turn_page(t + 1);
        attend(O_reg, m, l, Q_reg, tiles.K_smem[now], tiles.V_smem[now], scale2, [](reg_tile<ROWS, BC> &) {});
    }
    // phase 2: on the diagonal. The mask hides keys that do not exist, too: they come after every query.
    for (int t = full; t < end; t++) {
        turn_page(t + 1);
        if (t * BC >= row + ROWS) continue;  // on the diagonal of other warps: this one sees no key here
        attend(O_reg, m, l, Q_reg, tiles.K_smem[now], tiles.V_smem[now], scale2, [&](reg_tile<ROWS, BC> &S) {
            each(S, [&](float &s, element e) {
                const int i = row + e.row, j = t * BC + e.col;
                if (j > i) s = -INFINITY;
            });
        });
    }

    // finalize
    l = row_sum_whole(l);
    divide_rows(O_reg, l);
    const row_vec<ROWS> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e

    // store
    store(O + (head * N + row) * D, O_reg, N - row);
    store(L + head * N + row, L_row, N - row);
}

template <int D, int HEADS, int ROWS, int BC, int BLOCKS> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    constexpr int WARPS = 4, BR = ROWS * WARPS / HEADS;
    const auto kernel = forward_kernel<D, HEADS, ROWS, BC, WARPS, BLOCKS>;
    const size_t bytes = sizeof(forward_tiles<HEADS, BR, BC, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((shape->q_len - 1) / BR + 1) * (shape->q_heads / HEADS), shape->batch);
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(
        O, L, Q, K, V, shape->q_heads, shape->kv_heads, shape->q_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// The largest pack that divides the group.
template <int D, int ROWS, int BC, int BLOCKS> static wb_status
choose(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const int group = shape->q_heads / shape->kv_heads;
    if (group % 4 == 0) return launch<D, 4, ROWS, BC, BLOCKS>(O, L, Q, K, V, shape, stream);
    if (group % 2 == 0) return launch<D, 2, ROWS, BC, BLOCKS>(O, L, Q, K, V, shape, stream);
    return launch<D, 1, ROWS, BC, BLOCKS>(O, L, Q, K, V, shape, stream);
}

wb_status flash_gqa(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const bool room = fits<forward_tiles<1, 128, 48, 128>>();
    auto go = choose<16, 32, 64, 4>;
    if (shape->head_dim == 32) go = choose<32, 32, 64, 3>;
    if (shape->head_dim == 64) go = choose<64, 32, 64, 2>;
    if (shape->head_dim == 128) go = room ? choose<128, 32, 48, 2> : choose<128, 16, 32, 2>;
    return go(O, L, Q, K, V, shape, stream);
}

double flash_gqa_microseconds(const attention_shape *shape, const wb_device *device)
{
    const int D = shape->head_dim, heads = wb_pack_of(shape, 4), at_once = D == 16 ? 4 : D == 32 ? 3 : 2;
    wb_walks w = wb_over_keys(shape, 128 / heads, D == 128 ? 48 : 64, at_once);
    w.blocks /= heads;
    return wb_forward(shape, device, w);
}
