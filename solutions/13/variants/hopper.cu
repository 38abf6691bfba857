// hopper.cu - flash_decode for many packed rows on a GPU of sm_90: all of them, up to 64 per warpgroup, use a tile of
// keys that was loaded once. The reference solution serves everything else: 16 rows and fewer, D 16 and 32, other GPUs.
//
// With R rows a byte of the cache makes R FLOPs. The reference solution fetches a tile again for each 32 rows, and
// multiplies by mma.sync: with 96 rows three times the bytes come through L2. Here one warpgroup fetches, and one to
// three compute, each for 64 rows.
//   Time: memory's 4.3 TB/s are 32 KB a microsecond for each multiprocessor. 128 rows are 4.2 MFLOP then, of the 7 or
//   so that 10's kernels do. So up to 128 rows memory is to be the limit, from 192 rows on the tensor cores.
//   Bytes on their way: 36 KB are wanted (the lesson counts). Slots of 8 or 16 KB fill the shared memory; up to eight
//   of them, but for four, are on their way: 64 KB (192 rows), 96 KB (64 rows, D 128) or 128 KB.
//   Registers of a thread: O 32 or 64 (D 64, 128), S and P 48 of 64 keys, 96 of 128, Q 16 or 32. Q is in none of the
//   shared memory: two factors there for 64 x 64 are 128 bytes a clock, which is all that it gives. A third warpgroup
//   has room at D 64 alone; at D 128 it spills, and 64 sequences of 182 rows take 1.7 times as long. There two compute
//   128 keys a step, which takes 3 to 11 % less than 64 in nine of ten shapes, 5 % more in one (H200, 2026-11-29).
//   Copies: cp.async, as in the reference solution, not the copy engine. Rows behind the last key must be zeros (their
//   weight is 0, but 0 * NaN is NaN), and memory may end before them.
// Random shapes that it is chosen for: 188 of 866 decoding steps (`make duel`, seed 771201, 2026-12-01).
#include "workbook.h"
#include "predict.h"
#include "paged.cuh"

#define flash_decode           in_shares
#define flash_decode_workspace workspace_in_shares
#include "../flash_decode.cu"
#undef flash_decode
#undef flash_decode_workspace
#include "warpgroups.cuh"

namespace hopper
{
// A warp sends for rows row0 ... row0 + 15 of a tile, which lie in one page, `stride` elements apart, from src on.
// `rows` of them exist; the others become zeros, and with rows <= 0 src may be anywhere.
template <int BC, int D>
TILE_FN void send_rows(tma_tile<BC, D> &tile, int row0, const bf16 *src, unsigned stride, int rows)
{
    constexpr int chunks = D / 8, step = 32 / chunks;  // of a row; rows at a time
    const int n = lane_id() % chunks, first = lane_id() / chunks, piece = n % 8 ^ first;
    bf16(*to)[64] = &tile.at[n / 8][row0 + first];
    src += (size_t)first * stride + 8 * n;
    if (rows >= 16) {
        TILE_UNROLL
        for (int r = 0; r < 16; r += step, src += step * stride) copy_once_async(&to[r][(piece ^ r % 8) * 8], src);
    } else {
        TILE_ROLLED
        for (int r = 0; r < 16; r += step, src += step * stride)
            __pipeline_memcpy_async(&to[r][(piece ^ r % 8) * 8], src, 16, first + r < rows ? 0 : 16);
    }
}

template <class Sizes> using tiles_of = tiles_of_block<Sizes, Sizes::ROOM / (int)sizeof(tma_tile<Sizes::BC, Sizes::D>)>;

template <class Sizes> __global__ __launch_bounds__(Sizes::THREADS, Sizes::BLOCKS) void kernel(
    bf16 *O,                             // [B, Hq, Nq, D]
    float *L,                            // [B, Hq, Nq]
    const int *kv_len,                   // [B]
    part<Sizes::ROWS, Sizes::D> *parts,  // [blocks, 2]
    float enough,                        // as for tile_row::share; 0: each sequence has a team
    decode_shape shape,
    const bf16 *Q,          // [B, Hq, Nq, D]
    const bf16 *K,          // [pages, page_size, Hkv, D]
    const bf16 *V,          // likewise
    const int *page_table)  // [B, max_pages]
{
    constexpr int D = Sizes::D, BC = Sizes::BC, SLOTS = tiles_of<Sizes>::SLOTS;
    // A tile is announced when so many behind it are on their way, and have slots: the other four are those of the
    // last two steps. For more than 8 groups of copies there is no wait: the compiler makes it one for 8.
    constexpr int BEHIND = SLOTS - 4 < 8 ? SLOTS - 4 : 8;
    auto &tiles = shared_memory<tiles_of<Sizes>>();

    // who am I: a tile of rows of one head, and of all keys those of my team
    tile_row<BC> all(kv_len, shape);
    const member<Sizes::ROWS> me(shape);
    place at = all.first_tile(me.team, me.teams, enough);
    if (!at.is_mine()) return;
    after_may_begin();  // the merge, which waits for this kernel's end in its place
    tiles.init();

    // fetch: the last warpgroup, past the ends of sequences
    if (warpgroup_id() == Sizes::GROUPS) {
        Sizes::registers::give();
        const unsigned heads = shape.kv_heads, page_rows = shape.page_size * heads;  // of K and V in a page
        fetched<BC> its(__ffs(shape.page_size) - 1);
        position<SLOTS> sent = {0, 1}, arrived = {0, 0};  // "the phase before the first" is over: all are empty
        const auto announce = [&] {                       // the oldest that is on its way
            loads_arrived<BEHIND>();
            writes_visible();
            __syncwarp();  // all lanes' parts have arrived
            if (lane_id() == 0) tiles.full[arrived.slot].arrive();
            arrived.step(1);
        };
        its.look_up(page_table, at, shape);
        TILE_ROLLED
        for (int n = 0, all_sent = INT_MAX - BEHIND; n < all_sent + BEHIND; n += 2) {
            size_t key_row[BC / 64];
            const int keys = at.keys - at.t * BC - its.my_key;  // from this warp's first on
            TILE_UNROLL
            for (int h = 0; h < BC / 64; h++)
                key_row[h] =
                    (size_t)(unsigned)its.page(at, h) * page_rows + (size_t)its.in_page(at, h, shape) * heads + me.head;
            const bool sends = n < all_sent;
            if (sends && !its.next(at, all, page_table, shape)) all_sent = n + 2;
            TILE_ROLLED
            for (int i = 0; i < 2; i++) {  // the keys, the values
                if (sends) {
                    tiles.empty[sent.slot].wait(sent.phase);
                    auto &tile = tiles.tile[sent.slot];
                    writes(tile);
                    TILE_UNROLL
                    for (int h = 0; h < BC / 64; h++)
                        send_rows(
                            tile, 64 * h + its.my_key, (i == 0 ? K : V) + key_row[h] * D, heads * D, keys - 64 * h);
                    sent.step(1);
                }
                loads_issued();
                if (n + i >= BEHIND && n + i < all_sent + BEHIND) announce();
            }
        }
        return;
    }
    Sizes::registers::take();
    compute<Sizes>(
        tiles, me, all, at, O, L, Q, parts, shape, 1, [](auto &, int) {}, [](auto &, position<SLOTS>) {});
}

template <class Sizes> static int blocks()
{
    return blocks_at_a_time(kernel<Sizes>, Sizes::THREADS, sizeof(tiles_of<Sizes>));
}
}  // namespace hopper

size_t flash_decode_workspace(const decode_shape *shape)
{
    if (wb_check_decode_shape("flash_decode", shape) != WB_OK) return 0;
    size_t bytes = 0;
    const auto measure = [&](auto s) { bytes = hopper::blocks<decltype(s)>() * 2 * sizeof(part<s.ROWS, s.D>); };
    return hopper::with_sizes<false>("flash_decode", shape, measure) ? bytes : workspace_in_shares(shape);
}

wb_status flash_decode(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table, const int *kv_len,
    void *workspace, size_t workspace_bytes, const decode_shape *shape, wb_stream stream)
{
    const size_t needed = flash_decode_workspace(shape);
    wb_status status =
        wb_check_decode("flash_decode", O, L, Q, K, V, page_table, kv_len, workspace, workspace_bytes, needed, shape);
    if (status != WB_OK) return status;
    const auto launch = [&](auto s) {
        using sizes = decltype(s);
        status = [&] {
            const auto parts = (part<s.ROWS, s.D> *)workspace;
            const auto blocks = hopper::blocks_of<sizes, false>(*shape, hopper::blocks<sizes>());
            const auto kernel = hopper::kernel<sizes>;
            kernel<<<blocks.teams, s.THREADS, sizeof(hopper::tiles_of<sizes>), stream>>>(
                O, L, kv_len, parts, blocks.enough, *shape, Q, K, V, page_table);
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
    if (hopper::with_sizes<false>("flash_decode", shape, launch)) return status;
    return in_shares(O, L, Q, K, V, page_table, kv_len, workspace, workspace_bytes, shape, stream);
}

double flash_decode_microseconds(const decode_shape *shape, const wb_device *device)
{
    return hopper::microseconds<false>(shape, device);
}
