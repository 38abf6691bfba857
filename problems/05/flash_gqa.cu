// flash_gqa.cu - causal attention with grouped-query heads: Hq / Hkv consecutive query heads share one key head. A
// block reads its key head in place; nothing is copied.
#include "workbook.h"
#include "tile.cuh"

// What a block keeps in shared memory.
template <int BR, int BC, int D> struct forward_tiles {
    smem_tile<BR, D> Q_smem;
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

// A block owns BR query rows of one head, each of its warps ROWS of them. The block walks over the keys, BC at a time.
template <int D, int ROWS, int BC, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void forward_kernel(
    bf16 *O,        // [B, Hq, N, D]
    float *L,       // [B, Hq, N]
    const bf16 *Q,  // [B, Hq, N, D]
    const bf16 *K,  // [B, Hkv, N, D]
    const bf16 *V,  // [B, Hkv, N, D]
    int q_heads, int kv_heads, int N, float scale)
{
    constexpr int BR = ROWS * WARPS, THREADS = 32 * WARPS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<forward_tiles<BR, BC, D> *>(shared);

    // who am I: late rows see the most keys, so their blocks start first, those of all heads side by side
    const int q_head = blockIdx.x % q_heads, tile = (N - 1) / BR - blockIdx.x / q_heads;
    const int block_row = tile * BR, warp_row = warp_id() * ROWS, row = block_row + warp_row;
    const size_t head = (size_t)blockIdx.y * q_heads + q_head;  // counted over the whole batch
    Q += (head * N + block_row) * D;                            // the block's first query
    //{ head mapping
    // TODO(05) head mapping: which of the kv_heads heads of K and V does query head q_head read?  (about 1 line)
    const int kv_head = 0;
    if (kv_heads > 0) return;  // remove this line: head 0 would be right for some query heads
    //}
    K += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;  // that head's first key
    V += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;

    // what the block sees: tiles 0 ... full - 1, left of the diagonal, and full ... end - 1, on it
    const int full = (block_row + 1) / BC;                  // the block's first row sees keys 0 ... block_row
    const int end = (min(block_row + BR, N) - 1) / BC + 1;  // its last row sees itself, and no row sees more

    // load: the block's queries and the first tile of keys
    load_async<THREADS>(tiles.Q_smem, Q, N - block_row);
    load_async<THREADS>(tiles.K_smem[0], K, N);
    load_async<THREADS>(tiles.V_smem[0], V, N);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // every thread's part of Q has arrived
    operand<ROWS, D> Q_reg;
    load(Q_reg, tiles.Q_smem, warp_row);

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

template <int D, int ROWS, int BC, int BLOCKS> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    constexpr int WARPS = 4, BR = ROWS * WARPS;
    const auto kernel = forward_kernel<D, ROWS, BC, WARPS, BLOCKS>;
    const size_t bytes = sizeof(forward_tiles<BR, BC, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((shape->q_len - 1) / BR + 1) * shape->q_heads, shape->batch);
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(
        O, L, Q, K, V, shape->q_heads, shape->kv_heads, shape->q_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_gqa(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const bool room = fits<forward_tiles<128, 48, 128>>();
    auto go = launch<16, 32, 64, 4>;
    if (shape->head_dim == 32) go = launch<32, 32, 64, 3>;
    if (shape->head_dim == 64) go = launch<64, 32, 64, 2>;
    if (shape->head_dim == 128) go = room ? launch<128, 32, 48, 2> : launch<128, 16, 32, 2>;
    return go(O, L, Q, K, V, shape, stream);
}
