// flash_hopper.cu - attention on a Hopper GPU: O = softmax(scale Q K^T) V, causal or not, with grouped heads.
// FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608): one warpgroup loads, the others compute, each for 64 queries;
// in each of these, the products of one tile of keys overlap the softmax of the next.
#include "workbook.h"
#include "hopper.cuh"

constexpr int BC = 128;  // keys of a tile

// One end of a ring: which tile comes next, and in which phase its signals are. hopper.cuh has it as the words sender
// and receiver; here it is written by hand.
template <class Tile, int STAGES> struct ring_end {
    ring<Tile, STAGES> &tiles;
    int stage = 0;
    uint32_t phase = 0;
    TILE_FN explicit ring_end(ring<Tile, STAGES> &r) : tiles(r) {}
    TILE_FN void send(const tensor_map &map, int row, int head)  // one thread: fills the next tile once it is empty
    {
        //{ send: the phase in which a tile is empty
        tiles.empty[stage].wait(phase ^ 1);  // at first all are: the phase before the first counts as over
        load_async(tiles.tile[stage], map, row, head, tiles.full[stage]);
        next();
        //}
    }
    TILE_FN const Tile &receive()  // a warp: the next tile, once it is full
    {
        //{ receive: the phase in which a tile is full
        tiles.full[stage].wait(phase);
        //}
        return tiles.tile[stage];
    }
    TILE_FN void release()  // a warp: it no longer reads that tile
    {
        if (lane_id() == 0) tiles.empty[stage].arrive();
        next();
    }
    TILE_FN void next()
    {
        //{ next: round the ring
        if (++stage == STAGES) stage = 0, phase ^= 1;
        //}
    }
};

// What a block keeps in shared memory.
template <int D, int GROUPS> struct forward_tiles {
    ring<tma_tile<BC, D>, 2> K, V;    // one of the two is read while the other is filled
    ring<tma_tile<64, D>, GROUPS> Q;  // one a warpgroup
    tma_tile<64, D> O[GROUPS];
};

// One step of the online softmax: S becomes P. Returns whether O has to be multiplied by alpha: here a product may be
// adding to it.
TILE_FN bool softmax_step(reg_tile<16, BC> &S, row_vec<16> &m, row_vec<16> &l, row_vec<16> &alpha, float scale2)
{
    //{ softmax: max, rescale, accumulate
    const row_vec<16> S_max = row_max_part(S) * scale2;
    const bool outgrown = any_above(S_max, m + 8.0f);
    if (outgrown) {
        const row_vec<16> m_new = max(m, row_max_whole(S_max));
        alpha = exp2(m - m_new), m = m_new, l = l * alpha;
    }
    each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });
    l = l + row_sum_part(S);
    return outgrown;
    //}
}

// A block owns 64 * GROUPS query rows, each of its computing warps 16, in each of `bunch` heads, one head after the
// other: while the last products of one run, the next one's tiles come. It walks over the keys from right to left, BC
// at a time: the tiles with a mask come first.
template <int D, int GROUPS, bool CAUSAL> __global__ __launch_bounds__(128 * (1 + GROUPS), 1) void forward_kernel(
    const __grid_constant__ tensor_map O_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map Q_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map K_map,  // [B, Hkv, Nk, D]
    const __grid_constant__ tensor_map V_map,  // [B, Hkv, Nk, D]
    float *L,                                  // [B, Hq, Nq]
    int heads, int bunch, int side_by_side, int group_size, int Nq, int Nk, float scale)
{
    constexpr int BR = 64 * GROUPS;
    constexpr int few[] = {40, 32}, many[] = {232, 160};  // registers of a thread, with two groups and with three
    using registers = register_shares<GROUPS, few[GROUPS - 2], many[GROUPS - 2]>;
    auto &tiles = shared_memory<forward_tiles<D, GROUPS>>();

    // who am I: side_by_side bunches of heads, counted over the whole batch, share a section of the grid
    const int tiles_of_head = (Nq - 1) / BR + 1, section = blockIdx.x / (side_by_side * tiles_of_head);
    const int n = blockIdx.x % (side_by_side * tiles_of_head);  // in the section
    //{ order: which block takes which tile
    const int first_head = (section * side_by_side + n % side_by_side) * bunch;
    const int block_row = (tiles_of_head - 1 - n / side_by_side) * BR;
    //}
    const int last_head = min(first_head + bunch, heads);
    const int end = ((CAUSAL ? min(Nk, block_row + BR) : Nk) - 1) / BC + 1;  // tiles of keys that the block sees

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
        ring_end Q(tiles.Q);
        ring_end K(tiles.K), V(tiles.V);
        //{ fetch: what the copy engine is told
        if (threadIdx.x == 0) {
            for (int head = first_head; head < last_head; head++)
                for (int g = 0; g < GROUPS; g++) Q.send(Q_map, block_row + 64 * g, head);
        } else if (threadIdx.x == 32) {
            for (int head = first_head; head < last_head; head++)
                for (int t = end - 1; t >= 0; t--) K.send(K_map, t * BC, head / group_size);
        } else if (threadIdx.x == 64) {
            for (int head = first_head; head < last_head; head++)
                for (int t = end - 1; t >= 0; t--) V.send(V_map, t * BC, head / group_size);
        }
        //}
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1, group_row = block_row + 64 * group, row = group_row + 16 * warp_in_group();
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    const auto &Q = tiles.Q.tile[group];
    ring_end K(tiles.K), V(tiles.V);
    turns<GROUPS == 2 ? 1 : GROUPS> turn(GROUPS == 2 ? 0 : group);  // two groups are faster without

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
        weights<BC> P;
        int t = end - 1;
        tiles.Q.full[group].wait((head - first_head) & 1);
        //{ skip: tiles that only the other warpgroups see
        for (; CAUSAL && t * BC >= group_row + 64; t--) {
            K.receive(), K.release();
            V.receive(), V.release();
            turn.wait(), turn.pass();
        }
        //}
        //{ overlap: the products of one tile under the softmax of the next
        {  // the first tile: nothing to overlap with
            reg_tile<16, BC> S;
            mma_ABt_async(S, Q, K.receive());  // S = Q K^T
            products_done<0>(S);
            K.release();
            mask(S, t);
            softmax_step(S, m, l, alpha, scale2);
            round_to(P, S);
        }
        while (--t >= 0) {
            reg_tile<16, BC> S;
            const auto &K_tile = K.receive();
            turn.wait();
            mma_ABt_async(S, Q, K_tile);      // S = Q K^T
            mma_AB_async(O, P, V.receive());  // O += P V, of the tile before
            turn.pass();
            products_done<1>(S);  // all but one: S is there, O is not
            K.release();
            mask(S, t);
            const bool outgrown = softmax_step(S, m, l, alpha, scale2);
            products_done<0>(O);
            V.release();
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O, alpha);
        }
        if (lane_id() == 0) tiles.Q.empty[group].arrive();  // the next head's queries may come
        mma_AB_async(O, P, V.receive());
        products_done<0>(O);
        V.release();
        //}

        // finalize
        l = row_sum_whole(l);
        divide_rows(O, l);
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

template <int D, int GROUPS, bool CAUSAL> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    constexpr int BR = 64 * GROUPS;
    const auto kernel = forward_kernel<D, GROUPS, CAUSAL>;
    const int bytes = sizeof(forward_tiles<D, GROUPS>), Nq = shape->q_len, Nk = shape->kv_len;
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads,
              group_size = heads / kv_heads;
    tensor_map O_map, Q_map, K_map, V_map;
    wb_status status = describe(O_map, O, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(Q_map, Q, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, Nk, D, BC);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, Nk, D, BC);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    // causal: a section has as many heads as have their keys and values in half of the L2 cache (60 MB) together
    int section = group_size, bunch = 4;
    while (2 * section <= heads && 2ll * section / group_size * Nk * D * 2 * sizeof(*K) <= 32 << 20) section *= 2;
    // a bunch, as long as no multiprocessor waits for it in the end: where the blocks of a section are of many
    // lengths, they are three for two multiprocessors; where all are equal, they need no more rounds than blocks of
    // one head
    const long long tiles_of_head = (Nq - 1) / BR + 1, all = tiles_of_head * heads;
    const auto rounds = [&](long long blocks) { return (blocks - 1) / processors + 1; };
    while (bunch > 1 && (CAUSAL ? tiles_of_head * (section / bunch) * 2 < processors * 3
                                : rounds(tiles_of_head * ((heads - 1) / bunch + 1)) * bunch > rounds(all)))
        bunch /= 2;
    const int side = CAUSAL ? (section - 1) / bunch + 1 : 1;
    const long long blocks = tiles_of_head * side * ((heads - 1) / (side * bunch) + 1);
    if (blocks > INT_MAX) return wb_fail(WB_UNSUPPORTED, "flash_hopper: more than %d tiles of queries", INT_MAX);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<(unsigned)blocks, 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, heads, bunch, side, group_size, Nq, Nk, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_hopper(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_forward("flash_hopper", O, L, Q, K, V, shape);
    if (status == WB_OK) status = check_hopper("flash_hopper");
    if (status != WB_OK) return status;
    auto go = shape->causal ? launch<128, 2, true> : launch<128, 2, false>;
    if (shape->head_dim == 64) go = shape->causal ? launch<64, 3, true> : launch<64, 3, false>;
    return go(O, L, Q, K, V, shape, stream);
}
