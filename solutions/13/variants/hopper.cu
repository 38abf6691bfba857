// hopper.cu - flash_decode for many packed rows on a GPU of sm_90: all of them, up to 64 per warpgroup, use a tile of
// keys that was loaded once. The split and the merge are the reference solution's, which also serves everything else:
// 16 rows and fewer, D 16 and 32, other GPUs. Short caches are not split where that ends no later (wants_whole).
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
//   has room at D 64 alone.
//   Copies: cp.async, as in the reference solution, not the copy engine. Rows behind the last key must be zeros (their
//   weight is 0, but 0 * NaN is NaN), and memory may end before them.
// Random shapes that it is chosen for: 25 of 135 decoding steps (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"
#include "paged.cuh"
#include "../../10/variants/online_step.cuh"

#include <limits.h>

#define flash_decode           in_shares
#define flash_decode_workspace workspace_in_shares
#include "../flash_decode.cu"
#undef flash_decode
#undef flash_decode_workspace

namespace hopper
{
// Tiles of BC keys and of their values by turns: of the block's n-th tile the keys are the 2 n-th, the values the
// next. A tile is full when each of the four warps that fetch has brought its rows, and empty when each of those that
// compute has released it.
template <int D, int BC, int SLOTS> struct tiles_of_block {
    tma_tile<BC, D> tile[SLOTS];
    signal full[SLOTS], empty[SLOTS];
};

// Where in the ring one of its users is.
template <int SLOTS> struct position {
    int slot;
    uint32_t phase;
    TILE_FN void step(int tiles)
    {
        slot += tiles;
        if (slot >= SLOTS) slot -= SLOTS, phase ^= 1;
    }
};

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

// A warp's 16 of the packed rows, `rows` of which exist; the others are zeros.
template <int D> TILE_FN void load(weights<D> &Q, const bf16 *src, int rows)
{
    TILE_UNROLL
    for (int k = 0; k < D / 16; k++) {
        TILE_UNROLL
        for (int i = 0; i < 4; i++) {
            const int row = 8 * (i % 2) + lane_id() / 4, col = 16 * k + 8 * (i / 2) + lane_id() % 4 * 2;
            Q.x[k][i] = row < rows ? *reinterpret_cast<const uint32_t *>(src + row * D + col) : 0;
        }
    }
}

template <int D_, int GROUPS_, int BC_, int SLOTS_, int BLOCKS_, int FEW_, int MANY_> struct sizes {
    static constexpr int D = D_, GROUPS = GROUPS_, BC = BC_, SLOTS = SLOTS_, BLOCKS = BLOCKS_;
    static constexpr int ROWS = 64 * GROUPS, THREADS = 128 * (1 + GROUPS);
    using registers = register_shares<GROUPS, FEW_, MANY_, BLOCKS>;
    using tiles = tiles_of_block<D, BC, SLOTS>;
    static_assert((sizeof(tiles) + 1024) * BLOCKS <= 228 * 1024, "the blocks of a multiprocessor fit into it");
};

template <class Sizes> __global__ __launch_bounds__(Sizes::THREADS, Sizes::BLOCKS) void kernel(
    bf16 *O,                             // [B, Hq, Nq, D]
    float *L,                            // [B, Hq, Nq]
    const bf16 *Q,                       // [B, Hq, Nq, D]
    const bf16 *K,                       // [pages, page_size, Hkv, D]
    const bf16 *V,                       // likewise
    const int *page_table,               // [B, max_pages]
    const int *kv_len,                   // [B]
    part<Sizes::ROWS, Sizes::D> *parts,  // [gridDim.x, 2]
    bool whole,                          // there is a team for each sequence, and it has all of it
    decode_shape shape)
{
    constexpr int D = Sizes::D, GROUPS = Sizes::GROUPS, BC = Sizes::BC, SLOTS = Sizes::SLOTS;
    // A tile is announced when so many behind it are on their way, and have slots: the other four are those of the
    // last two steps. For more than 8 groups of copies there is no wait: the compiler makes it one for 8.
    constexpr int BEHIND = SLOTS - 4 < 8 ? SLOTS - 4 : 8;
    auto &tiles = shared_memory<typename Sizes::tiles>();
    after_may_begin();  // the merge, which waits for this kernel's end in its place

    // who am I: a tile of rows of one head, and of all keys those of my team, tiles from ... to - 1
    const member<Sizes::ROWS> me(shape);
    const tile_row<BC> all(kv_len, shape);
    place at = {me.team, 0, 0};
    int count;
    if (whole) {
        at.keys = all.keys_of(at.b), count = all.tiles_of(at.keys);
    } else {
        const long long total = all.total();
        const int teams = (int)min((long long)me.teams, total);  // no team has less than a tile
        if (me.team >= teams) return;
        const long long from = first_of(total, me.team, teams), to = first_of(total, me.team + 1, teams);
        count = (int)(to - from), at = all.find(from);
    }

    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) tiles.full[i].init(4), tiles.empty[i].init(4 * GROUPS);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // fetch: the last warpgroup, each warp 16 of 64 rows, past the ends of sequences
    if (warpgroup_id() == GROUPS) {
        Sizes::registers::give();
        const unsigned heads = shape.kv_heads, page_rows = shape.page_size * heads;  // of K and V in a page
        const int my_key = 16 * warp_in_group();                                     // of each 64, in one page
        int pages[BC / 64] = {};
        // A tile early: the addresses of the loads would wait for it.
        const auto look_up = [&] {
            TILE_UNROLL
            for (int h = 0; h < BC / 64; h++) {
                const int key = at.t * BC + 64 * h + my_key;
                if (key < at.keys) {
                    pages[h] = page_table[(size_t)at.b * shape.max_pages + key / shape.page_size];
                    expect_page(pages[h], shape.pages, at.b, key);
                }
            }
        };
        position<SLOTS> sent = {0, 1}, arrived = {0, 0};  // "the phase before the first" is over: all are empty
        const auto announce = [&] {                       // the oldest that is on its way
            loads_arrived<BEHIND>();
            writes_visible();
            __syncwarp();  // all lanes' parts have arrived
            if (lane_id() == 0) tiles.full[arrived.slot].arrive();
            arrived.step(1);
        };
        look_up();
        TILE_ROLLED
        for (int n = 0; n < 2 * count + BEHIND; n += 2) {
            size_t key_row[BC / 64];
            const int key = at.t * BC + my_key, keys = at.keys;
            TILE_UNROLL
            for (int h = 0; h < BC / 64; h++)
                key_row[h] = (size_t)(unsigned)pages[h] * page_rows +
                             (size_t)((key + 64 * h) & (shape.page_size - 1)) * heads + me.head;
            if (n + 2 < 2 * count) all.step(at), look_up();
            TILE_ROLLED
            for (int i = 0; i < 2; i++) {  // the keys, the values
                if (n < 2 * count) {
                    tiles.empty[sent.slot].wait(sent.phase);
                    auto &tile = tiles.tile[sent.slot];
                    writes(tile);
                    TILE_UNROLL
                    for (int h = 0; h < BC / 64; h++)
                        send_rows(
                            tile, 64 * h + my_key, (i == 0 ? K : V) + key_row[h] * D, heads * D, keys - key - 64 * h);
                    sent.step(1);
                }
                loads_issued();
                if (n + i >= BEHIND && n + i < 2 * count + BEHIND) announce();
            }
        }
        return;
    }

    Sizes::registers::take();
    const int my_row = 64 * warpgroup_id() + 16 * warp_in_group(), rows = me.rows - my_row;  // that exist from there on
    const float scale2 = shape.scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    position<SLOTS> K_at = {0, 0}, V_at = {1, 0};
    const auto receive = [&](const position<SLOTS> &p) -> const tma_tile<BC, D> & {
        tiles.full[p.slot].wait(p.phase);
        return tiles.tile[p.slot];
    };
    const auto release = [&](position<SLOTS> &p) {  // this warp no longer reads it
        if (lane_id() == 0) tiles.empty[p.slot].arrive();
        p.step(2);
    };

    for (int n = 0; n < count;) {  // what is the team's of a sequence
        const int begin = at.t, steps = min(all.tiles_of(at.keys) - begin, count - n);
        const size_t row = me.row(at.b) + my_row;
        weights<D> Q_reg;
        load(Q_reg, Q + row * D, rows);
        int last[2];  // that this lane's two rows see
        for (int i = 0; i < 2; i++)
            last[i] = at.keys - shape.q_len + (me.first_row + my_row + 8 * i + lane_id() / 4) % shape.q_len;
        const auto mask = [&](reg_tile<16, BC> &S, int t) {
            if (t * BC + BC <= at.keys - shape.q_len + 1) return;  // all tokens see all of these
            each(S, [&](float &s, element e) {
                if (t * BC + e.col > last[e.row_slot]) s = -INFINITY;
            });
        };

        reg_tile<16, D> O_reg = {};
        row_vec<16> m, l = {}, alpha;
        fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
        weights<BC> P;
        {  // the first tile: nothing to overlap with
            reg_tile<16, BC> S;
            mma_ABt_async(S, Q_reg, receive(K_at));  // S = Q K^T
            products_done<0>(S);
            release(K_at);
            mask(S, begin);
            online_step(S, m, l, alpha, scale2);
            round_to(P, S);
        }
        for (int i = 1; i < steps; i++) {
            reg_tile<16, BC> S;
            mma_ABt_async(S, Q_reg, receive(K_at));  // S = Q K^T
            mma_AB_async(O_reg, P, receive(V_at));   // O += P V, of the tile before
            products_done<1>(S);                     // all but one: S is there, O is not
            release(K_at);
            mask(S, begin + i);
            const bool outgrown = online_step(S, m, l, alpha, scale2);
            products_done<0>(O_reg);
            release(V_at);
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O_reg, alpha);
        }
        mma_AB_async(O_reg, P, receive(V_at));
        products_done<0>(O_reg);
        release(V_at);

        // finalize: a row that has seen nothing has l = 0, and gets O = 0 and L = -infinity
        l = row_sum_whole(l);
        divide_rows(O_reg, rowwise(l, [](float x) { return x > 0 ? x : 1; }));
        const row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e

        // store. A sequence begun here and not ended is the block's second part, all else its first.
        n += steps, at.t += steps - 1;
        if (begin == 0 && at.t + 1 == all.tiles_of(at.keys)) {
            store(O + row * D, O_reg, rows);
            store(L + row, L_row, rows);
        } else {
            auto &mine = parts[2 * blockIdx.x + (begin == 0)];
            TILE_UNROLL
            for (int c = 0; c < D / 8; c++)
                for (int i = 0, r = lane_id() / 4; i < 2; i++, r += 8)
                    if (r < rows)
                        *reinterpret_cast<float2 *>(&mine.O[my_row + r][8 * c + lane_id() % 4 * 2]) =
                            float2{O_reg.x[0][c][2 * i], O_reg.x[0][c][2 * i + 1]};
            store(mine.L + my_row, L_row, 16);
        }
        if (n < count) all.step(at);
    }
}

// Calls f with the sizes for this shape. False, and f is not called, where the key is to do it.
template <class F> static bool with_sizes(const decode_shape *shape, F f)
{
    const int rows = packed_rows(*shape), D = shape->head_dim;
    if (rows <= 16 || D < 64 || !fits<tiles_of_block<128, 64, 14>>() || check_hopper("flash_decode") != WB_OK)
        return false;
    if (D == 128)
        rows <= 64 ? f(sizes<128, 1, 64, 7, 2, 56, 200>()) : f(sizes<128, 2, 64, 14, 1, 56, 224>());
    else if (rows <= 64)
        f(sizes<64, 1, 64, 14, 2, 56, 200>());
    else
        rows <= 128 || rows > 192 ? f(sizes<64, 2, 128, 14, 1, 56, 224>()) : f(sizes<64, 3, 64, 28, 1, 56, 152>());
    return true;
}
// Whether a team for each sequence is done as soon as equal shares and the merge, which takes as long as six steps.
static bool wants_whole(const decode_shape &shape, double blocks, int at_a_time, int BC)
{
    const double steps = ceil((double)shape.max_pages * shape.page_size / BC);
    return blocks <= INT_MAX && steps <= 32 && steps * ceil(blocks / at_a_time) <= steps * blocks / at_a_time + 6;
}
template <class Sizes> static int blocks()
{
    return blocks_at_a_time(kernel<Sizes>, Sizes::THREADS, sizeof(typename Sizes::tiles));
}
}  // namespace hopper

size_t flash_decode_workspace(const decode_shape *shape)
{
    if (wb_check_decode_shape("flash_decode", shape) != WB_OK) return 0;
    size_t bytes = 0;
    const auto measure = [&](auto s) { bytes = hopper::blocks<decltype(s)>() * 2 * sizeof(part<s.ROWS, s.D>); };
    return hopper::with_sizes(shape, measure) ? bytes : workspace_in_shares(shape);
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
        status = [&] {
            const auto parts = (part<s.ROWS, s.D> *)workspace;
            const int most = hopper::blocks<decltype(s)>(), team = members<s.ROWS>(*shape);
            const bool whole = hopper::wants_whole(*shape, (double)shape->batch * team, most, s.BC);
            const int blocks = whole ? shape->batch * team : blocks_of_teams<s.ROWS>(*shape, most);
            const auto kernel = hopper::kernel<decltype(s)>;
            kernel<<<blocks, s.THREADS, sizeof(typename decltype(s)::tiles), stream>>>(
                O, L, Q, K, V, page_table, kv_len, parts, whole, *shape);
            WB_CUDA(cudaGetLastError());
            if (whole) return WB_OK;
            const auto merge = merge_kernel<s.ROWS, s.D, s.BC>;
            const dim3 grid(blocks, (s.ROWS + 31) / 32);
            if (!launch_early(merge, grid, 32 * at_once, 0, stream, O, L, parts, kv_len, *shape))
                merge<<<grid, 32 * at_once, 0, stream>>>(O, L, parts, kv_len, *shape);
            WB_CUDA(cudaGetLastError());
            return WB_OK;
        }();
    };
    if (hopper::with_sizes(shape, launch)) return status;
    return in_shares(O, L, Q, K, V, page_table, kv_len, workspace, workspace_bytes, shape, stream);
}

// `more`: steps that end a sequence. The merge takes 4 us.
double flash_decode_microseconds(const decode_shape *shape, const wb_device *device)
{
    const int rows = packed_rows(*shape), D = shape->head_dim, most = D == 64 ? 192 : 128;
    if (device->capability != 9 || rows <= 16 || D < 64) return INFINITY;
    const wb_costs *c = device->costs;
    const double keys = (double)shape->max_pages * shape->page_size, all = shape->batch * keys;
    const double members = shape->kv_heads * ceil(rows / (rows <= 64 ? 64.0 : rows <= 128 ? 128 : most));
    const double slots = (rows <= 64 ? 2.0 : 1) * device->processors, blocks = shape->batch * members;
    const double teams = fmax(1, floor(slots / members));
    const bool whole = hopper::wants_whole(*shape, blocks, (int)slots, 64);
    const double steps = whole ? ceil(blocks / slots) * (c->beginning + ceil(keys / 64))
                               : c->beginning + ceil(all / 64 / teams) + c->more * ceil(shape->batch / teams);
    return c->launch - 4 * whole + wb_both(c->step * steps, c->megabyte * 4e-6 * all * members * D);
}
