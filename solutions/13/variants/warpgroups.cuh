// warpgroups.cuh - what 13's and 14's hopper.cu share: of a block one or two warpgroups fetch and one to three compute,
// each for 64 packed rows. All use a tile of keys that was loaded once. The split and the merge are the reference
// solution's, which stands before it. Caches are not split where that ends no later (enough_for).
#pragma once
#include "hopper.cuh"
#include "../../10/variants/online_step.cuh"

#include <limits.h>
#include <type_traits>

namespace hopper
{
// GROUPS warpgroups compute, BC keys a step, and FETCH fetch; two blocks share a multiprocessor where one computes.
// FEW and MANY: see register_shares.
template <int D_, int GROUPS_, int BC_, int FETCH_, int FEW_, int MANY_> struct sizes {
    static constexpr int D = D_, GROUPS = GROUPS_, BC = BC_, FETCH = FETCH_, BLOCKS = GROUPS == 1 ? 2 : 1;
    static constexpr int ROWS = 64 * GROUPS, THREADS = 128 * (FETCH + GROUPS);
    static constexpr int ROOM = 228 * 1024 / BLOCKS - 1024 - 512;  // bytes of a block's tiles: the rest are signals
    using registers = register_shares<GROUPS, FEW_, MANY_, BLOCKS, FETCH>;
};

// Tiles of BC keys and of their values by turns: of the block's n-th tile the keys are the 2 n-th, the values the
// next. A tile is full when each of the four warps that fetch it has brought its rows, and empty when each of those
// that compute has released it.
template <class Sizes, int SLOTS_> struct tiles_of_block {
    static constexpr int SLOTS = SLOTS_;
    static_assert(SLOTS >= 4, "the last two steps have their tiles in four slots");
    tma_tile<Sizes::BC, Sizes::D> tile[SLOTS];
    signal full[SLOTS], empty[SLOTS];
    TILE_FN void init()  // all threads of the block call
    {
        if (threadIdx.x == 0) {
            for (int i = 0; i < SLOTS; i++) full[i].init(4), empty[i].init(4 * Sizes::GROUPS);
            signals_ready();
        }
        __syncthreads();  // the signals are there for all
    }
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

// Of each 64 keys of a tile a warp that fetches brings 16, which lie in one page: that, and the first's place there.
// A lane looks up the pages of one tile, a warp those of 32: a tile's loads would wait for its own look-up.
template <int BC> struct fetched {
    int pages[BC / 64] = {}, my_key = 16 * warp_in_group(), page_bits;
    int first = 0, b = -1;                                   // the tile of lane 0, and its sequence
    TILE_FN explicit fetched(int bits) : page_bits(bits) {}  // a page has 1 << bits keys
    TILE_FN void look_up(const int *page_table, const place &at, const decode_shape &shape)  // all lanes call
    {
        if (at.b == b && at.t < first + 32) return;
        b = at.b, first = at.t;
        TILE_UNROLL
        for (int h = 0; h < BC / 64; h++) {
            const int key = min(first + lane_id(), (at.keys - 1) / BC) * BC + 64 * h + my_key;
            if (key < at.keys) {
                pages[h] = page_table[(size_t)b * shape.max_pages + (key >> page_bits)];
                expect_page(pages[h], shape.pages, b, key);
            }
        }
    }
    // The team's next tile, early: the addresses of its loads would wait for the pages. False: there is none.
    TILE_FN bool next(place &at, const tile_row<BC> &all, const int *page_table, const decode_shape &shape)
    {
        all.step(at);
        if (at.is_mine()) look_up(page_table, at, shape);
        return at.is_mine();
    }
    TILE_FN int page(const place &at, int h) const { return __shfl_sync(0xffffffffu, pages[h], at.t - first); }
    TILE_FN int in_page(const place &at, int h, const decode_shape &shape) const
    {
        return (at.t * BC + 64 * h + my_key) & (shape.page_size - 1);
    }
};

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

// A warpgroup's rows of the team's share. scores(S, slot) is said of scores before the mask, weigh(P, position) of
// weights when l has them. O counts in UNITs, and K as well: so many are one.
template <class Sizes, class Tiles, class Scores, class Weigh> TILE_FN void compute(
    Tiles &tiles, const member<Sizes::ROWS> &me, const tile_row<Sizes::BC> &all, place at, bf16 *O, float *L,
    const bf16 *Q, part<Sizes::ROWS, Sizes::D> *parts, const decode_shape &shape, float unit, Scores scores,
    Weigh weigh)
{
    constexpr int D = Sizes::D, BC = Sizes::BC, SLOTS = Tiles::SLOTS;
    const int my_row = 64 * warpgroup_id() + 16 * warp_in_group(), rows = me.rows - my_row;  // that exist from there on
    const float scale2 = shape.scale * 1.44269504f * unit;  // times log2(e): the scores in base 2, for exp2
    position<SLOTS> K_at = {0, 0}, V_at = {1, 0};
    turns<Sizes::GROUPS> turn(warpgroup_id());  // at products: without, D 64 takes up to 18 % longer (H200, 2026-12-01)
    const auto receive = [&](const position<SLOTS> &p) -> const tma_tile<BC, D> & {
        tiles.full[p.slot].wait(p.phase);
        return tiles.tile[p.slot];
    };
    const auto release = [&](position<SLOTS> &p) {  // this warp no longer reads it
        if (lane_id() == 0) tiles.empty[p.slot].arrive();
        p.step(2);
    };

    while (at.is_mine()) {  // what is the team's of a sequence
        const int begin = at.t, steps = at.end - begin;
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
            scores(S, K_at.slot);
            release(K_at);
            mask(S, begin);
            online_step(S, m, l, alpha, scale2);
            weigh(S, V_at);
            round_to(P, S);
        }
        for (int i = 1; i < steps; i++) {
            reg_tile<16, BC> S;
            const auto &K = receive(K_at), &V = receive(V_at);
            turn.wait();
            mma_ABt_async(S, Q_reg, K);  // S = Q K^T
            mma_AB_async(O_reg, P, V);   // O += P V, of the tile before
            turn.pass();
            products_done<1>(S);  // all but one: S is there, O is not
            scores(S, K_at.slot);
            release(K_at);
            mask(S, begin + i);
            const bool outgrown = online_step(S, m, l, alpha, scale2);
            products_done<0>(O_reg);
            release(V_at);
            weigh(S, V_at);
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O_reg, alpha);
        }
        mma_AB_async(O_reg, P, receive(V_at));
        products_done<0>(O_reg);
        release(V_at);

        // finalize: a row that has seen nothing has l = 0, and gets O = 0 and L = -infinity
        l = row_sum_whole(l);
        divide_rows(O_reg, rowwise(l, [=](float x) { return x > 0 ? x / unit : 1; }));
        const row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e

        // store. A sequence begun here and not ended is the block's second part, all else its first.
        at.t = at.end - 1;
        if (begin == 0 && all.ends(at)) {
            store(O + row * D, O_reg, rows);
            store(L + row, L_row, rows);
        } else {
            auto &part_of_it = parts[2 * me.block + (begin == 0)];
            TILE_UNROLL
            for (int c = 0; c < D / 8; c++)
                for (int i = 0, r = lane_id() / 4; i < 2; i++, r += 8)
                    if (r < rows)
                        *reinterpret_cast<float2 *>(&part_of_it.O[my_row + r][8 * c + lane_id() % 4 * 2]) =
                            float2{O_reg.x[0][c][2 * i], O_reg.x[0][c][2 * i + 1]};
            store(part_of_it.L + my_row, L_row, 16);
        }
        all.step(at);
    }
}

// ------------------------ the host

// Calls f with the sizes for this shape. CONVERTS: the cache is not of bf16. False, and f is not called, where the
// reference solution is to do it.
template <bool CONVERTS, class F> static bool with_sizes(const char *function, const decode_shape *shape, F f)
{
    const int rows = packed_rows(*shape), D = shape->head_dim;
    using wide = std::conditional_t<CONVERTS, sizes<128, 2, 64, 2, 72, 184>, sizes<128, 2, 128, 1, 56, 224>>;
    using two = std::conditional_t<CONVERTS, sizes<64, 2, 128, 2, 72, 184>, sizes<64, 2, 128, 1, 72, 216>>;
    using three = std::conditional_t<CONVERTS, sizes<64, 3, 64, 2, 48, 128>, sizes<64, 3, 64, 1, 80, 144>>;
    if (rows <= 16 || D < 64 || !fits<tma_tile<64, 64>[wide::ROOM / (64 * 64 * 2)]>() ||
        check_hopper(function) != WB_OK)
        return false;
    if (D == 128)
        rows <= 64 ? f(sizes<128, 1, 64, 1, 72, 184>()) : f(wide());
    else if (rows <= 64)
        f(sizes<64, 1, 64, 1, 72, 184>());
    else
        rows <= 128 || rows > 192 ? f(two()) : f(three());
    return true;
}

// As for tile_row::share; 0: a team for each sequence. That is done as soon as equal shares and the merge, which
// takes as long as 448 keys, where caches are short (of 320 drawn shapes, of all kinds of lengths, the mean takes 1.7
// % more than the better of both; H200, 2026-11-30). Where they are long the blocks decide, since one sequence may be
// the longest by far: at D 128 one block a multiprocessor keeps memory busy, if it does not convert.
template <bool CONVERTS> static float enough_for(const decode_shape &shape, double blocks, int processors, int together)
{
    const double keys = (double)shape.max_pages * shape.page_size, rounds = ceil(blocks / (processors * together));
    if (keys > 1536)
        return CONVERTS || shape.head_dim < 128 || rounds > 1 ? INFINITY : (float)(processors * shape.batch / blocks);
    const bool whole =
        shape.batch <= 65535 && (keys + (together > 1 ? 0 : 64)) * rounds <= keys * blocks / processors + 448;
    return whole ? 0 : INFINITY;
}

// Whether of two blocks that a multiprocessor has room for one does: then half as many parts are merged. Of 150 drawn
// shapes of 17 to 64 rows it takes 0.63 to 1.15 of the time, the mean 0.95, but 1.1 if the cache is converted (H200,
// 2026-12-01). Long caches of D 64 want both.
template <bool CONVERTS> static bool alone(const decode_shape &shape, double blocks, int processors)
{
    const double steps = (double)shape.max_pages * shape.page_size / 64 * blocks / processors;
    return CONVERTS ? blocks == 1 : shape.head_dim == 128 || steps < 64;
}

// The blocks to launch, of the `most` that run at a time.
struct blocks_to_launch {
    dim3 teams;
    float enough;
};
template <class Sizes, bool CONVERTS> static blocks_to_launch blocks_of(const decode_shape &shape, int most)
{
    const int team = members<Sizes::ROWS>(shape), processors = most / Sizes::BLOCKS;
    const double blocks = (double)shape.batch * team;
    const float enough = enough_for<CONVERTS>(shape, blocks, processors, Sizes::BLOCKS);
    if (enough == 0) return {dim3(team, shape.batch), enough};
    return {teams_of<Sizes::ROWS>(shape, alone<CONVERTS>(shape, blocks, processors) ? processors : most), enough};
}

// A number of K or V has so many bytes. `more`: steps that end a sequence; `busy`: what a step takes more where two
// blocks share a multiprocessor. The merge takes 4 us, and a block of two or three warpgroups that compute begins 3 us
// later (on an H200).
template <bool CONVERTS> static double microseconds(const decode_shape *shape, const wb_device *device)
{
    const int rows = packed_rows(*shape), D = shape->head_dim, most = D == 64 ? 192 : 128, room = rows <= 64 ? 2 : 1;
    if (device->capability != 9 || rows <= 16 || D < 64) return INFINITY;
    const wb_costs *c = device->costs;
    const double keys = (double)shape->max_pages * shape->page_size, all = shape->batch * keys;
    const double members = shape->kv_heads * ceil(rows / (rows <= 64 ? 64.0 : rows <= 128 ? 128 : most));
    const double blocks = shape->batch * members, bytes = CONVERTS ? 1 : 2;
    const double enough = enough_for<CONVERTS>(*shape, blocks, device->processors, room);
    const bool whole = enough < INFINITY && keys - 448 <= all / enough;  // if all are of one length
    const bool two =
        room == 2 && (whole ? blocks > device->processors : !alone<CONVERTS>(*shape, blocks, device->processors));
    const double slots = device->processors * (two ? 2.0 : 1), teams = fmax(1, floor(slots / members));
    const double steps = whole ? ceil(blocks / slots) * (c->beginning + ceil(keys / 64))
                               : c->beginning + ceil(all / 64 / teams) + c->more * ceil(shape->batch / teams);
    return c->launch - 4 * whole + 3 * (rows > 64) +
           wb_both((c->step + (two ? c->busy : 0)) * steps, c->megabyte * 2e-6 * bytes * all * members * D);
}
}  // namespace hopper
