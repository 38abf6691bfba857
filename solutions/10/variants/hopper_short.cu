// hopper_short.cu - flash_hopper for short sequences: a block is one warpgroup with 64 queries and does its own loads,
// so that three or four blocks share an SM, and one computes while others begin and end. hopper_split.cu includes it
// for few blocks: there four or three warpgroups (D 64, 128) have the same 64 queries, distribute the tiles of keys
// among them, and merge their partial results.
//
// 07 and 11 include this file for their windows (#define WINDOWS): then the walk ends where the window begins, and
// goes on at the sinks.
// Random shapes that it is chosen for: 59 of 375 forward passes (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"
#include "../../10/variants/online_step.cuh"

#ifdef SPLIT_KEYS
constexpr bool SPLIT = true;
#else
constexpr bool SPLIT = false;
#endif

// What a block keeps in shared memory. O takes the place of Q, and what a group hands over that of its own keys.
template <int D, int BC, int GROUPS, int STAGES> struct short_tiles {
    static_assert(GROUPS == 1 || STAGES * BC >= 128, "the floats of O fit into a group's keys");
    tma_tile<64, D> Q;
    tma_tile<BC, D> K[GROUPS][STAGES], V[GROUPS][STAGES];
    ring_signals<STAGES> K_signals[GROUPS], V_signals[GROUPS];
    signal Q_full;
    float m[GROUPS][64], l[GROUPS][64];
};

enum mask_kind { FULL, CAUSAL, WINDOW };

// The tiles of keys that 64 queries see, from right to left: `near` of the window, then those of the sinks that lie
// left of it.
template <int BC, mask_kind MASK> struct walk {
    int right, near, end;  // right: the tile that holds the last key which one of them sees
    TILE_FN walk(int row, int Nk, int W, int sinks)
    {
        right = ((MASK == FULL ? Nk : min(Nk, row + 64)) - 1) / BC;
        const int left = MASK == WINDOW ? max(0, row - W + 1) / BC : 0;
        near = right - left + 1;
        end = near + (MASK == WINDOW ? (min(sinks, left * BC) + BC - 1) / BC : 0);
    }
    TILE_FN int tile(int i) const { return MASK != WINDOW || i < near ? right - i : end - 1 - i; }
};

// A block owns 64 query rows of one head. It walks over the keys from right to left, BC at a time, each group over
// every GROUPS-th tile.
template <int D, int BC, int GROUPS, int STAGES, int BLOCKS, mask_kind MASK>
__global__ __launch_bounds__(128 * GROUPS, BLOCKS) void short_kernel(
    const __grid_constant__ tensor_map O_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map Q_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map K_map,  // [B, Hkv, Nk, D]
    const __grid_constant__ tensor_map V_map,  // [B, Hkv, Nk, D]
    float *L,                                  // [B, Hq, Nq]
    const float *sink_logits,                  // [Hq], or null: none
    int heads, int side_by_side, int q_heads, int group_size, int Nq, int Nk, int W, int sinks, float scale)
{
    auto &tiles = shared_memory<short_tiles<D, BC, GROUPS, STAGES>>();

    // who am I: side_by_side heads share a section of the grid, as in 10, late rows first
    const int tiles_of_head = (Nq - 1) / 64 + 1, section = blockIdx.x / (side_by_side * tiles_of_head);
    const int n = blockIdx.x % (side_by_side * tiles_of_head);  // in the section
    const int head = section * side_by_side + n % side_by_side, kv_head = head / group_size;
    const int block_row = (tiles_of_head - 1 - n / side_by_side) * 64;
    const walk<BC, MASK> keys(block_row, Nk, W, sinks);
    const int group = warpgroup_id(), warp_row = 16 * warp_in_group(), row = block_row + warp_row;

    if (head >= heads) return;

    if (threadIdx.x == 0) {
        tiles.Q_full.init(1);
        for (int g = 0; g < GROUPS; g++) tiles.K_signals[g].init(4), tiles.V_signals[g].init(4);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // fetch: a thread of each group, now as much as there is room for, later where a tile goes back
    sender K_sender(tiles.K[group], tiles.K_signals[group]);
    sender V_sender(tiles.V[group], tiles.V_signals[group]);
    const auto fetch = [&](auto &ring, const tensor_map &map, int i) {
        if (threadIdx.x % 128 == 0 && i < keys.end) ring.send(map, keys.tile(i) * BC, kv_head);
    };
    int t = group;  // of the walk
    if (threadIdx.x == 0) load_async(tiles.Q, Q_map, block_row, head, tiles.Q_full);
    for (int i = 0; i < STAGES; i++) {
        fetch(K_sender, K_map, t + i * GROUPS);
        fetch(V_sender, V_map, t + i * GROUPS);
    }

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    receiver K(tiles.K[group], tiles.K_signals[group]);
    receiver V(tiles.V[group], tiles.V_signals[group]);
    const auto mask = [&](reg_tile<16, BC> &S) {  // keys that do not exist, come after the query, or left of its window
        const int key = keys.tile(t) * BC, left = Nk - key;
        if (left < BC || (MASK != FULL && row < key + BC - 1))
            each(S, [&](float &s, element e) {
                if (e.col >= (MASK != FULL ? min(left, row + e.row + 1 - key) : left)) s = -INFINITY;
            });
        if (MASK == WINDOW && row + 15 - key >= W)
            each(S, [&](float &s, element e) {
                if (row + e.row - key - e.col >= W && key + e.col >= sinks) s = -INFINITY;
            });
    };

    reg_tile<16, D> O = {};
    row_vec<16> m, l = {}, alpha;
    fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
    weights<BC> P;
    tiles.Q_full.wait(0);
    if (t < keys.end) {  // else there are fewer tiles than groups
        {
            reg_tile<16, BC> S;
            mma_ABt_async(S, tiles.Q, K.receive());
            products_done<0>(S);
            K.release();
            fetch(K_sender, K_map, t + STAGES * GROUPS);
            mask(S);
            online_step(S, m, l, alpha, scale2);
            round_to(P, S);
        }
        while ((t += GROUPS) < keys.end) {
            reg_tile<16, BC> S;
            mma_ABt_async(S, tiles.Q, K.receive());  // S = Q K^T
            mma_AB_async(O, P, V.receive());         // O += P V, of the tile before
            products_done<1>(S);                     // all but one: S is there, O is not
            K.release();
            fetch(K_sender, K_map, t + STAGES * GROUPS);
            mask(S);
            const bool outgrown = online_step(S, m, l, alpha, scale2);
            products_done<0>(O);
            V.release();
            fetch(V_sender, V_map, t + (STAGES - 1) * GROUPS);
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O, alpha);
        }
        mma_AB_async(O, P, V.receive());
        products_done<0>(O);
        V.release();
    }
    warpgroup_meets();  // no warp's product reads Q or K any more

    // merge: the first group has the sum, always in the same order
    l = row_sum_whole(l);
    if (GROUPS > 1) {
        if (group > 0) {
            store(reinterpret_cast<fragments<D> &>(tiles.K[group]), O);
            store(tiles.m[group] + warp_row, m, 16);
            store(tiles.l[group] + warp_row, l, 16);
        }
        meet<GROUPS>();  // all have done so
        if (group > 0) return;
        for (int g = 1; g < min(GROUPS, keys.end); g++) {
            row_vec<16> m_other, l_other;
            load(m_other, tiles.m[g] + warp_row, 16, 0);
            load(l_other, tiles.l[g] + warp_row, 16, 0);
            const row_vec<16> m_new = max(m, m_other), a = exp2(m - m_new), b = exp2(m_other - m_new);
            m = m_new, l = l * a + l_other * b;
            const auto &O_other = reinterpret_cast<const fragments<D> &>(tiles.K[g]);
            TILE_UNROLL
            for (int c = 0; c < D / 8; c++) {
                const float4 x = O_other.at[c][threadIdx.x];
                float *o = O.x[0][c];
                o[0] = o[0] * a.x[0] + x.x * b.x[0], o[1] = o[1] * a.x[0] + x.y * b.x[0];
                o[2] = o[2] * a.x[1] + x.z * b.x[1], o[3] = o[3] * a.x[1] + x.w * b.x[1];
            }
        }
    }

    // finalize
    row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e
    if (sink_logits) {  // one more term in the denominator: exp(L) becomes exp(L) + exp(sink), for O, in l, and for L
        row_vec<16> sink;
        fill(sink, sink_logits[head % q_heads]);
        const row_vec<16> above = sink - L_row;
        l = rowwise(l, above, [](float sum, float a) { return sum * (1 + expf(a)); });
        L_row = max(L_row, sink) + rowwise(above, [](float a) { return log1pf(expf(-fabsf(a))); });
    }
    divide_rows(O, l);

    // store
    store(L + (size_t)head * Nq + row, L_row, Nq - row);
    store(tiles.Q, O);
    store_async(O_map, block_row, head, tiles.Q);
    stores_read();  // the block may not end before
}

// Under a mask, as many heads as have their keys and values in the 24 MB of the L2 cache that are for all together: in
// sections about as large as each other, or the last would end long after the others (653 causal shapes on an H100:
// 0.984 of the time that powers of two in 32 MB take, 0.79 to 1.10).
static int side_by_side(const attention_shape *shape, mask_kind mask)
{
    const int kv_heads = shape->batch * shape->kv_heads, group = shape->q_heads / shape->kv_heads, Nk = shape->kv_len;
    if (mask == FULL) return group;
    const long long cached = 4ll * shape->head_dim * (mask == WINDOW ? min(Nk, min(Nk, shape->window) + 64) : Nk);
    const int most = (int)max(1ll, (24 << 20) / cached), sections = (kv_heads - 1) / most + 1;
    return ((kv_heads - 1) / sections + 1) * group;
}

template <int D, int GROUPS, int STAGES, int BLOCKS, mask_kind MASK> static wb_status launch(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    constexpr int BC = 64, bytes = sizeof(short_tiles<D, BC, GROUPS, STAGES>);
    static_assert(bytes * BLOCKS <= 227 * 1024, "a multiprocessor has 227 KB of shared memory for blocks");
    const auto kernel = short_kernel<D, BC, GROUPS, STAGES, BLOCKS, MASK>;
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads;
    const int Nq = shape->q_len, Nk = shape->kv_len;
    tensor_map O_map, Q_map, K_map, V_map;
    wb_status status = describe(O_map, O, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(Q_map, Q, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, Nk, D, BC);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, Nk, D, BC);
    if (status != WB_OK) return status;
    const int side = side_by_side(shape, MASK);
    const long long blocks = ((Nq - 1) / 64 + 1ll) * ((heads - 1) / side + 1) * side;
    if (blocks > INT_MAX) return wb_fail(WB_UNSUPPORTED, "flash_hopper: more than %d tiles of queries", INT_MAX);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<(unsigned)blocks, 128 * GROUPS, bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, sink_logits, heads, side, shape->q_heads, heads / kv_heads, Nq, Nk,
        shape->window, shape->sinks, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

template <mask_kind MASK> static wb_status launch_short(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    constexpr int GROUPS = SPLIT ? 3 : 1, GROUPS_64 = SPLIT ? 4 : 1, BLOCKS = SPLIT ? 1 : 3, BLOCKS_64 = SPLIT ? 1 : 4;
    constexpr int STAGES = SPLIT ? 2 : 1;  // of D 128: where there are other blocks they need the room more
    const auto go =
        shape->head_dim == 64 ? launch<64, GROUPS_64, 2, BLOCKS_64, MASK> : launch<128, GROUPS, STAGES, BLOCKS, MASK>;
    return go(O, L, Q, K, V, sink_logits, shape, stream);
}

static double short_microseconds(const attention_shape *shape, const wb_device *device, mask_kind mask)
{
    if (device->capability != 9 || shape->head_dim < 64) return INFINITY;
    const int most = shape->head_dim == 64 ? 4 : 3, columns = 64 * (SPLIT ? most : 1);
    const int heads = shape->batch * shape->q_heads, side = side_by_side(shape, mask);
    wb_walks w = wb_over_keys(shape, 64, columns, SPLIT ? 1 : most);
    if (mask != FULL) w.before = (heads - 1) / side * side / (double)heads;
    return wb_forward_again(shape, device, w, wb_again(shape, device, &w, 64, columns, side / wb_group_of(shape)));
}

#ifndef WINDOWS
wb_status flash_hopper(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_forward("flash_hopper", O, L, Q, K, V, shape);
    if (status == WB_OK) status = check_hopper("flash_hopper");
    if (status != WB_OK) return status;
    return (shape->causal ? launch_short<CAUSAL> : launch_short<FULL>)(O, L, Q, K, V, nullptr, shape, stream);
}
double flash_hopper_microseconds(const attention_shape *shape, const wb_device *device)
{
    return short_microseconds(shape, device, shape->causal ? CAUSAL : FULL);
}
#endif
