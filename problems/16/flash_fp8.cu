// flash_fp8.cu - problem 10 with Q, K and V in eight bits: e4m3, floats of 1 sign, 4 exponent and 3 fraction bits,
// scaled by powers of two. The tensor cores multiply them twice as fast as bf16. What else is new: P has registers of
// its own; the maximum is computed only where sums show that it is needed; and the sums of the tensor cores are added
// to float32 before they lose too much.
#include "workbook.h"
#include "hopper.cuh"
#include "e4m3.cuh"

constexpr int BC = 64;  // keys of a tile: as the contract has them

template <int D, int LEVELS> union result_tile {  // of a warpgroup
    tma_tile<64, D> O;
    fragments<LEVELS == 2 ? D : 8> sum;  // of the products until now, in float32; with one level nothing
};

// What a block keeps in shared memory. At D = 256 two sums have 128 KB, and leave room for rings of two tiles.
template <int D, int GROUPS, int LEVELS> struct forward_tiles {
    static constexpr int stages = D == 256 && LEVELS == 2 ? 2 : 4;
    ring<e4m3_tile<BC, D>, stages> K;
    ring<e4m3_tile<D, BC>, stages> V;  // transposed
    ring<e4m3_tile<64, D>, GROUPS> Q;  // one a warpgroup
    result_tile<D, LEVELS> result[GROUPS];
};

// One step of the online softmax: P = 2^(S factor + V_exponent - m), in e4m3; l is their sum without V's powers of
// two, but for `unit`, that of the walk's first tile. m is near enough to the maximum that no weight is beyond e4m3.
// Returns whether O has to be multiplied by alpha.
template <bool FIRST> TILE_FN bool softmax_step(
    e4m3_weights<BC> &P, const reg_tile<16, BC> &S, row_vec<16> &m, row_vec<16> &l, row_vec<16> &alpha,
    const row_vec<16> &factor, int V_exponent, int unit)
{
    constexpr float largest_e4m3 = 448, room = 3;  // a new maximum's weight is 2^room: a lane's 16 are 128 at most
    //{ softmax: sums tell, raise, again
    // TODO(16) softmax: P under the old m; if the sums show a weight that is too large, raise m.  (about 15 lines)
    (void)P, (void)S, (void)m, (void)l, (void)alpha, (void)factor, (void)V_exponent, (void)unit, (void)largest_e4m3;
    (void)room;
    return false;
    //}
}

// O, in which the tensor cores have added up so much that it begins to lose, goes on to the warpgroup's sum in float32
// and begins anew. m_sum: under which maximum the sum is. `first`: there is none yet; a flag, the same for all lanes:
// see the lesson.
template <int D>
TILE_FN void move_on(fragments<D> &sum, reg_tile<16, D> &O, row_vec<16> &m_sum, const row_vec<16> &m, bool first)
{
    //{ level: a sum in float32
    // TODO(16) level: add O to the sum, rescaled to the new maximum; O begins again at 0.  (about 6 lines)
    (void)sum, (void)O, (void)m_sum, (void)m, (void)first;
    //}
}

// A block owns 64 * GROUPS query rows, each of its computing warps 16, in each of `bunch` heads; it walks over the
// keys from right to left, BC at a time: all as in 10.
template <int D, int GROUPS, bool CAUSAL, int LEVELS>
__global__ __launch_bounds__(128 * (1 + GROUPS), 1) void forward_kernel(
    const __grid_constant__ tensor_map O_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map Q_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map K_map,  // [B, Hkv, Nk, D]
    const __grid_constant__ tensor_map V_map,  // [B, Hkv, tiles * D, BC]
    float *L,                                  // [B, Hq, Nq]
    const int8_t *Q_exponent,                  // [B, Hq, Nq]
    const int8_t *K_exponent,                  // [B, Hkv, tiles]
    const int8_t *V_exponent,                  // [B, Hkv, tiles]
    int heads, int bunch, int side_by_side, int group_size, int Nq, int Nk, float scale)
{
    constexpr int BR = 64 * GROUPS;
    constexpr int every = 1536 / BC;  // tiles of keys that the tensor cores add up on their own
    constexpr int few[] = {40, 32, 24}, many[] = {232, 160, 112};
    using registers = register_shares<GROUPS, few[GROUPS - 2], many[GROUPS - 2]>;
    auto &tiles = shared_memory<forward_tiles<D, GROUPS, LEVELS>>();
    // who am I: side_by_side bunches of heads, counted over the whole batch, share a section of the grid
    const int tiles_of_head = (Nq - 1) / BR + 1, section = blockIdx.x / (side_by_side * tiles_of_head);
    const int n = blockIdx.x % (side_by_side * tiles_of_head);  // in the section
    const int first_head = (section * side_by_side + n % side_by_side) * bunch;
    const int block_row = (tiles_of_head - 1 - n / side_by_side) * BR;
    const int last_head = min(first_head + bunch, heads);
    const int all = (Nk - 1) / BC + 1;                                       // tiles of keys, and
    const int end = ((CAUSAL ? min(Nk, block_row + BR) : Nk) - 1) / BC + 1;  // those that the block sees
    if (threadIdx.x == 0) {
        tiles.Q.init(4);
        tiles.K.init(4 * GROUPS);
        tiles.V.init(4 * GROUPS);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // fetch: one thread the queries, one the keys, one the values
    if (warpgroup_id() == 0) {
        registers::give();
        sender Q(tiles.Q);
        sender K(tiles.K);
        sender V(tiles.V);
        if (threadIdx.x == 0) {
            for (int head = first_head; head < last_head; head++)
                for (int g = 0; g < GROUPS; g++) Q.send(Q_map, block_row + 64 * g, head);
        } else if (threadIdx.x == 32) {
            for (int head = first_head; head < last_head; head++)
                for (int t = end - 1; t >= 0; t--) K.send(K_map, t * BC, head / group_size);
        } else if (threadIdx.x == 64) {
            //{ fetch: V comes transposed
            // TODO(16) fetch: the tiles of V, as those of K, from the last one that the block sees.  (about 2 lines)
            (void)V_map;
            //}
        }
        return;
    }
    registers::take();
    const int group = warpgroup_id() - 1, group_row = block_row + 64 * group, row = group_row + 16 * warp_in_group();
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    const auto &Q = tiles.Q.tile[group];
    auto &sum = tiles.result[group].sum;
    receiver K(tiles.K);
    receiver V(tiles.V);
    turns<GROUPS> turn(group);

    const auto mask = [&](reg_tile<16, BC> &S, int t) {  // keys that do not exist, or come after the query
        const int left = Nk - t * BC;
        if (left < BC || (CAUSAL && row < (t + 1) * BC - 1))
            each(S, [&](float &s, element e) {
                if (e.col >= (CAUSAL ? min(left, row + e.row + 1 - t * BC) : left)) s = -INFINITY;
            });
    };
    for (int head = first_head; head < last_head; head++) {
        reg_tile<16, D> O = {};
        row_vec<16> m, l = {}, alpha;
        fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
        row_vec<16> m_sum = {}, Q_factor, least;
        fill(least, FLT_MIN);  // of a factor: -infinity times 0 would be NaN
        e4m3_weights<BC> P;
        bool moved = false;
        int t = end - 1;
        int left = every - group * (every / GROUPS);  // tiles until O moves on: not in all groups at once
        const int8_t *of_K = K_exponent + (size_t)(head / group_size) * all;
        const int8_t *of_V = V_exponent + (size_t)(head / group_size) * all;
        //{ scales: of a row of Q
        // TODO(16) scales: of this lane's rows of Q, scale2 times the power of two; past the end, 1.  (about 5 lines)
        fill(Q_factor, scale2);
        (void)Q_exponent;
        //}
        const auto factor_of = [&](int tile) {  // of the scores with this tile of keys
            //{ factor: and of a tile of K
            // TODO(16) factor: the row's, times the power of two of this tile of K; at least FLT_MIN.  (about 1 line)
            (void)tile, (void)of_K;
            return max(Q_factor, least);
            //}
        };
        tiles.Q.full[group].wait((head - first_head) & 1);
        for (; CAUSAL && t * BC >= group_row + 64; t--) {  // tiles that only the other warpgroups see
            K.receive(), K.release();
            V.receive(), V.release();
            turn.wait(), turn.pass();
        }
        const int unit = of_V[t];
        //{ overlap: as in 10, but P is made beside the one that is read
        // TODO(16) overlap: the loop of 10, with one P for the product in flight, one being made.  (about 34 lines)
        (void)Q, (void)of_V, (void)unit, (void)left, (void)P, (void)alpha, (void)mask, (void)factor_of, (void)sum;
        (void)moved, (void)m_sum;
        //}
        //{ together: what went on, and what did not
        // TODO(16) together: O includes what was added to the sum.  (about 2 lines)
        //}
        // finalize
        l = row_sum_whole(l);
        divide_rows(O, l);
        each(O, [&](float &o, element) { o *= power_of_two(unit); });
        const row_vec<16> L_row = (m + log2(l) + -(float)unit) * 0.69314718f;  // ln(2): base e

        // store
        store(L + (size_t)head * Nq + row, L_row, Nq - row);
        stores_read();
        warpgroup_meets();  // the tile's last O has left, and all have read their sums
        store(tiles.result[group].O, O);
        store_async(O_map, group_row, head, tiles.result[group].O);
    }
    stores_read();  // the block may not end before
}

template <int D, int GROUPS, bool CAUSAL, int LEVELS> static wb_status launch(
    bf16 *O, float *L, const uint8_t *Q, const uint8_t *K, const uint8_t *V, const int8_t *Q_exponent,
    const int8_t *K_exponent, const int8_t *V_exponent, const attention_shape *shape, wb_stream stream)
{
    constexpr int BR = 64 * GROUPS;
    const auto kernel = forward_kernel<D, GROUPS, CAUSAL, LEVELS>;
    const int bytes = sizeof(forward_tiles<D, GROUPS, LEVELS>), Nq = shape->q_len, Nk = shape->kv_len;
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads,
              group_size = heads / kv_heads;
    tensor_map O_map, Q_map, K_map, V_map;
    wb_status status = describe(O_map, O, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(Q_map, Q, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, Nk, D, BC);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, ((Nk - 1) / BC + 1) * D, BC, D);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    // sections and bunches: see 10; K and V are half as large
    int section = group_size, bunch = 4;
    while (2 * section <= heads && 2ll * section / group_size * Nk * D * 2 * sizeof(*K) <= 32 << 20) section *= 2;
    const long long tiles_of_head = (Nq - 1) / BR + 1, all = tiles_of_head * heads;
    const auto rounds = [&](long long blocks) { return (blocks - 1) / processors + 1; };
    while (bunch > 1 && (CAUSAL ? tiles_of_head * (section / bunch) * 2 < processors * 3
                                : rounds(tiles_of_head * ((heads - 1) / bunch + 1)) * bunch > rounds(all)))
        bunch /= 2;
    const int side = CAUSAL ? (section - 1) / bunch + 1 : 1;
    const long long blocks = tiles_of_head * side * ((heads - 1) / (side * bunch) + 1);
    if (blocks > INT_MAX) return wb_fail(WB_UNSUPPORTED, "flash_fp8: more than %d tiles of queries", INT_MAX);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<(unsigned)blocks, 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, Q_exponent, K_exponent, V_exponent, heads, bunch, side, group_size, Nq, Nk,
        shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

template <int LEVELS> constexpr auto launch_for(int D, int causal)
{
    if (D == 64) return causal ? launch<64, 4, true, LEVELS> : launch<64, 4, false, LEVELS>;
    if (D == 128) return causal ? launch<128, 3, true, LEVELS> : launch<128, 3, false, LEVELS>;
    return causal ? launch<256, 2, true, LEVELS> : launch<256, 2, false, LEVELS>;
}

wb_status flash_fp8(
    bf16 *O, float *L, const uint8_t *Q, const uint8_t *K, const uint8_t *V, const int8_t *Q_exponent,
    const int8_t *K_exponent, const int8_t *V_exponent, int levels, const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_fp8("flash_fp8", O, L, Q, K, V, Q_exponent, K_exponent, V_exponent, levels, shape);
    if (status == WB_OK) status = check_hopper("flash_fp8");
    if (status != WB_OK) return status;
    const auto go = (levels == 2 ? launch_for<2> : launch_for<1>)(shape->head_dim, shape->causal);
    return go(O, L, Q, K, V, Q_exponent, K_exponent, V_exponent, shape, stream);
}
