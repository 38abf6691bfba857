// flash_wide.cu - 10 with wide heads: D 256; or D 192 and 128 columns of V, as DeepSeek's latent attention prefills
// (DeepSeek-V2 2024, arXiv:2405.04434). O has half of a thread's registers, and tiles fill the shared memory, so that O
// leaves by Q's place. The queries stand at the last keys.
#include "workbook.h"
#include "hopper.cuh"
#include "in_this_name.h"
#include "10/variants/online_step.cuh"

constexpr int GROUPS = 2, BR = 64 * GROUPS;

// What a block keeps in shared memory.
template <int D, int DV, int BC, int K_STAGES, int V_STAGES> struct wide_tiles {
    tma_tile<64, D> Q[GROUPS];  // one a warpgroup, then its O
    tma_tile<BC, D> K[K_STAGES];
    tma_tile<BC, DV> V[V_STAGES];
    ring_signals<GROUPS> Q_signals;
    ring_signals<K_STAGES> K_signals;
    ring_signals<V_STAGES> V_signals;
};

// A tile of queries of a head. Late queries of all heads of a section come first: they have the longest walks.
struct item {
    int number, head, row, end;  // head: -1 after the last; end: tiles of keys that it sees
};
template <bool CAUSAL, int BC> struct item_list {
    int heads, section, tiles_of_head, ahead, Nk;
    TILE_FN item at(int number) const
    {
        const int line = number / section, head = line / tiles_of_head * section + number % section;
        const int row = (tiles_of_head - 1 - line % tiles_of_head) * BR;
        return {number, head < heads ? head : -1, row, ((CAUSAL ? min(Nk, row + ahead + BR) : Nk) - 1) / BC + 1};
    }
    TILE_FN item first() const { return at(blockIdx.x); }
    TILE_FN item next(const item &i) const { return at(i.number + gridDim.x); }
};

// A block owns 128 query rows, each of its computing warps 16, of one item after the other. It walks over the keys from
// right to left, BC at a time: all as in 10.
template <int D, int DV, bool CAUSAL, int BC, int K_STAGES, int V_STAGES>
__global__ __launch_bounds__(128 * (1 + GROUPS), 1) void wide_kernel(
    const __grid_constant__ tensor_map O_map,  // [B, Hq, Nq, DV]
    const __grid_constant__ tensor_map Q_map,  // [B, Hq, Nq, D]
    const __grid_constant__ tensor_map K_map,  // [B, Hkv, Nk, D]
    const __grid_constant__ tensor_map V_map,  // [B, Hkv, Nk, DV]
    float *L,                                  // [B, Hq, Nq]
    int heads, int section, int group_size, int Nq, int Nk, float scale)
{
    using registers = register_shares<GROUPS, 40, 232>;
    auto &tiles = shared_memory<wide_tiles<D, DV, BC, K_STAGES, V_STAGES>>();
    const int ahead = Nk - Nq;  // keys before the first query's own
    const item_list<CAUSAL, BC> list = {heads, section, (Nq - 1) / BR + 1, ahead, Nk};

    if (threadIdx.x == 0) {
        tiles.Q_signals.init(1);
        tiles.K_signals.init(4 * GROUPS);
        tiles.V_signals.init(4 * GROUPS);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // fetch: one thread the queries, one the keys, one the values
    if (warpgroup_id() == 0) {
        registers::give();
        sender Q(tiles.Q, tiles.Q_signals);
        sender K(tiles.K, tiles.K_signals);
        sender V(tiles.V, tiles.V_signals);
        if (threadIdx.x == 0) {
            for (item i = list.first(); i.head >= 0; i = list.next(i))
                for (int g = 0; g < GROUPS; g++) Q.send(Q_map, i.row + 64 * g, i.head);
        } else if (threadIdx.x == 32) {
            for (item i = list.first(); i.head >= 0; i = list.next(i))
                for (int t = i.end - 1; t >= 0; t--) K.send(K_map, t * BC, i.head / group_size);
        } else if (threadIdx.x == 64) {
            for (item i = list.first(); i.head >= 0; i = list.next(i))
                for (int t = i.end - 1; t >= 0; t--) V.send(V_map, t * BC, i.head / group_size);
        }
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1;
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    const auto &Q = tiles.Q[group];
    receiver K(tiles.K, tiles.K_signals);
    receiver V(tiles.V, tiles.V_signals);

    const auto mask = [&](reg_tile<16, BC> &S, int t, int row) {  // keys that do not exist, or come after the query
        const int left = Nk - t * BC, own = row + ahead - t * BC;
        if (left < BC || (CAUSAL && own < BC - 1))
            each(S, [&](float &s, element e) {
                if (e.col >= (CAUSAL ? min(left, own + e.row + 1) : left)) s = -INFINITY;
            });
    };

    uint32_t phase = 0;
    for (item i = list.first(); i.head >= 0; i = list.next(i), phase ^= 1) {
        const int group_row = i.row + 64 * group, row = group_row + 16 * warp_in_group();
        reg_tile<16, DV> O = {};
        row_vec<16> m, l = {}, alpha;
        fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
        weights<BC> P;
        int t = i.end - 1;
        tiles.Q_signals.full[group].wait(phase);
        for (; CAUSAL && t * BC >= group_row + ahead + 64; t--) {  // tiles that only the other warpgroup sees
            K.receive(), K.release();
            V.receive(), V.release();
        }
        {  // the first tile: nothing to overlap with
            reg_tile<16, BC> S;
            mma_ABt_async(S, Q, K.receive());  // S = Q K^T
            products_done<0>(S);
            K.release();
            mask(S, t, row);
            online_step(S, m, l, alpha, scale2);
            round_to(P, S);
        }
        while (--t >= 0) {
            reg_tile<16, BC> S;
            mma_ABt_async(S, Q, K.receive());  // S = Q K^T
            mma_AB_async(O, P, V.receive());   // O += P V, of the tile before
            products_done<1>(S);               // all but one: S is there, O is not
            K.release();
            mask(S, t, row);
            const bool outgrown = online_step(S, m, l, alpha, scale2);
            products_done<0>(O);
            V.release();
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O, alpha);
        }
        mma_AB_async(O, P, V.receive());
        products_done<0>(O);
        V.release();

        // finalize
        l = row_sum_whole(l);
        divide_rows(O, l);
        const row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e

        // store
        store(L + (size_t)i.head * Nq + row, L_row, Nq - row);
        warpgroup_meets();  // no warp's product reads Q any more
        auto &O_tile = reinterpret_cast<tma_tile<64, DV> &>(tiles.Q[group]);
        store(O_tile, O);
        store_async(O_map, group_row, i.head, O_tile);
        if (threadIdx.x % warpgroup_threads == 0) {
            stores_read();  // the block may not end before
            tiles.Q_signals.empty[group].arrive();
        }
    }
}

template <int D, int DV, bool CAUSAL, int BC, int K_STAGES, int V_STAGES> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const auto kernel = wide_kernel<D, DV, CAUSAL, BC, K_STAGES, V_STAGES>;
    constexpr int bytes = sizeof(wide_tiles<D, DV, BC, K_STAGES, V_STAGES>);
    static_assert(bytes <= 227 * 1024, "a block has 227 KB of shared memory at most");
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads;
    const int Nq = shape->q_len, Nk = shape->kv_len, group_size = heads / kv_heads;
    tensor_map O_map, Q_map, K_map, V_map;
    wb_status status = describe(O_map, O, heads, Nq, DV, 64);
    if (status == WB_OK) status = describe(Q_map, Q, heads, Nq, D, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, Nk, D, BC);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, Nk, DV, BC);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    // sections: see 10. Without a mask all items are equal, and a block takes one after the other.
    int section = group_size;
    while (CAUSAL && 2 * section <= heads && 2ll * section / group_size * Nk * (D + DV) * sizeof(*K) <= 32 << 20)
        section *= 2;
    const long long items = ((Nq - 1) / BR + 1ll) * section * ((heads - 1) / section + 1);
    if (items > INT_MAX / 2) return wb_fail(WB_UNSUPPORTED, "flash_wide: more than %d tiles of queries", INT_MAX / 2);
    const int blocks = CAUSAL ? (int)items : min((int)items, processors);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<blocks, 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, heads, section, group_size, Nq, Nk, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_wide(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    // The validator knows 16, which has D 256, and as many queries as keys where there is a mask.
    attention_shape known = shape ? *shape : attention_shape{};
    const int D = known.head_dim, Nq = known.q_len, Nk = known.kv_len;
    if (D > 0) known.head_dim = 256;
    if (known.causal && min(Nq, Nk) > 0) known.q_len = known.kv_len = max(Nq, Nk);
    wb_status status =
        in_this_name("flash_wide", wb_check_forward("flash_fp8", O, L, Q, K, V, shape ? &known : nullptr));
    if (status == WB_OK && D != 192 && D != 256)
        status = wb_fail(WB_UNSUPPORTED, "flash_wide: head_dim = %d is not supported, use 192 or 256", D);
    if (status == WB_OK && shape->causal && Nq > Nk)
        status = wb_fail(WB_BAD_ARGUMENT, "flash_wide: causal needs q_len <= kv_len, got %d and %d", Nq, Nk);
    if (status == WB_OK) status = check_hopper("flash_wide");
    if (status != WB_OK) return status;
    auto go = shape->causal ? launch<256, 256, true, 64, 3, 2> : launch<256, 256, false, 80, 2, 2>;
    if (D == 192) go = shape->causal ? launch<192, 128, true, 96, 3, 2> : launch<192, 128, false, 128, 2, 2>;
    return go(O, L, Q, K, V, shape, stream);
}
