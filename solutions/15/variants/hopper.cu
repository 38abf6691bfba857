// hopper.cu - flash_block_mask with the primitives of problem 10, for tiles of 128 queries on a GPU of sm_90.
// Everything else uses the reference solution.
//
// One warpgroup fetches, two compute, each for 64 queries. A step takes two tiles of keys, so that products are as
// large as in problem 10: the next two of the block's lists, wherever they are. An odd list ends with its last tile a
// second time, of which nobody sees anything. The bits of a step are asked for before its products, and each lane
// keeps those of its rows in registers.
// Random shapes that it is chosen for: 63 of 81 masks given as data (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

#define flash_block_mask flash_block_mask_key
#include "../flash_block_mask.cu"
#undef flash_block_mask

namespace hopper
{
constexpr int GROUPS = 2, BR = 64 * GROUPS, HALVES = 2;  // of a step

// Tiles of the keys on their way, two at a time: full when both have come.
template <int D> struct pair_ring {
    tma_tile<KV_TILE, D> tile[2][HALVES];
    signal full[2], empty[2];
    TILE_FN void init()
    {
        for (int i = 0; i < 2; i++) full[i].init(HALVES), empty[i].init(4 * GROUPS);
    }
};

// One end of it: which pair comes next, and in which phase its signals are.
template <int D> struct ring_end {
    pair_ring<D> &pairs;
    int stage = 0;
    uint32_t phase = 0;
    TILE_FN explicit ring_end(pair_ring<D> &r) : pairs(r) {}
    TILE_FN void send(const tensor_map &map, int head, int key, int other_key)  // one thread
    {
        pairs.empty[stage].wait(phase ^ 1);
        load_async(pairs.tile[stage][0], map, key, head, pairs.full[stage]);
        load_async(pairs.tile[stage][1], map, other_key, head, pairs.full[stage]);
        next();
    }
    TILE_FN const tma_tile<KV_TILE, D> *receive()
    {
        pairs.full[stage].wait(phase);
        return pairs.tile[stage];
    }
    TILE_FN void release()
    {
        if (lane_id() == 0) pairs.empty[stage].arrive();
        next();
    }
    TILE_FN void next()
    {
        if (++stage == 2) stage = 0, phase ^= 1;
    }
};

template <int D> struct tiles_of_block {
    pair_ring<D> K, V;
    tma_tile<64, D> Q[GROUPS], O[GROUPS];
    signal Q_full[GROUPS], Q_empty[GROUPS];
};

// The block's lists: first the tiles seen whole, then those seen in part.
struct two_lists {
    const int *whole, *part;
    int wholes, end;
    TILE_FN two_lists(const block_mask &mask, int list)
        : whole(mask.whole + mask.whole_start[list]), part(mask.part + mask.part_start[list]),
          wholes(mask.whole_start[list + 1] - mask.whole_start[list]),
          end(wholes + mask.part_start[list + 1] - mask.part_start[list])
    {
    }
    TILE_FN int key(int n) const  // of the n-th tile the first; past the last, of the last
    {
        n = min(n, end - 1);
        return KV_TILE * (n < wholes ? whole[n] : part[n - wholes]);
    }
};

// Of a lane's two rows the bits of a step, shifted as in the key.
struct step_bits {
    uint32_t x[HALVES][2][2];
    TILE_FN void load(
        const two_lists &lists, const uint32_t *bits,
        int step)  // bits: of the lane's upper row in the first tile of `part`
    {
        TILE_UNROLL
        for (int h = 0; h < HALVES; h++) {
            const int n = HALVES * step + h;
            TILE_UNROLL
            for (int i = 0; i < 2; i++) {
                uint2 row = n < lists.wholes ? make_uint2(~0u, ~0u) : make_uint2(0, 0);
                if (n >= lists.wholes && n < lists.end)
                    row = *reinterpret_cast<const uint2 *>(bits + ((size_t)(n - lists.wholes) * BR + 8 * i) * 2);
                x[h][i][0] = row.x >> lane_id() % 4 * 2, x[h][i][1] = row.y >> lane_id() % 4 * 2;
            }
        }
    }
    TILE_FN void hide(reg_tile<16, KV_TILE> (&S)[HALVES]) const
    {
        TILE_UNROLL
        for (int h = 0; h < HALVES; h++)
            each(S[h], [&](float &s, element e) {
                const int bit = e.col_slot % 8 / 2 * 8 + e.col_slot % 2;
                if (!(x[h][e.row_slot][e.col_slot / 8] >> bit & 1)) s = -INFINITY;
            });
    }
};

// As in problem 10, over two tiles: S becomes P. Returns whether O has to be multiplied by alpha.
TILE_FN bool
softmax_step(reg_tile<16, KV_TILE> (&S)[HALVES], row_vec<16> &m, row_vec<16> &l, row_vec<16> &alpha, float scale2)
{
    const row_vec<16> S_max = max(row_max_part(S[0]), row_max_part(S[1])) * scale2;
    const bool outgrown = any_above(S_max, m + 8.0f);
    if (outgrown) {
        const row_vec<16> m_new = max(m, row_max_whole(S_max));
        alpha = exp2(m - m_new), m = m_new, l = l * alpha;
    }
    TILE_UNROLL
    for (int h = 0; h < HALVES; h++) {
        each(S[h], [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });
        l = l + row_sum_part(S[h]);
    }
    return outgrown;
}

// A block owns a tile of queries in each of `bunch` heads of a sequence, which share its lists, one head after the
// other.
template <int D> __global__ __launch_bounds__(128 * (1 + GROUPS), 1) void kernel(
    const __grid_constant__ tensor_map O_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map Q_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map K_map,  // [B, Hkv, Nk, D]
    const __grid_constant__ tensor_map V_map,  // [B, Hkv, Nk, D]
    float *L,                                  // [B, Hq, Nq]
    const block_mask mask, int q_heads, int bunch, int group_size, int Nq, float scale)
{
    using registers = register_shares<GROUPS, 40, 232>;
    auto &tiles = shared_memory<tiles_of_block<D>>();

    // who am I: late rows often see the most keys
    const int bunches = q_heads / bunch, q_tiles = (Nq - 1) / BR + 1, tile = q_tiles - 1 - blockIdx.x / bunches;
    const int first_head = blockIdx.y * q_heads + blockIdx.x % bunches * bunch, block_row = tile * BR;
    const int list = (mask.masks > 1 ? blockIdx.y * (q_tiles + 1) : 0) + tile;
    const two_lists lists(mask, list);
    const int steps = (lists.end + HALVES - 1) / HALVES;

    if (threadIdx.x == 0) {
        tiles.K.init(), tiles.V.init();
        for (int g = 0; g < GROUPS; g++) tiles.Q_full[g].init(1), tiles.Q_empty[g].init(4);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // fetch: one thread the queries, one the keys, one the values
    if (warpgroup_id() == 0) {
        registers::give();
        ring_end<D> K(tiles.K), V(tiles.V);
        for (int head = first_head; head < first_head + bunch && steps > 0; head++) {
            for (int g = 0; g < GROUPS && threadIdx.x == 0; g++) {
                tiles.Q_empty[g].wait(((head - first_head) & 1) ^ 1);
                load_async(tiles.Q[g], Q_map, block_row + 64 * g, head, tiles.Q_full[g]);
            }
            for (int n = 0; n < lists.end && threadIdx.x == 32; n += HALVES)
                K.send(K_map, head / group_size, lists.key(n), lists.key(n + 1));
            for (int n = 0; n < lists.end && threadIdx.x == 64; n += HALVES)
                V.send(V_map, head / group_size, lists.key(n), lists.key(n + 1));
        }
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1, group_row = block_row + 64 * group, row = group_row + 16 * warp_in_group();
    const int row_in_tile = row - block_row + lane_id() / 4;
    const uint32_t *bits = mask.bits + ((size_t)mask.part_start[list] * BR + row_in_tile) * 2;
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    const auto &Q = tiles.Q[group];
    ring_end<D> K(tiles.K), V(tiles.V);

    for (int head = first_head; head < first_head + bunch; head++) {
        reg_tile<16, D> O = {};
        row_vec<16> m, l = {}, alpha;
        fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
        if (steps > 0) {
            weights<KV_TILE> P[HALVES];
            step_bits seen;
            tiles.Q_full[group].wait((head - first_head) & 1);
            // Steps whose tiles are both whole need no bits.
            const auto ask = [&](int step) {
                if (HALVES * step + HALVES > lists.wholes) seen.load(lists, bits, step);
            };
            const auto hide = [&](reg_tile<16, KV_TILE>(&S)[HALVES], int step) {
                if (HALVES * step + HALVES > lists.wholes) seen.hide(S);
            };
            {  // the first step: nothing to overlap with
                reg_tile<16, KV_TILE> S[HALVES];
                ask(0);
                const auto *K_tile = K.receive();
                for (int h = 0; h < HALVES; h++) mma_ABt_async(S[h], Q, K_tile[h]);  // S = Q K^T
                for (int h = 0; h < HALVES; h++) products_done<0>(S[h]);
                K.release();
                hide(S, 0);
                softmax_step(S, m, l, alpha, scale2);
                for (int h = 0; h < HALVES; h++) round_to(P[h], S[h]);
            }
            for (int step = 1; step < steps; step++) {
                reg_tile<16, KV_TILE> S[HALVES];
                ask(step);
                const auto *K_tile = K.receive();
                for (int h = 0; h < HALVES; h++) mma_ABt_async(S[h], Q, K_tile[h]);  // S = Q K^T
                const auto *V_tile = V.receive();
                for (int h = 0; h < HALVES; h++) mma_AB_async(O, P[h], V_tile[h]);  // O += P V, of the step before
                for (int h = 0; h < HALVES; h++) products_done<HALVES>(S[h]);       // S is there, O is not
                K.release();
                hide(S, step);
                const bool outgrown = softmax_step(S, m, l, alpha, scale2);
                products_done<0>(O);
                V.release();
                for (int h = 0; h < HALVES; h++) round_to(P[h], S[h]);  // P V no longer reads the old ones
                if (outgrown) scale_rows(O, alpha);
            }
            if (lane_id() == 0) tiles.Q_empty[group].arrive();  // the next head's queries may come
            const auto *V_tile = V.receive();
            for (int h = 0; h < HALVES; h++) mma_AB_async(O, P[h], V_tile[h]);
            products_done<0>(O);
            V.release();
        }

        // finalize: a row that sees no key has l = 0
        l = row_sum_whole(l);
        divide_rows(O, rowwise(l, [](float sum) { return sum > 0 ? sum : 1; }));
        const row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e

        // store
        store(L + (size_t)head * Nq + row, L_row, Nq - row);
        stores_read();
        warpgroup_meets();  // the tile's last O has left
        store(tiles.O[group], O);
        store_async(O_map, group_row, head, tiles.O[group]);
    }
    stores_read();  // the block may not end before
}

template <int D> static wb_status launch(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
    const attention_shape *shape, wb_stream stream)
{
    const int Nq = shape->q_len, Nk = shape->kv_len, q_heads = shape->q_heads, bytes = sizeof(tiles_of_block<D>);
    const int heads = shape->batch * q_heads, kv_heads = shape->batch * shape->kv_heads;
    tensor_map O_map, Q_map, K_map, V_map;
    wb_status status = describe(O_map, O, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(Q_map, Q, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, Nk, D, KV_TILE);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, Nk, D, KV_TILE);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    // As many heads a block as leave four blocks for each multiprocessor: lists are of many lengths.
    const long long tiles = (Nq - 1) / BR + 1, all = tiles * heads;
    int bunch = 4;
    while (bunch > 1 && (q_heads % bunch || all / bunch < 4 * processors)) bunch /= 2;
    const dim3 grid((unsigned)(tiles * (q_heads / bunch)), shape->batch);
    WB_CUDA(cudaFuncSetAttribute(kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<D><<<grid, 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, *mask, q_heads, bunch, heads / kv_heads, Nq, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
}  // namespace hopper

wb_status flash_block_mask(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
    const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_block_mask("flash_block_mask", O, L, Q, K, V, mask, shape);
    if (status != WB_OK) return status;
    if (mask->q_tile != hopper::BR || !fits<hopper::tiles_of_block<128>>() || check_hopper("flash_block_mask") != WB_OK)
        return flash_block_mask_key(O, L, Q, K, V, mask, shape, stream);
    auto go = shape->head_dim == 64 ? hopper::launch<64> : hopper::launch<128>;
    if (shape->head_dim < 64) go = shape->head_dim == 32 ? hopper::launch<32> : hopper::launch<16>;
    return go(O, L, Q, K, V, mask, shape, stream);
}

double flash_block_mask_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim < 64) return INFINITY;
    return wb_forward(shape, device, wb_over_keys(shape, 128, 64, 1));  // as if all tiles were seen
}
