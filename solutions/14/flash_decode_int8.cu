// flash_decode_int8.cu - 13 with a cache of half the bytes: keys and values are int8, and each row of them has a
// scale. A scale belongs to a column of S or of P and is applied there: 2 multiplications per key instead of 2 D.
#include "workbook.h"
#include "int8.cuh"

constexpr int KEYS = 32;  // that a warp takes of a tile; each half of it sends for 16, which lie in one page

// The first place of team k's share, when `teams` teams share `total` places as evenly as can be.
TILE_FN long long first_of(long long total, int k, int teams)
{
    return total * k / teams;  // rounded down
}

// m, l and O_row of some parts more of a row: L of each, and a lane's columns of its O. Where there is no part L is
// -infinity.
template <int PARTS, int MINE> TILE_FN void
merge(float &m, float &l, float (&O_row)[MINE], const float (&L_part)[PARTS], const float (&O_part)[PARTS][MINE])
{
    float m_new = m;
    for (int i = 0; i < PARTS; i++) m_new = fmaxf(m_new, L_part[i]);
    const float alpha = expf(m - m_new);
    m = m_new;
    l *= alpha;
    for (int c = 0; c < MINE; c++) O_row[c] *= alpha;
    for (int i = 0; i < PARTS; i++) {
        const float weight = expf(L_part[i] - m);  // of a part that has seen nothing: 0
        l += weight;
        for (int c = 0; c < MINE; c++) O_row[c] += weight * O_part[i][c];
    }
}

// A warp's keys of a tile.
template <int D> struct key_tile {
    byte_tile<KEYS, D> K, V;
    float K_scale[KEYS], V_scale[KEYS];
};

// What a block keeps in shared memory.
template <int ROWS, int D, int WARPS, int STAGES> struct decode_tiles {
    key_tile<D> keys[WARPS][STAGES];  // each warp has its own
    row_room<WARPS, ROWS> maxima;
    union {
        quarter_room<ROWS, D> Q_smem;  // of more than 16 rows
        sum_room<D> sums;              // when a sequence ends
    };
};

// One step of the online softmax, as in 05. O is in UNITs.
template <int ROWS, int D, class Mask> TILE_FN void attend(
    reg_tile<ROWS, D> &O_reg, row_vec<ROWS> &m, row_vec<ROWS> &l, const quarters<ROWS, D> &Q_reg,
    const key_tile<D> &keys, float scale2, Mask mask)
{
    reg_tile<ROWS, KEYS> S = {};
    col_vec<KEYS> K_scale, V_scale;
    load(K_scale, keys.K_scale, KEYS, 0);
    load(V_scale, keys.V_scale, KEYS, 0);
    mma_ABt(S, Q_reg, keys.K);  // S = Q K^T, without scales
    //{ scores
    each(S, [&](float &s, element e) { s *= K_scale[e]; });
    //}
    mask(S);
    const row_vec<ROWS> S_max = row_max_part(S) * scale2;
    if (any_above(S_max, m + 8.0f)) {
        const row_vec<ROWS> m_new = max(m, row_max_whole(S_max)), alpha = exp2(m - m_new);
        m = m_new;
        l = l * alpha;
        scale_rows(O_reg, alpha);
    }
    each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });  // S becomes P
    //{ weights
    l = l + row_sum_part(S);
    each(S, [&](float &p, element e) { p *= V_scale[e]; });
    //}
    mma_AB(O_reg, S, keys.V);  // O += P V
}

template <int ROWS, int D, int WARPS, int STAGES> __global__ __launch_bounds__(32 * WARPS) void decode_kernel(
    bf16 *O,                // [B, Hq, Nq, D]
    float *L,               // [B, Hq, Nq]
    const bf16 *Q,          // [B, Hq, Nq, D]
    const int8_t *K,        // [pages, page_size, Hkv, D]
    const int8_t *V,        // likewise
    const float *K_scale,   // [pages, Hkv, page_size]
    const float *V_scale,   // likewise
    const int *page_table,  // [B, max_pages]
    const int *kv_len,      // [B]
    part<ROWS, D> *parts,   // [blocks, 2]
    decode_shape shape)
{
    constexpr int THREADS = 32 * WARPS, BC = KEYS * WARPS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<decode_tiles<ROWS, D, WARPS, STAGES> *>(shared);

    // who am I: a tile of rows of one head, and of all tiles of keys those that lie in my team's share
    tile_row<BC> all(kv_len, shape);
    const member<ROWS> me(shape);
    place at = all.first_tile(me.team, me.teams), ahead = at;
    if (!at.is_mine()) return;
    const int my_key = warp_id() * KEYS;                          // of a tile
    const int sent_key = my_key + lane_id() / (512 / KEYS) * 16;  // these lanes send for 16 keys, which lie in one page
    after_may_begin();  // the merge; launched earlier, its blocks would delay the first loads

    // The page of these 16 keys of a tile. A tile early: the addresses of the loads would wait for it.
    const int page_bits = __ffs(shape.page_size) - 1;  // page_size is a power of two
    const auto page_of = [&](const place &p) {
        const int key = p.t * BC + sent_key;
        int page = 0;
        if (key < p.keys) page = page_table[(size_t)p.b * shape.max_pages + (key >> page_bits)];
        if (key < p.keys) expect_page(page, shape.pages, p.b, key);
        return page;
    };
    const unsigned heads = shape.kv_heads, page_rows = shape.page_size * heads;  // of K and V in a page
    unsigned sent = 0;
    int page = page_of(ahead);
    // Sends for this warp's keys of the next tile, STAGES - 1 tiles before they are used, past the ends of sequences.
    const auto send = [&]() {
        if (ahead.is_mine()) {
            const int key = ahead.t * BC + sent_key, row = key & (shape.page_size - 1), rows = ahead.keys - key;
            const size_t first = (size_t)(unsigned)page * page_rows, key_row = first + row * heads + me.head;
            key_tile<D> &keys = tiles.keys[warp_id()][sent++ % STAGES];
            load_rows_async(keys.K, K + key_row * D, heads * D, rows);
            load_rows_async(keys.V, V + key_row * D, heads * D, rows);
            //{ scales sent
            const size_t scale = first + me.head * shape.page_size + row;
            load_scales_async(keys.K_scale, K_scale + scale, rows);
            load_scales_async(keys.V_scale, V_scale + scale, rows);
            //}
            all.step(ahead);
            if (ahead.is_mine()) page = page_of(ahead);
        }
        loads_issued();
    };
    TILE_ROLLED
    for (int n = 0; n < STAGES - 1; n++) send();

    const float scale2 = shape.scale * 1.44269504f * UNIT;  // times log2(e): the scores in base 2, for exp2
    quarters<ROWS, D> Q_reg;
    reg_tile<ROWS, D> O_reg;
    row_vec<ROWS> m, l;
    int begin = 0;  // the first tile of this sequence that is the team's
    for (unsigned n = 0; at.is_mine(); n++, all.step(at)) {
        const size_t row = me.row(at.b);
        if (n == 0 || at.t == 0) {  // another sequence
            begin = at.t;
            load<THREADS>(Q_reg, tiles.Q_smem, Q + row * D, me.rows);
            O_reg = {}, l = {};
            fill(m, -FLT_MAX);
        }
        loads_arrived<STAGES - 2>();
        __syncwarp();  // the tile is there for the whole warp, which does not read the one before any more
        send();
        const int key = at.t * BC + my_key;
        const auto mask = [&](auto &S) {
            if (key + KEYS <= at.keys - shape.q_len + 1) return;  // all tokens see all of these
            each(S, [&](float &s, element e) {
                const int i = (me.first_row + e.row) % shape.q_len;
                if (key + e.col > at.keys - shape.q_len + i) s = -INFINITY;
            });
        };
        attend(O_reg, m, l, Q_reg, tiles.keys[warp_id()][n % STAGES], scale2, mask);
        if (at.t + 1 == at.end) {
            merge_warps(tiles.maxima, tiles.sums, O_reg, m, l, me.rows);
            // finalize: a row that has seen nothing has l = 0, and gets O = 0 and L = -infinity
            l = row_sum_whole(l);
            divide_rows(O_reg, rowwise(l, [](float x) { return x > 0 ? x / UNIT : 1; }));
            const row_vec<ROWS> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e
            // store: the last warp has it all. A sequence begun here and not ended is the block's second part, all
            // else its first.
            part<ROWS, D> &mine = parts[2 * me.block + (begin == 0)];
            if (warp_id() == WARPS - 1 && all.ends(at) && begin == 0) {
                store_in_order(O + row * D, O_reg, me.rows);
                store(L + row, L_row, me.rows);
            } else if (warp_id() == WARPS - 1) {
                each(O_reg, [&](float &x, element e) {
                    if (e.row < me.rows) mine.O[e.row][byte_col(e.col)] = x;
                });
                store(mine.L, L_row, me.rows);
            }
        }
    }
}

// Calls f with rows, D, warps and stages for this shape and the shared memory that the device allows. Two blocks of
// D 64 or 128 share a multiprocessor: with three or more, the first loads of some arrive late.
template <int ROWS_, int D_, int WARPS_, int STAGES_> struct sizes {
    static constexpr int ROWS = ROWS_, D = D_, WARPS = WARPS_, STAGES = STAGES_, THREADS = 32 * WARPS;
    static constexpr size_t BYTES = sizeof(decode_tiles<ROWS, D, WARPS, STAGES>);
    static int blocks()
    {
        return blocks_at_a_time(decode_kernel<ROWS, D, WARPS, STAGES>, THREADS, BYTES, D < 64 ? 32 : 2);
    }
};
template <int D, int WARPS, int STAGES, class F> static auto with_sizes(const decode_shape *shape, F f)
{
    constexpr int FEWER = D == 128 ? 2 : 4;
    if (!fits<decode_tiles<32, D, WARPS, STAGES>>()) return f(sizes<16, D, 2, FEWER>());
    return packed_rows(*shape) <= 16 ? f(sizes<16, D, WARPS, STAGES>()) : f(sizes<32, D, WARPS, STAGES>());
}
template <class F> static auto with_sizes(const decode_shape *shape, F f)
{
    switch (shape->head_dim) {
    case 16: return with_sizes<16, 4, 6>(shape, f);
    case 32: return with_sizes<32, 4, 6>(shape, f);
    case 64: return with_sizes<64, 4, 4>(shape, f);
    default: return with_sizes<128, 4, 2>(shape, f);
    }
}

size_t flash_decode_int8_workspace(const decode_shape *shape)
{
    if (wb_check_decode_shape("flash_decode_int8", shape) != WB_OK) return 0;
    return with_sizes(shape, [](auto s) { return s.blocks() * 2 * sizeof(part<s.ROWS, s.D>); });
}

wb_status flash_decode_int8(
    bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale, const float *V_scale,
    const int *page_table, const int *kv_len, void *workspace, size_t workspace_bytes, const decode_shape *shape,
    wb_stream stream)
{
    const wb_status status = wb_check_decode_int8(
        "flash_decode_int8", O, L, Q, K, V, K_scale, V_scale, page_table, kv_len, workspace, workspace_bytes,
        flash_decode_int8_workspace(shape), shape);
    if (status != WB_OK) return status;
    return with_sizes(shape, [&](auto s) {
        const auto parts = (part<s.ROWS, s.D> *)workspace;
        const dim3 teams = teams_of<s.ROWS>(*shape, s.blocks());
        const auto kernel = decode_kernel<s.ROWS, s.D, s.WARPS, s.STAGES>;
        kernel<<<teams, s.THREADS, s.BYTES, stream>>>(
            O, L, Q, K, V, K_scale, V_scale, page_table, kv_len, parts, *shape);
        WB_CUDA(cudaGetLastError());
        const auto merge = merge_kernel<s.ROWS, s.D, KEYS * s.WARPS>;
        const dim3 grid(teams.x, teams.y, (s.ROWS + 31) / 32);
        if (!launch_early(merge, grid, 32 * at_once, 0, stream, O, L, parts, kv_len, *shape, INFINITY))
            merge<<<grid, 32 * at_once, 0, stream>>>(O, L, parts, kv_len, *shape, INFINITY);
        WB_CUDA(cudaGetLastError());
        return WB_OK;
    });
}
