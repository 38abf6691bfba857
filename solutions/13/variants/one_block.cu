// one_block.cu - flash_decode for short caches: one block iterates over all keys of a sequence and writes O, or a
// cluster of up to eight, which send each other what they have seen. So one launch suffices. A block needs only its own
// length before it looks up a page. Sequences that may have more keys use the reference solution.
// Random shapes that it is chosen for: 310 of 866 decoding steps (`make duel`, seed 771201, 2026-12-01).
#include "workbook.h"
#include "predict.h"
#include "paged.cuh"

#include <limits.h>

#define flash_decode           in_shares
#define flash_decode_workspace workspace_in_shares
#include "../flash_decode.cu"
#undef flash_decode
#undef flash_decode_workspace

template <int ROWS, int D> using queries_room = smem_tile<ROWS, D>;
#include "one_block.cuh"

template <int ROWS, int D, int WARPS, int STAGES> __global__ __launch_bounds__(32 * WARPS) void one_block_kernel(
    bf16 *O,                // [B, Hq, Nq, D]
    float *L,               // [B, Hq, Nq]
    const bf16 *Q,          // [B, Hq, Nq, D]
    const bf16 *K,          // [pages, page_size, Hkv, D]
    const bf16 *V,          // likewise
    const int *page_table,  // [B, max_pages]
    const int *kv_len,      // [B]
    decode_shape shape)
{
    constexpr int THREADS = 32 * WARPS, KEYS = keys_of<D>, BC = KEYS * WARPS, AHEAD = STAGES - 1;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<block_tiles<ROWS, D, WARPS, STAGES> *>(shared);

    // who am I: a tile of rows of one head of sequence b. Its queries arrive while its length does, and the page.
    const member<ROWS> me(shape, blockIdx.z, gridDim.z, blockIdx.x);
    const tile_row<BC> all(kv_len, shape);
    const int b = me.team, keys = all.keys_of(b);
    const size_t row = me.row(b);
    load_async<THREADS>(tiles.Q_smem, Q + row * D, me.rows);
    loads_issued();
    const int blocks = gridDim.y, rank = blockIdx.y;  // of the cluster, which takes tiles by turns
    const int count = (all.tiles_of(keys) - 1 - rank + blocks) / blocks, my_key = warp_id() * KEYS;
    const int sent_key = my_key + lane_id() / (512 / KEYS) * 16;  // these lanes send for 16 keys, which lie in one page
    auto &room = tiles.warps[warp_id()];

    const pages_of_tiles<KEYS, BC> pages(__ffs(shape.page_size) - 1, page_table, b, keys, shape);
    const unsigned heads = shape.kv_heads;
    const auto send = [&](int n) {
        const int key = (n * blocks + rank) * BC + sent_key;
        if (n < count) {
            const size_t key_row = (pages.before(n) + pages.in_page(key)) * heads + me.head;
            load_rows_async(room.keys[n % STAGES].K, K + key_row * D, heads * D, keys - key);
            load_rows_async(room.keys[n % STAGES].V, V + key_row * D, heads * D, keys - key);
        }
        loads_issued();
    };
    TILE_ROLLED
    for (int n = 0; n < AHEAD; n++) send(n);

    const float scale2 = shape.scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    operand<ROWS, D> Q_reg;
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);
    loads_arrived<AHEAD>();
    __syncthreads();  // every thread's part of Q has arrived
    load(Q_reg, tiles.Q_smem, 0);
    for (int n = 0; n < count; n++) {
        loads_arrived<AHEAD - 1>();
        __syncwarp();  // the tile is there for the whole warp, which does not read the one before any more
        send(n + AHEAD);
        const int key = (n * blocks + rank) * BC + my_key;
        const auto mask = [&](auto &S) {
            if (key + KEYS <= keys - shape.q_len + 1) return;  // all tokens see all of these
            each(S, [&](float &s, element e) {
                const int i = (me.first_row + e.row) % shape.q_len;
                if (key + e.col > keys - shape.q_len + i) s = -INFINITY;
            });
        };
        attend(O_reg, m, l, Q_reg, room.keys[n % STAGES], scale2, mask);
    }
    l = row_sum_whole(l);
    float sum[ROWS / 16][(D / 8 + WARPS - 1) / WARPS][4] = {};  // of the blocks of eight columns that are this warp's
    merge_and_put(sum, m, l, O_reg, tiles, me.rows, 1, [&](int r, int c, const float *pair, float by) {
        *reinterpret_cast<__nv_bfloat162 *>(O + (row + r) * D + 8 * c + lane_id() % 4 * 2) =
            __floats2bfloat162_rn(pair[0] * by, pair[1] * by);
    });
    if (warp_id() == 0 && rank == 0) store(L + row, (m + log2(l)) * 0.69314718f, me.rows);  // ln(2): base e
}

size_t flash_decode_workspace(const decode_shape *shape) { return workspace_in_shares(shape); }

wb_status flash_decode(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table, const int *kv_len,
    void *workspace, size_t workspace_bytes, const decode_shape *shape, wb_stream stream)
{
    const size_t needed = flash_decode_workspace(shape);
    const wb_status status =
        wb_check_decode("flash_decode", O, L, Q, K, V, page_table, kv_len, workspace, workspace_bytes, needed, shape);
    if (status != WB_OK) return status;
    wb_status launched = WB_OK;
    const auto launch = [&](auto s, dim3 grid) {
        const auto kernel = one_block_kernel<s.ROWS, s.D, s.WARPS, s.STAGES>;
        constexpr size_t BYTES = sizeof(block_tiles<s.ROWS, s.D, s.WARPS, s.STAGES>);
        if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)BYTES) != cudaSuccess)
            return false;
        if (grid.y == 1)
            kernel<<<grid, s.THREADS, BYTES, stream>>>(O, L, Q, K, V, page_table, kv_len, *shape);
        else if (!launch_as<IN_CLUSTERS>(
                     kernel, grid, s.THREADS, BYTES, stream, O, L, Q, K, V, page_table, kv_len, *shape))
            return false;
        launched = [] {
            WB_CUDA(cudaGetLastError());
            return WB_OK;
        }();
        return true;
    };
    if (with_one_block(shape, launch)) return launched;
    return in_shares(O, L, Q, K, V, page_table, kv_len, workspace, workspace_bytes, shape, stream);
}

double flash_decode_microseconds(const decode_shape *shape, const wb_device *device)
{
    return one_block_microseconds(shape, device, shape->head_dim < 64 ? 32 : 16, 2);
}
