// flash_block_mask.cu - attention under a mask that is data, with grouped-query heads: for each tile of queries a list
// of the tiles of keys that it sees whole, and one of those that it sees in part, with a bit for each pair. No other
// tile is loaded.
#include "workbook.h"
#include "tile.cuh"

enum { KV_TILE = 64 };  // keys of a tile of the mask; a kernel takes BC of them at a time

// What a block keeps in shared memory.
template <int BR, int BC, int D> struct forward_tiles {
    smem_tile<BR, D> Q_smem;
    smem_tile<BC, D> K_smem[2], V_smem[2];           // one of the two is read while the other is filled
    alignas(16) uint32_t bits_smem[2][BR][BC / 32];  // where a tile is seen in part: of each row, a bit a key
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
    bf16 *O,          // [B, Hq, Nq, D]
    float *L,         // [B, Hq, Nq]
    const bf16 *Q,    // [B, Hq, Nq, D]
    const bf16 *K,    // [B, Hkv, Nk, D]
    const bf16 *V,    // [B, Hkv, Nk, D]
    block_mask mask,  // its arrays: see workbook.h
    int q_heads, int kv_heads, int Nq, int Nk, float scale)
{
    constexpr int BR = ROWS * WARPS, THREADS = 32 * WARPS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<forward_tiles<BR, BC, D> *>(shared);

    // who am I: late rows often see the most keys, so their blocks start first, those of all heads side by side
    const int q_head = blockIdx.x % q_heads, tile = (Nq - 1) / BR - blockIdx.x / q_heads;
    const int block_row = tile * BR, warp_row = warp_id() * ROWS, row = block_row + warp_row;
    const size_t head = (size_t)blockIdx.y * q_heads + q_head;  // counted over the whole batch
    Q += (head * Nq + block_row) * D;                           // the block's first query
    const int kv_head = q_head / (q_heads / kv_heads);
    K += ((size_t)blockIdx.y * kv_heads + kv_head) * Nk * D;  // that head's first key
    V += ((size_t)blockIdx.y * kv_heads + kv_head) * Nk * D;

    // what the block sees: two lists of tiles. A step takes BC keys, a tile STEPS of them. The first steps are of the
    // tiles seen whole.
    constexpr int STEPS = KV_TILE / BC, WORDS = KV_TILE / 32;
    //{ lists
    // TODO(15) lists: the two lists of the block's tile of queries, in the mask of its sequence, and how many steps
    // they take. `parts` is where the list of tiles seen in part begins.  (about 5 lines)
    const int *whole = mask.whole, *part = mask.part, parts = 0, whole_steps = 0, end = 0;
    //}
    const uint32_t *bits = mask.bits + ((size_t)parts * mask.q_tile + block_row % mask.q_tile) * WORDS;  // block_row's
    const auto first_key = [&](int step) {
        if (step >= end) return 0;  // there is none
        //{ first key
        // TODO(15) first key: where the keys of this step begin.  (about 2 lines)
        (void)whole, (void)part;
        return 0;
        //}
    };

    // Sends for the keys of a step, from `key` on, and for the bits of their pairs: a row for each thread.
    const auto send = [&](int step, int page, int key) {
        load_async<THREADS>(tiles.K_smem[page], K + (size_t)key * D, Nk - key);
        load_async<THREADS>(tiles.V_smem[page], V + (size_t)key * D, Nk - key);
        const int n = step - whole_steps;
        if (n >= 0 && threadIdx.x < BR) {
            //{ load bits
            // TODO(15) load bits: issue the load of this thread's row of BC bits.  (about 2 lines)
            (void)bits, (void)STEPS;
            //}
        }
        loads_issued();
    };

    // load: the block's queries and the keys of the first step. Where the next begin is looked up a step ahead: no
    // copy waits for that.
    load_async<THREADS>(tiles.Q_smem, Q, Nq - block_row);
    if (end > 0) send(0, 0, first_key(0));
    int next_key = first_key(1);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // every thread's part of Q has arrived
    operand<ROWS, D> Q_reg;
    load(Q_reg, tiles.Q_smem, warp_row);

    // Turns to the keys whose loads are on their way, and sends for those of step `next` meanwhile, if there is one.
    int now = 1;
    const auto turn_page = [&](int next) {
        now = 1 - now;
        loads_arrived<0>();
        __syncthreads();  // the keys are there for all warps, and no warp reads those before any more
        if (next < end) send(next, 1 - now, next_key);
        next_key = first_key(next + 1);
    };

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
    // phase 1: tiles seen whole. No mask.
    for (int step = 0; step < whole_steps; step++) {
        turn_page(step + 1);
        attend(O_reg, m, l, Q_reg, tiles.K_smem[now], tiles.V_smem[now], scale2, [](reg_tile<ROWS, BC> &) {});
    }
    // phase 2: tiles seen in part. Their bits hide keys that do not exist, too.
    for (int step = whole_steps; step < end; step++) {
        turn_page(step + 1);
        // a lane's columns are 8 c + 2 t and 8 c + 2 t + 1: it takes the words of its rows, shifted right by 2 t
        uint32_t seen[ROWS / 8][BC / 32], any = 0;
        TILE_UNROLL
        for (int k = 0; k < ROWS / 8 * (BC / 32); k++) {
            const uint32_t word = tiles.bits_smem[now][warp_row + k % (ROWS / 8) * 8 + lane_id() / 4][k / (ROWS / 8)];
            seen[k % (ROWS / 8)][k / (ROWS / 8)] = word >> lane_id() % 4 * 2;
            any |= word;
        }
        if (!__any_sync(0xffffffffu, any)) continue;  // other warps' rows do: this one sees no key here
        attend(O_reg, m, l, Q_reg, tiles.K_smem[now], tiles.V_smem[now], scale2, [&](reg_tile<ROWS, BC> &S) {
            each(S, [&](float &s, element e) {  // of its column, 8 c + 2 t + i, an element knows col_slot = 2 c + i
                //{ mask
                // TODO(15) mask: hide the score if its bit is 0.  (about 2 lines)
                (void)seen, (void)s, (void)e;
                //}
            });
        });
    }

    // finalize: a row that sees no key has l = 0
    //{ empty rows
    // TODO(15) empty rows: l over the lanes, O and L, as in problem 03, and for a row that sees no key O = 0 and L =
    // -infinity.  (about 3 lines)
    row_vec<ROWS> L_row = {};
    //}

    // store
    store(O + (head * Nq + row) * D, O_reg, Nq - row);
    store(L + head * Nq + row, L_row, Nq - row);
}

template <int D, int ROWS, int BC, int BLOCKS> static wb_status launch(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
    const attention_shape *shape, wb_stream stream)
{
    constexpr int WARPS = 4, BR = ROWS * WARPS;
    const auto kernel = forward_kernel<D, ROWS, BC, WARPS, BLOCKS>;
    const size_t bytes = sizeof(forward_tiles<BR, BC, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((shape->q_len - 1) / BR + 1) * shape->q_heads, shape->batch);
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(
        O, L, Q, K, V, *mask, shape->q_heads, shape->kv_heads, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_block_mask(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
    const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_block_mask("flash_block_mask", O, L, Q, K, V, mask, shape);
    if (status != WB_OK) return status;
    const bool room = fits<forward_tiles<128, 64, 128>>();
    const bool small = mask->q_tile == 64;  // a larger tile of queries has two blocks
    auto go = small ? launch<16, 16, 64, 5> : launch<16, 32, 64, 4>;
    if (shape->head_dim == 32) go = small ? launch<32, 16, 32, 6> : launch<32, 32, 64, 3>;
    if (shape->head_dim == 64) go = small ? launch<64, 16, 32, 5> : launch<64, 32, 64, 2>;
    if (shape->head_dim == 128) go = small || !room ? launch<128, 16, 32, 3> : launch<128, 32, 64, 2>;
    return go(O, L, Q, K, V, mask, shape, stream);
}
