// hopper.cu - flash_decode_int8 for many packed rows on a GPU of sm_90: as in 13, all of them, up to 64 per warpgroup,
// use a tile of keys that was loaded once. The reference solution, which loads and converts a tile again for each 32
// rows, serves everything else: 16 rows and fewer, D 16 and 32, other GPUs.
//
// The tensor cores want bf16 from shared memory. The warpgroup that fetches makes it: each of its threads brings its
// 16 bytes of some rows by cp.async, and when they have arrived reads them back, converts them, and writes them into
// a tile. So no thread waits for another's bytes. Beyond 64 rows one such warpgroup has the keys and one the values.
//   Time: 64 keys of K and V are 16 KB (D 128), half a microsecond of memory's. Their products with 128 rows take
//   1.1 us, as in 13, and the warps that convert share the schedulers with those that compute. So 112 rows
//   of four heads and two sequences of 407934 keys take 0.54 ms, 0.61 with one warpgroup that converts, 0.50 without
//   converting, 0.39 without scales as well, 0.89 by the reference solution (H200, 2026-11-29).
//   Bytes on their way: eight tiles, 32 KB (D 64, 192 rows) or 64 KB; five of 8 KB where two blocks have D 128.
// Random shapes that it is chosen for: 73 of 426 decoding steps from int8 (`make duel`, seed 771201, 2026-12-01).
#include "workbook.h"
#include "predict.h"
#include "int8.cuh"

#define flash_decode_int8           in_shares
#define flash_decode_int8_workspace workspace_in_shares
#include "../flash_decode_int8.cu"
#undef flash_decode_int8
#undef flash_decode_int8_workspace
#include "../../13/variants/warpgroups.cuh"

namespace hopper
{
// A tile's scales lie beside it. The bytes of the `BEHIND` tiles that are on their way lie as the threads that fetch
// copy them, 16 at a time; of scales four lanes of a warp bring 16.
template <class Sizes> struct of_bytes {
    static constexpr int D = Sizes::D, BC = Sizes::BC, H = BC / 64, TILE = BC * (2 * D + 4), BYTES = BC * (D + 4);
    static constexpr int FIT = (Sizes::ROOM - 4 * TILE) / BYTES;
    static constexpr int BEHIND = FIT < 8 ? FIT / Sizes::FETCH * Sizes::FETCH : 8;  // equally many of K and V
    static constexpr int CHUNKS = D / 16,
                         STEP = 32 / CHUNKS;  // 16 bytes of a row each; rows that a warp copies at once
    struct tiles : tiles_of_block<Sizes, (Sizes::ROOM - BEHIND * BYTES) / TILE> {
        float scale[(Sizes::ROOM - BEHIND * BYTES) / TILE][BC];
        uint4 bytes[BEHIND][H][16 / STEP][warpgroup_threads], scales[BEHIND][H][4][4];
    };
    static_assert(Sizes::BLOCKS * (sizeof(tiles) + 1024) <= 228 * 1024, "the blocks of a multiprocessor fit into it");

    // Which chunk of which row of STEP a lane copies. Eight lanes, which write at a time, have four chunks of two rows:
    // in no bank two of the sixteen pieces that they become.
    static TILE_FN int my_chunk() { return lane_id() % 4 + (CHUNKS == 8 ? lane_id() / 8 % 2 * 4 : 0); }
    static TILE_FN int my_row() { return CHUNKS == 8 ? lane_id() / 16 * 2 + lane_id() / 4 % 2 : lane_id() / 4; }

    // This warp's 16 rows of each 64 of a tile: `stride` bytes apart, from src[h] on, `rows` of the first 16 exist.
    static TILE_FN void send(
        tiles &to, int slot, const int8_t *src, const size_t (&row)[H], unsigned stride, const float *scale,
        const size_t (&scale_row)[H], int my_key, int rows)
    {
        TILE_UNROLL
        for (int h = 0; h < H; h++, rows -= 64) {
            const int8_t *from = src + row[h] * D + my_row() * stride + 16 * my_chunk();
            uint4 *at = &to.bytes[slot][h][0][threadIdx.x % warpgroup_threads];
            if (rows >= 16) {
                TILE_UNROLL
                for (int r = 0; r < 16; r += STEP)
                    copy_once_async(at + r / STEP * warpgroup_threads, from + r * stride);
            } else {
                TILE_ROLLED
                for (int r = 0; r < 16; r += STEP)
                    __pipeline_memcpy_async(
                        at + r / STEP * warpgroup_threads, from + r * stride, 16, my_row() + r < rows ? 0 : 16);
            }
            if (lane_id() >= 4) continue;
            uint4 *four = &to.scales[slot][h][my_key / 16][lane_id()];
            const float *their = scale + scale_row[h] + 4 * lane_id();
            if (rows >= 16)
                __pipeline_memcpy_async(four, their, 16);
            else
                __pipeline_memcpy_async(four, their, 16, 16 - 4 * min(max(rows - 4 * lane_id(), 0), 4));
        }
    }

    // What this thread has brought, which has arrived, becomes bf16.
    static TILE_FN void convert(tiles &in, int from, int slot, int my_key)
    {
        auto &tile = in.tile[slot];
        const int n = my_chunk();
        uint4 x[H][16 / STEP];  // all under way before one is used
        TILE_UNROLL
        for (int h = 0; h < H; h++) {
            TILE_UNROLL
            for (int i = 0; i < 16 / STEP; i++) x[h][i] = in.bytes[from][h][i][threadIdx.x % warpgroup_threads];
        }
        writes(tile);
        TILE_UNROLL
        for (int h = 0; h < H; h++) {
            TILE_UNROLL
            for (int i = 0; i < 16 / STEP; i++) {
                const uint32_t word[4] = {x[h][i].x, x[h][i].y, x[h][i].z, x[h][i].w};
                uint32_t pair[8];
                TILE_UNROLL
                for (int j = 0; j < 8; j++)
                    pair[j] =
                        STORED::two_to_bf16(__byte_perm(word[j / 2] ^ STORED::turned, 0, j % 2 ? 0x4342 : 0x4140));
                const int row = my_row() + STEP * i;
                TILE_UNROLL
                for (int j = 0; j < 2; j++)
                    *reinterpret_cast<uint4 *>(
                        &tile.at[n / 4][64 * h + my_key + row][tile.place(n % 4 * 2 + j, row & 7)]) =
                        make_uint4(pair[4 * j], pair[4 * j + 1], pair[4 * j + 2], pair[4 * j + 3]);
            }
            if (lane_id() < 4)
                *reinterpret_cast<uint4 *>(&in.scale[slot][64 * h + my_key + 4 * lane_id()]) =
                    in.scales[from][h][my_key / 16][lane_id()];
        }
    }
};

template <class Sizes> __global__ __launch_bounds__(Sizes::THREADS, Sizes::BLOCKS) void kernel(
    bf16 *O,                             // [B, Hq, Nq, D]
    float *L,                            // [B, Hq, Nq]
    const int *kv_len,                   // [B]
    part<Sizes::ROWS, Sizes::D> *parts,  // [blocks, 2]
    float enough,                        // as for tile_row::share; 0: each sequence has a team
    decode_shape shape,
    const bf16 *Q,          // [B, Hq, Nq, D]
    const int8_t *K,        // [pages, page_size, Hkv, D]
    const int8_t *V,        // likewise
    const float *K_scale,   // [pages, Hkv, page_size]
    const float *V_scale,   // likewise
    const int *page_table)  // [B, max_pages]
{
    using bytes = of_bytes<Sizes>;
    constexpr int D = Sizes::D, BC = Sizes::BC, FETCH = Sizes::FETCH, SLOTS = bytes::tiles::SLOTS,
                  BEHIND = bytes::BEHIND;
    auto &tiles = shared_memory<typename bytes::tiles>();

    // who am I: a tile of rows of one head, and of all keys those of my team
    tile_row<BC> all(kv_len, shape);
    const member<Sizes::ROWS> me(shape);
    place at = all.first_tile(me.team, me.teams, enough);
    if (!at.is_mine()) return;
    after_may_begin();  // the merge, which waits for this kernel's end in its place
    tiles.init();

    // fetch: the last warpgroup, or of the last two one the keys and one the values; past the ends of sequences
    if (warpgroup_id() >= Sizes::GROUPS) {
        Sizes::registers::give();
        const unsigned heads = shape.kv_heads, page_rows = shape.page_size * heads;  // of K and V in a page
        fetched<BC> its(__ffs(shape.page_size) - 1);
        const int first = warpgroup_id() - Sizes::GROUPS;
        position<SLOTS> made = {first, 1};  // "the phase before the first" is over: all are empty
        int slot = first;  // where the bytes of the oldest tile that is on its way lie, and the next's will
        its.look_up(page_table, at, shape);
        TILE_ROLLED
        for (int n = 0, all_sent = INT_MAX - BEHIND; n < all_sent + BEHIND; n += 2) {
            size_t key_row[BC / 64], scale_row[BC / 64];
            const int keys = at.keys - at.t * BC - its.my_key;  // from this warp's first on
            TILE_UNROLL
            for (int h = 0; h < BC / 64; h++) {
                const size_t page = (size_t)(unsigned)its.page(at, h) * page_rows;
                const unsigned in_page = its.in_page(at, h, shape);
                key_row[h] = page + in_page * heads + me.head;
                scale_row[h] = page + me.head * shape.page_size + in_page;
            }
            const bool sends = n < all_sent;
            if (sends && !its.next(at, all, page_table, shape)) all_sent = n + 2;
            TILE_ROLLED
            for (int i = first; i < 2; i += FETCH) {  // the keys, the values
                if (n + i >= BEHIND && n + i < all_sent + BEHIND) {
                    loads_arrived<BEHIND / FETCH - 1>();
                    tiles.empty[made.slot].wait(made.phase);
                    bytes::convert(tiles, slot, made.slot, its.my_key);
                    writes_visible();
                    __syncwarp();  // all lanes' parts are there
                    if (lane_id() == 0) tiles.full[made.slot].arrive();
                    made.step(FETCH);
                }
                if (sends)
                    bytes::send(
                        tiles, slot, i == 0 ? K : V, key_row, heads * D, i == 0 ? K_scale : V_scale, scale_row,
                        its.my_key, keys);
                loads_issued();
                slot += FETCH;
                if (slot >= BEHIND) slot -= BEHIND;
            }
        }
        return;
    }
    Sizes::registers::take();
    const auto times_scales = [&](reg_tile<16, BC> &S, int slot) {
        col_vec<BC> scale;
        load(scale, tiles.scale[slot], BC, 0);
        __syncwarp();  // all lanes have read it: lane 0 may release the tile
        each(S, [&](float &s, element e) { s *= scale[e]; });
    };
    const auto weigh = [&](reg_tile<16, BC> &P, position<SLOTS> V_at) {
        tiles.full[V_at.slot].wait(V_at.phase);
        times_scales(P, V_at.slot);
    };
    compute<Sizes>(tiles, me, all, at, O, L, Q, parts, shape, UNIT, times_scales, weigh);
}

template <class Sizes> static int blocks()
{
    return blocks_at_a_time(kernel<Sizes>, Sizes::THREADS, sizeof(typename of_bytes<Sizes>::tiles));
}
}  // namespace hopper

size_t flash_decode_int8_workspace(const decode_shape *shape)
{
    if (wb_check_decode_shape("flash_decode_int8", shape) != WB_OK) return 0;
    size_t bytes = 0;
    const auto measure = [&](auto s) { bytes = hopper::blocks<decltype(s)>() * 2 * sizeof(part<s.ROWS, s.D>); };
    return hopper::with_sizes<true>("flash_decode_int8", shape, measure) ? bytes : workspace_in_shares(shape);
}

wb_status flash_decode_int8(
    bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale, const float *V_scale,
    const int *page_table, const int *kv_len, void *workspace, size_t workspace_bytes, const decode_shape *shape,
    wb_stream stream)
{
    const size_t needed = flash_decode_int8_workspace(shape);
    wb_status status = wb_check_decode_int8(
        "flash_decode_int8", O, L, Q, K, V, K_scale, V_scale, page_table, kv_len, workspace, workspace_bytes, needed,
        shape);
    if (status != WB_OK) return status;
    const auto launch = [&](auto s) {
        using sizes = decltype(s);
        status = [&] {
            const auto parts = (part<s.ROWS, s.D> *)workspace;
            const auto blocks = hopper::blocks_of<sizes, true>(*shape, hopper::blocks<sizes>());
            const auto kernel = hopper::kernel<sizes>;
            kernel<<<blocks.teams, s.THREADS, sizeof(typename hopper::of_bytes<sizes>::tiles), stream>>>(
                O, L, kv_len, parts, blocks.enough, *shape, Q, K, V, K_scale, V_scale, page_table);
            WB_CUDA(cudaGetLastError());
            if (blocks.enough == 0) return WB_OK;
            const auto merge = merge_kernel<s.ROWS, s.D, s.BC>;
            const dim3 grid(blocks.teams.x, blocks.teams.y, (s.ROWS + 31) / 32);
            if (!launch_early(merge, grid, 32 * at_once, 0, stream, O, L, parts, kv_len, *shape, blocks.enough))
                merge<<<grid, 32 * at_once, 0, stream>>>(O, L, parts, kv_len, *shape, blocks.enough);
            WB_CUDA(cudaGetLastError());
            return WB_OK;
        }();
    };
    if (hopper::with_sizes<true>("flash_decode_int8", shape, launch)) return status;
    return in_shares(O, L, Q, K, V, K_scale, V_scale, page_table, kv_len, workspace, workspace_bytes, shape, stream);
}

double flash_decode_int8_microseconds(const decode_shape *shape, const wb_device *device)
{
    return hopper::microseconds<true>(shape, device);
}
