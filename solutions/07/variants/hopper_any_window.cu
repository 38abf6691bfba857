// hopper_any_window.cu - flash_sinks on a Hopper GPU for any window and any number of sinks: problem 10's pipeline.
//
// Without a mask, too (FULL), for the variants of 03 and 10, where Nk need not be N.
//
// Two things are new. The walk over the keys ends where the window begins, and goes on at the sinks. And since a short
// window makes short walks, a block stays for many of them: the last product of one runs under the first of the next,
// and while O leaves, scores are computed.
// Random shapes that it is chosen for: 122 of 215 forward passes with a window, 19 of 34 with sinks (records of `make
// duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "hopper.cuh"
#include "../../10/variants/online_step.cuh"

#ifdef SINK_LOGITS  // for problem 11
constexpr bool LOGITS = true;
#else
constexpr bool LOGITS = false;
#endif

// One more term in the denominator: exp(L) becomes exp(L) + exp(sink), for O, in l, and for L.
template <int Rows> TILE_FN void join(row_vec<Rows> &l, row_vec<Rows> &L, const row_vec<Rows> &sink)
{
    const row_vec<Rows> above = sink - L;
    l = rowwise(l, above, [](float sum, float a) { return sum * (1 + expf(a)); });
    L = max(L, sink) + rowwise(above, [](float a) { return log1pf(expf(-fabsf(a))); });
}

// What a block keeps in shared memory. A group gives the values of its last tile back under the first product of its
// next item. Until then it passes over the tiles of keys in between that only other groups see; if these were as many
// as the stages of V, the groups would wait for each other.
template <int D, int BC, int GROUPS, int K_STAGES, int V_STAGES> struct walk_tiles {
    static_assert(
        V_STAGES > (64 * (GROUPS - 1) + BC - 1) / BC,
        "V needs a stage for each tile that a group may pass over, and one");
    tma_tile<BC, D> K[K_STAGES], V[V_STAGES];
    tma_tile<64, D> Q[GROUPS][2], O[GROUPS];  // the next queries come while these are used
    ring_signals<K_STAGES> K_signals;
    ring_signals<V_STAGES> V_signals;
    ring_signals<2> Q_signals[GROUPS];
};

// The tiles of keys that the queries of an item see, from right to left: `in_window` of the window, then those of the
// sinks.
template <int BC> struct walk {
    int right, W, in_window, end;
    TILE_FN walk(int row, int seen, int window, int sinks)  // keys `seen` and beyond are seen by none of them
        : right(seen), W(window), in_window(tiles_to(row)), end(in_window + (max(0, min(sinks, left())) + BC - 1) / BC)
    {
    }
    TILE_FN int tiles_to(int row) const { return (right - max(0, row - W + 1) - 1) / BC + 1; }  // its window's last
    TILE_FN int left() const { return right - in_window * BC; }  // sinks from here on are the window's
    // tile n's first
    TILE_FN int key(int n) const { return n < in_window ? right - (n + 1) * BC : (n - in_window) * BC; }
};

// An item is a tile of queries of a head. Items are dealt to blocks as cards, back and forth, the late queries of all
// heads of a section first: they have the longest walks. Where a section ends with short ones, the next begins with a
// round of its own.
struct item {
    int number, head, tile;  // head: -1 after the last
};
struct item_list {
    int heads, section, dealt, tiles_of_head;  // dealt: the numbers of a section's items, those of no item too
    // As far from the end of its round as the number before from the beginning of its own.
    TILE_FN int after(int number) const { return (2 * (number / (int)gridDim.x) + 2) * (int)gridDim.x - 1 - number; }
    TILE_FN item from(int number) const
    {
        for (;; number = after(number)) {
            const int before = number / dealt * section, n = number % dealt, width = min(section, heads - before);
            if (before >= heads) return {number, -1, 0};
            if (n < width * tiles_of_head) return {number, before + n % width, tiles_of_head - 1 - n / width};
        }
    }
    TILE_FN item first() const { return from(blockIdx.x); }
    TILE_FN item next(const item &i) const { return from(after(i.number)); }
};

// Blocks that share a multiprocessor: those of one group of 64 queries are small.
template <int D, int GROUPS> constexpr int BLOCKS = GROUPS > 1 ? 1 : D == 128 ? 2 : 3;

template <int D, int BC, int GROUPS, int K_STAGES, int V_STAGES, bool SINKS, bool FULL>
__global__ __launch_bounds__(128 * (1 + GROUPS), BLOCKS<D, GROUPS>) void walk_kernel(
    const __grid_constant__ tensor_map O_map,  // [B, Hq, N, D]
    const __grid_constant__ tensor_map Q_map,  // [B, Hq, N, D]
    const __grid_constant__ tensor_map K_map,  // [B, Hkv, Nk, D]
    const __grid_constant__ tensor_map V_map,  // [B, Hkv, Nk, D]
    float *L,                                  // [B, Hq, N]
    const float *sink_logits,                  // [Hq], or null: none
    int heads, int section, int dealt, int q_heads, int group_size, int N, int Nk, int W, int sinks, float scale)
{
    constexpr int BR = 64 * GROUPS;
    constexpr int FEW = GROUPS == 1 ? 24 : GROUPS == 2 ? 40 : 32;
    constexpr int MANY = GROUPS == 3 ? 160 : BLOCKS<D, GROUPS> == 3 ? 136 : 232;
    using registers = register_shares<GROUPS, FEW, MANY, BLOCKS<D, GROUPS>>;
    auto &tiles = shared_memory<walk_tiles<D, BC, GROUPS, K_STAGES, V_STAGES>>();
    if (threadIdx.x == 0) {
        for (int g = 0; g < GROUPS; g++) tiles.Q_signals[g].init(4);
        tiles.K_signals.init(4 * GROUPS);
        tiles.V_signals.init(4 * GROUPS);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    const item_list list = {heads, section, dealt, (N - 1) / BR + 1};
    const auto walk_of = [&](const item &i) {
        int seen = FULL ? Nk : min(i.tile * BR + BR, N);
        if (!FULL && W >= N)
            seen = (seen + BC - 1) / BC * BC;  // so that tiles begin with key 0: fewer reach beyond the diagonal
        return walk<BC>(i.tile * BR, seen, W, SINKS ? sinks : 0);
    };

    // fetch: one thread
    if (warpgroup_id() == 0) {
        registers::give();
        if (threadIdx.x == 0) {
            sender K(tiles.K, tiles.K_signals);
            sender V(tiles.V, tiles.V_signals);
            int turn = 0;
            for (item i = list.first(); i.head >= 0; i = list.next(i), turn++) {
                for (int g = 0; g < GROUPS; g++) {
                    tiles.Q_signals[g].empty[turn % 2].wait(turn / 2 % 2 ^ 1);
                    load_async(
                        tiles.Q[g][turn % 2], Q_map, i.tile * BR + 64 * g, i.head, tiles.Q_signals[g].full[turn % 2]);
                }
                const walk<BC> keys = walk_of(i);
                for (int n = 0; n < keys.end; n++) {
                    K.send(K_map, keys.key(n), i.head / group_size);
                    V.send(V_map, keys.key(n), i.head / group_size);
                }
            }
        }
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1, warp_row = 64 * group + 16 * warp_in_group();
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    receiver Q(tiles.Q[group], tiles.Q_signals[group]);
    receiver K(tiles.K, tiles.K_signals);
    receiver V(tiles.V, tiles.V_signals);
    turns<GROUPS == 2 ? 1 : GROUPS> turn(GROUPS == 2 ? 0 : group);  // two groups are faster without
    auto &O_tile = tiles.O[group];

    reg_tile<16, D> O;
    row_vec<16> m, l, alpha;
    weights<BC> P;
    int unseen = 0;  // tiles of values that only other groups see, until the next that this one does
    const auto pass_over_keys = [&] {
        K.receive(), K.release();
        turn.wait(), turn.pass();
        unseen++;
    };
    const auto pass_over_values = [&] {
        for (; unseen > 0; unseen--) V.receive(), V.release();
    };

    const auto mask = [&](reg_tile<16, BC> &S, const walk<BC> &keys, int row, int n) {
        const int key = keys.key(n);
        if (SINKS && n >= keys.in_window) {
            const int left = min(sinks, keys.left()) - key;
            if (left < BC)  // not all keys of the tile are sinks left of the window's tiles
                each(S, [&](float &s, element e) {
                    if (e.col >= left) s = -INFINITY;
                });
            return;
        }
        if (!FULL && key + BC - 1 > row)  // keys that come after the query
            each(S, [&](float &s, element e) {
                if (e.col > row - key + e.row) s = -INFINITY;
            });
        if (key <= max(row + 15 - W, -1))  // keys left of the window, or of all, but for the sinks
            each(S, [&](float &s, element e) {
                if (e.col <= max(row + e.row - W, -1) - key && !(SINKS && (unsigned)(key + e.col) < (unsigned)sinks))
                    s = -INFINITY;
            });
    };

    // finalize, store
    const auto leave = [&](const item &i) {
        const int row = i.tile * BR + warp_row;
        l = row_sum_whole(l);
        row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e
        if (LOGITS) {
            row_vec<16> sink;
            fill(sink, sink_logits[i.head % q_heads]);
            join(l, L_row, sink);
        }
        divide_rows(O, l);
        store(L + (size_t)i.head * N + row, L_row, N - row);
        stores_read();
        warpgroup_meets();  // the tile's last O has left
        store(O_tile, O);
        store_async(O_map, i.tile * BR + 64 * group, i.head, O_tile);
    };

    item now = list.first();
    if (now.head < 0) return;
    walk<BC> keys = walk_of(now);
    int n = 0;
    const auto find_first = [&] {
        for (n = 0; !FULL && keys.key(n) >= now.tile * BR + 64 * group + 64; n++) pass_over_keys();
    };
    const auto first_step = [&](reg_tile<16, BC> &S) {
        O = {}, l = {};
        fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
        products_done<0>(S);
        K.release();
        mask(S, keys, now.tile * BR + warp_row, n);
        online_step(S, m, l, alpha, scale2);
        round_to(P, S);
    };
    find_first();
    {
        reg_tile<16, BC> S;
        const auto &Q_tile = Q.receive();
        const auto &K_tile = K.receive();
        turn.wait();
        mma_ABt_async(S, Q_tile, K_tile);
        turn.pass();
        pass_over_values();
        first_step(S);
    }
    for (;;) {
        const int row = now.tile * BR + warp_row;
        const int end = SINKS ? keys.end : keys.tiles_to(min(now.tile * BR + 64 * group, keys.right - 1));
        // tiles before `whole` reach beyond the diagonal, those from `edge` on left of a window
        const int whole = FULL ? 0 : (keys.right - row + BC - 2) / BC,
                  edge = (keys.right - max(row + 15 - W, -1) - 1) / BC;
        const auto &Q_tile = tiles.Q[group][Q.stage];
        while (++n < end) {
            reg_tile<16, BC> S;
            const auto &K_tile = K.receive();
            turn.wait();
            mma_ABt_async(S, Q_tile, K_tile);  // S = Q K^T
            mma_AB_async(O, P, V.receive());   // O += P V, of the tile before
            turn.pass();
            products_done<1>(S);  // all but one: S is there, O is not
            K.release();
            if (n < whole || n >= edge) mask(S, keys, row, n);
            const bool outgrown = online_step(S, m, l, alpha, scale2);
            products_done<0>(O);
            V.release();
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O, alpha);
        }
        Q.release();
        for (; n < keys.end; n++) pass_over_keys();

        const item before = now;
        now = list.next(now);
        if (now.head < 0) {
            mma_AB_async(O, P, V.receive());
            products_done<0>(O);
            V.release();
            leave(before);
            break;
        }
        keys = walk_of(now);
        find_first();
        reg_tile<16, BC> S;
        const auto &next_Q = Q.receive();
        const auto &K_tile = K.receive();
        turn.wait();
        mma_AB_async(O, P, V.receive());
        mma_ABt_async(S, next_Q, K_tile);
        turn.pass();
        products_done<1>(O);
        V.release();
        pass_over_values();
        leave(before);
        first_step(S);
    }
    pass_over_values();
    stores_read();  // the block may not end before
}

// A section has as many key heads as have the keys and values of a window in half of the L2 cache (60 MB) together, or
// items for 16 rounds: with fewer, some blocks would get more of the long walks than others. Up to 4608 keys the cache
// is worth more, and two rounds and a half will do (where 16 rounds outgrow the cache, 40 shapes drawn on an H100:
// 0.965 of the time). Without a window 16 MB are better, and six rounds, but up to 2048 keys two and a half: on an H100
// (2026-11-28) six cost 7 % to 12 % where each head has keys of its own (52 shapes), and 0 % to 3 % elsewhere (43).
static int heads_at_once(const attention_shape *shape, int rows, int processors)
{
    const int kv_heads = shape->batch * shape->kv_heads, group_size = shape->q_heads / shape->kv_heads;
    const int N = shape->q_len, keys = min(N, min(N, shape->window) + rows);
    const bool whole = shape->window >= N;
    const int in_cache = ((whole ? 16 : 32) << 20) / (4 * shape->head_dim) / keys,
              half_rounds = N <= (whole ? 2048 : 4608) ? 5
                            : whole                    ? 12
                                                       : 32,
              for_rounds = half_rounds * processors / 2 / ((N - 1) / rows + 1) / group_size + 1;
    const int sections = (kv_heads - 1) / max(in_cache, for_rounds) + 1;
    return (kv_heads - 1) / sections + 1;
}

// Microseconds, in tiles of so many rows and columns, of which a step costs `more` times as much; `blocks` share a
// multiprocessor.
static inline double walk_microseconds(
    const attention_shape *shape, const wb_device *device, int rows, int columns, double more, int blocks = 1)
{
    wb_walks w = wb_over_keys(shape, rows, columns, blocks);
    const int side = shape->causal ? heads_at_once(shape, rows, blocks * device->processors) : 1;
    const double again = wb_again(shape, device, &w, rows, columns, side);
    w.least *= more, w.mean *= more, w.most *= more;
    return wb_forward_again(shape, device, w, again);
}

template <int D, int BC, int GROUPS, int K_STAGES, int V_STAGES, bool SINKS, bool FULL = false>
static wb_status launch_walk(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    constexpr int BR = 64 * GROUPS, bytes = sizeof(walk_tiles<D, BC, GROUPS, K_STAGES, V_STAGES>);
    static_assert(
        (bytes + 1024) * BLOCKS<D, GROUPS> <= 228 * 1024,
        "a multiprocessor has 228 KB, of which each block takes 1 beside its own");
    const auto kernel = walk_kernel<D, BC, GROUPS, K_STAGES, V_STAGES, SINKS, FULL>;
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads, N = shape->q_len;
    const int Nk = shape->kv_len;
    tensor_map O_map, Q_map, K_map, V_map;
    wb_status status = describe(O_map, O, heads, N, D, 64);
    if (status == WB_OK) status = describe(Q_map, Q, heads, N, D, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, Nk, D, BC);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, Nk, D, BC);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    processors *= BLOCKS<D, GROUPS>;
    const int tiles_of_head = (N - 1) / BR + 1, group_size = heads / kv_heads;
    const int at_once = FULL ? 1 : heads_at_once(shape, BR, processors);
    const long long items = (long long)heads * tiles_of_head;
    if (items > INT_MAX / 2) return wb_fail(WB_UNSUPPORTED, "flash_sinks: more than %d tiles of queries", INT_MAX / 2);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int blocks = min((int)items, processors), section = at_once * group_size;
    int dealt = section * tiles_of_head;
    if (!FULL && shape->window >= N) dealt = (dealt - 1) / blocks * blocks + blocks;
    kernel<<<blocks, 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, sink_logits, heads, section, dealt, shape->q_heads, group_size, N, Nk,
        FULL ? INT_MAX : shape->window, shape->sinks, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

#ifndef WALK_TILES  // problems 03, 05 and 10 have their own
static bool walks_here(const char *name)
{
    return fits<walk_tiles<128, 64, 2, 4, 4>>() && fits<walk_tiles<128, 64, 3, 2, 3>>() && check_hopper(name) == WB_OK;
}

// Where walks_here.
template <bool SINKS> static wb_status walk_on_hopper(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const bool small = min(shape->window, shape->q_len) < 768;  // small tiles: less of them lies outside the window
    // With D 16 and 32 the exponentials decide, one a pair, 16 a clock and multiprocessor: three warps to share them,
    // and long steps.
    auto go = small ? launch_walk<128, 64, 2, 4, 4, SINKS> : launch_walk<128, 64, 3, 2, 3, SINKS>;
    if (shape->head_dim == 64) go = small ? launch_walk<64, 64, 3, 6, 6, SINKS> : launch_walk<64, 128, 3, 4, 4, SINKS>;
    if (shape->head_dim == 32) go = small ? launch_walk<32, 64, 3, 6, 6, SINKS> : launch_walk<32, 128, 3, 4, 4, SINKS>;
    if (shape->head_dim == 16) go = small ? launch_walk<16, 64, 3, 6, 6, SINKS> : launch_walk<16, 128, 3, 4, 4, SINKS>;
    return go(O, L, Q, K, V, sink_logits, shape, stream);
}

// `more`: a step with large tiles, of long windows, beside one with small ones.
static double window_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9) return INFINITY;
    const int D = shape->head_dim;
    const bool small = min(shape->window, shape->q_len) < 768;
    return walk_microseconds(
        shape, device, small && D == 128 ? 128 : 192, small || D == 128 ? 64 : 128, small ? 1 : device->costs->more);
}

#ifndef SINK_LOGITS  // problem 11 has its own
namespace not_hopper
{
#include "../flash_sinks.cu"
}

wb_status flash_sinks(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (!walks_here("flash_sinks")) return not_hopper::flash_sinks(O, L, Q, K, V, shape, stream);
    const auto go = shape->sinks ? walk_on_hopper<true> : walk_on_hopper<false>;
    return go(O, L, Q, K, V, nullptr, shape, stream);
}
double flash_sinks_microseconds(const attention_shape *shape, const wb_device *device)
{
    return window_microseconds(shape, device);
}
#endif
#endif
