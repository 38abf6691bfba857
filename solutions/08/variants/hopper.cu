// hopper.cu - flash_gqa_backward on a Hopper GPU, in the words of problem 10: five products, and the copy engine adds up dQ.
//
// A block owns 128 keys of one key head, 64 a warpgroup, and walks over the queries that see them. Scores and their gradients lie on
// their sides, keys as rows, so that P and dS are left factors of the products for dV and dK as they lie in registers. dS goes through
// shared memory, transposed, to dQ = dS K; and dQ to a sum in global memory, in float32, by the copy engine.
// Three kernels: delta and what the next one reads; the gradients; dQ out of its sum.
//
// Two modes. The fastest adds to dQ in whatever order blocks come; its last bits change from run to run. SAME_BITS gives each block its
// turn (FlashAttention-4's way): hopper_same_bits.cu. dK and dV have the same bits each time in both.
// D = 16 and 32, and GPUs that are none of sm_90, are the key's.
//
// exempt: memory same_twice
#include "workbook.h"
#include "hopper.cuh"

namespace of_the_key
{
#include "../flash_gqa_backward.cu"
}

#ifndef SAME_BITS
#define SAME_BITS false
#endif

constexpr int BK = 128;                                      // keys of a block
template <int D> constexpr int BQ_of = D == 128 ? 64 : 128;  // queries of a step

// --------------------------------------------------------------------------------------------------------------- before

// What a step needs besides Q and dO. A lane holds columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of each sixteen: they stand side by
// side, so that it fetches them at once.
template <int BQ> struct statistics {
    float L[BQ], delta[BQ];  // L in base 2; infinity for queries that do not exist, so that P = 0
};
TILE_FN int place(int col) { return col / 16 * 16 + col % 8 / 2 * 4 + col / 8 % 2 * 2 + col % 2; }
template <int Cols> TILE_FN void load(col_vec<Cols> &v, const float (&src)[Cols])
{
    TILE_UNROLL
    for (int k = 0; k < Cols / 16; k++) {
        const float4 x = reinterpret_cast<const float4 *>(src)[4 * k + lane_id() % 4];
        v.x[4 * k] = x.x, v.x[4 * k + 1] = x.y, v.x[4 * k + 2] = x.z, v.x[4 * k + 3] = x.w;
    }
}

// Who does what. An item is a key head and `share` of its query heads; each tile of its keys is a block's work. `side` items stand side
// by side in the grid, about as many as make the blocks that run at a time: what these read stays in the cache.
struct schedule {
    int kv_heads, group;      // key heads of the whole batch, query heads of each
    int share, items, side;   // items of one key head are kv_heads apart
    int key_tiles, blocks64;  // of a head: tiles of BK keys; of 64 queries, two for each of those
};

// What the kernels hand to one another.
template <int D> struct workspace {
    fragments<D> *dQ_sum;   // [B Hq, blocks64], not yet times scale
    fragments<D> *dKV_sum;  // [B Hkv, key_tiles, 2 warpgroups, dK and dV], of the items so far
    void *stats;            // [B Hq, blocks64 * 64 / BQ], statistics<BQ>
    unsigned *dQ_turn;      // [B Hq, blocks64]: how many tiles of keys have been added
    unsigned *dKV_turn;     // [B Hkv, key_tiles, 2]: how many items
    unsigned *next_block;   // how many blocks have begun
};

// delta = rowsum(dO * O): D / 8 neighbouring lanes share a row, each of them 16 bytes of it. And zeros for what counts and adds up.
template <int D, bool ORDERED> __global__ __launch_bounds__(256) void prepare_kernel(
    float *delta, workspace<D> w, const bf16 *O, const bf16 *dO, const float *L, int N, int blocks64)
{
    constexpr int LANES = D / 8, ROWS = 4, STEP = 256 / LANES, BQ = BQ_of<D>;
    const int row0 = blockIdx.x * (ROWS * STEP) + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const size_t head = gridDim.y - 1 - blockIdx.y;  // the first heads last: the next kernel finds them in the cache
    after_may_begin();
    uint4 O_reg[ROWS] = {}, dO_reg[ROWS] = {};
    TILE_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const int row = row0 + r * STEP;
        const size_t at = (head * N + row) * LANES + lane;
        if (row < N) {
            O_reg[r] = __ldcs(reinterpret_cast<const uint4 *>(O) + at);
            dO_reg[r] = reinterpret_cast<const uint4 *>(dO)[at];
        }
    }
    TILE_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const int row = row0 + r * STEP;
        const auto *o = reinterpret_cast<const __nv_bfloat162 *>(&O_reg[r]),
                   *g = reinterpret_cast<const __nv_bfloat162 *>(&dO_reg[r]);
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            const float2 a = __bfloat1622float2(o[k]), b = __bfloat1622float2(g[k]);
            sum += a.x * b.x + a.y * b.y;
        }
        for (int l = LANES / 2; l > 0; l /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, l);
        if (row >= blocks64 * 64) continue;
        if (lane == 0) {
            statistics<BQ> &s = static_cast<statistics<BQ> *>(w.stats)[(head * blocks64 * 64 + row) / BQ];
            s.L[place(row % BQ)] = row < N ? L[head * N + row] * LOG2_E : INFINITY;
            s.delta[place(row % BQ)] = sum;  // of such a row 0
            if (row < N) delta[head * N + row] = sum;
            if (row % 64 == 0) w.dQ_turn[head * blocks64 + row / 64] = w.dKV_turn[head * blocks64 + row / 64] = 0;
            if (row == 0 && head == 0) *w.next_block = 0;
        }
        if (ORDERED) continue;  // who comes first does not add, but put
        float4 *zeros = reinterpret_cast<float4 *>(w.dQ_sum) + (head * blocks64 * 64 + row) * (D / 4) + lane;
        zeros[0] = zeros[LANES] = float4{};
    }
}

// ------------------------------------------------------------------------------------------------------------- gradients

// What a block keeps in shared memory: 224 KB.
template <int D> struct backward_tiles {
    static constexpr int BQ = BQ_of<D>, PARTS = BQ / 64;
    tma_tile<64, D> K[2], V[2];        // of each warpgroup; in the end dK and dV
    tma_tile<BQ, D> Q[2], dO[2];       // two rings
    tma_tile<64, 64> dS[2][2][PARTS];  // of this step and the one before, of each warpgroup's keys, of each 64 queries
    fragments<D> dQ[2][PARTS];         // of each warpgroup, on its way to the sum
    statistics<BQ> stats[2];           // come with Q
    ring_signals<2> Q_signals, dO_signals;
    signal K_full, V_full, dQ_full[2][PARTS], dQ_empty[2][PARTS];
    unsigned number;  // of this block, in the order of work
};

template <int D, bool CAUSAL, bool ORDERED> __global__ __launch_bounds__(384, 1) void backward_kernel(
    const __grid_constant__ tensor_map dK_map,  // [B, Hkv, N, D], all in tiles of 64 rows but Q and dO
    const __grid_constant__ tensor_map dV_map,  // [B, Hkv, N, D]
    const __grid_constant__ tensor_map Q_map,   // [B, Hq, N, D] in tiles of BQ rows
    const __grid_constant__ tensor_map K_map,   // [B, Hkv, N, D]
    const __grid_constant__ tensor_map V_map,   // [B, Hkv, N, D]
    const __grid_constant__ tensor_map dO_map,  // [B, Hq, N, D] in tiles of BQ rows
    workspace<D> w, schedule plan, int N, float scale)
{
    constexpr int BQ = BQ_of<D>, PARTS = BQ / 64;
    using registers = register_shares<2, 24, 240>;
    extern __shared__ __align__(1024) unsigned char shared[];  // shared_memory() takes registers: none is left
    auto &tiles = *reinterpret_cast<backward_tiles<D> *>(shared);
    const int shares = plan.group / plan.share;  // items of a key head
    if (threadIdx.x == 0) {
        tiles.K_full.init(2), tiles.V_full.init(2);
        for (int g = 0; g < 2; g++)
            for (int b = 0; b < PARTS; b++) tiles.dQ_full[g][b].init(4), tiles.dQ_empty[g][b].init(1);
        tiles.Q_signals.init(8), tiles.dO_signals.init(8);
        signals_ready();
        after_may_begin();
        before_is_done();
        tiles.number = ORDERED || shares > 1 ? take_number(w.next_block) : blockIdx.x;  // await: only for who has begun
    }
    __syncthreads();

    // who am I
    const int in_row = plan.side * plan.key_tiles, n = tiles.number % in_row, item0 = tiles.number / in_row * plan.side;
    const int here_items = min(plan.side, plan.items - item0), item = item0 + n % here_items;
    const int kv_head = item % plan.kv_heads, turn = item / plan.kv_heads;  // of the key head's items
    // Early keys are seen by the most queries, so they come first. In turns it is the other way round: a block adds to its first query
    // tile, on the diagonal, before all others, and comes to the next ones when the blocks of later keys have been there.
    const int key_tile = CAUSAL && ORDERED ? plan.key_tiles - 1 - n / here_items : n / here_items;
    const int block_key = key_tile * BK, first = CAUSAL ? block_key / BQ : 0, end = plan.blocks64 / PARTS;
    const int q_head0 = kv_head * plan.group + turn * plan.share;
    // f(query head, query tile) for each tile that sees one of our keys
    const auto each_step = [&](auto f) {
        for (int h = 0; h < plan.share; h++) {
#pragma unroll 1
            for (int q = first; q < end; q++) f(q_head0 + h, q);
        }
    };

    if (warpgroup_id() == 0) {
        registers::give();
        if (threadIdx.x == 0) {  // fetches
            sender Q(tiles.Q, tiles.Q_signals), dO(tiles.dO, tiles.dO_signals);
            for (int g = 0; g < 2; g++) load_async(tiles.K[g], K_map, block_key + 64 * g, kv_head, tiles.K_full);
            for (int g = 0; g < 2; g++) load_async(tiles.V[g], V_map, block_key + 64 * g, kv_head, tiles.V_full);
            const auto *stats = static_cast<const statistics<BQ> *>(w.stats);
            each_step([&](int head, int q) {
                Q.send_with(Q_map, q * BQ, head, tiles.stats, &stats[(size_t)head * end + q]);
                dO.send(dO_map, q * BQ, head);
            });
        } else if (threadIdx.x == 32 || threadIdx.x == 64) {  // adds to dQ what one of the warpgroups has computed
            const int g = threadIdx.x / 32 - 1;
            int b = 0;
            uint32_t phase = 0;
            bool come = false;  // our turn at this tile
            each_step([&](int head, int q) {
                if (PARTS == 1 && q % 2 != g) return;
                const int block64 = PARTS * q + (PARTS == 1 ? 0 : g);
                const size_t at = (size_t)head * plan.blocks64 + block64;
                // How many tiles of keys come before ours; and at our next tile, two further.
                const unsigned mine = CAUSAL ? block64 / 2 - key_tile : key_tile, next_turn = CAUSAL ? mine + 1 : mine;
                tiles.dQ_full[g][b].wait(phase);
                if (ORDERED && !come) await(&w.dQ_turn[at], mine);
                if (ORDERED && mine == 0)
                    put_async(&w.dQ_sum[at], tiles.dQ[g][b]);
                else
                    add_async(&w.dQ_sum[at], tiles.dQ[g][b]);
                stores_read();
                tiles.dQ_empty[g][b].arrive();
                if (ORDERED) {
                    come =
                        block64 + 2 < plan.blocks64 && is_turn(&w.dQ_turn[at + 2], next_turn);  // while it is written
                    stores_done();
                    announce(&w.dQ_turn[at]);
                }
                if (++b == PARTS) b = 0, phase ^= 1;
            });
        }
        return;
    }

    // computes
    registers::take();
    const int group = warpgroup_id() - 1, group_key = block_key + 64 * group, key = group_key + 16 * warp_in_group();
    const float scale2 = scale * LOG2_E;
    receiver Q_in(tiles.Q, tiles.Q_signals), dO_in(tiles.dO, tiles.dO_signals);
    reg_tile<16, D> dK = {}, dV = {};
    int b = 0;  // where our next dQ goes
    uint32_t phase = 0;
    bool pending = false;  // the last dQ has been stored, but the copy engine does not know
    // After writes_visible(). A step later than it could be: so that one fence serves dQ and the next dS.
    const auto hand_over = [&] {
        __syncwarp();
        if (lane_id() == 0) tiles.dQ_full[group][(b + PARTS - 1) % PARTS].arrive();
        pending = false;
    };
    tiles.K_full.wait(0);
    tiles.V_full.wait(0);
    each_step([&](int, int q) {
        const int stage = Q_in.stage, q0 = q * BQ;
        const bool mine = PARTS == 2 || q % 2 == group;  // whether dQ of this step is
        const auto &Q = Q_in.receive();
        if (CAUSAL && PARTS == 1 && q0 + BQ <= group_key) {
            // the first step of the second warpgroup: none of its keys are seen, and the turn is not its
            dO_in.receive();
            Q_in.release();
            dO_in.release();
            if (pending) writes_visible(), hand_over();
            gather<2>(q % 2, false);
            return;
        }
        reg_tile<16, BQ> P, dS;
        mma_ABt_async(P, tiles.K[group], Q);  // S^T = K Q^T
        // Loads stand in a queue behind the products issued before them: so L comes here, and the wait for dO keeps it from being moved.
        col_vec<BQ> L, delta;
        load(L, tiles.stats[stage].L);
        const auto &dO = dO_in.receive();
        mma_ABt_async(dS, tiles.V[group], dO);  // dP^T = V dO^T
        products_done<1>(P);
        const bool diagonal = CAUSAL && q0 < key + 15, ragged = N - block_key < BK;
        if (diagonal || ragged)
            each(P, [&](float &x, element e) {
                const int i = q0 + e.col, j = key + e.row;
                if ((CAUSAL && j > i) || j >= N) x = -INFINITY;
            });
        each(P, [&](float &x, element e) { x = exp2_fast(x * scale2 - L[e]); });  // S^T becomes P^T
        weights<BQ> P_left, dS_left;
        round_to(P_left, P);
        // Could be later; here, a branch, it keeps half of the exponentials before the next wait, where they have company.
        if (mine) tiles.dQ_empty[group][b].wait(phase ^ 1);
        load(delta, tiles.stats[stage].delta);
        products_done<0>(dS);
        each(dS, [&](float &x, element e) { x = P[e] * (x - delta[e]); });
        round_to(dS_left, dS);
        store_transposed(tiles.dS[stage][group], dS_left);
        mma_AB_async(dV, P_left, dO);  // dV += P^T dO
        writes_visible();
        if (pending) hand_over();  // one fence for both stores
        if (PARTS == 1)
            gather<2>(q % 2, mine);  // who computes dQ needs the other's dS
        else
            meet<2>();
        if (mine) {
            const int part = PARTS == 1 ? 0 : group;
            const bool early = CAUSAL && q0 + 64 * part <= block_key;  // these queries see none of the second 64 keys
            reg_tile<16, D> dQ;
            if (PARTS == 1) products_done<0>(dV);                          // or there are not enough registers
            mma_AB_first_async(dQ, tiles.dS[stage][0][part], tiles.K[0]);  // dQ = dS K
            if (!early) mma_AB_async(dQ, tiles.dS[stage][1][part], tiles.K[1]);
            mma_AB_async(dK, dS_left, Q);  // dK += dS^T Q, times scale at the end
            products_done<1>(dQ);
            if (PARTS == 2) products_done<1>(dV);
            dO_in.release();
            store(tiles.dQ[group][b], dQ);
            if (++b == PARTS) b = 0, phase ^= 1;
            pending = true;
        } else {
            mma_AB_async(dK, dS_left, Q);
            products_done<1>(dV);
            dO_in.release();
        }
        products_done<0>(dK);
        Q_in.release();
    });
    if (pending) writes_visible(), hand_over();

    // dK and dV go from one item of the key head to the next; the last one has all
    if (shares > 1) {
        const size_t at = ((size_t)kv_head * plan.key_tiles + key_tile) * 2 + group;
        fragments<D> *sum = w.dKV_sum + 2 * at;
        if (turn > 0) {
            if (threadIdx.x % warpgroup_threads == 0) await(&w.dKV_turn[at], turn);
            warpgroup_meets();
            reg_tile<16, D> before;
            load(before, sum);
            each(dK, [&](float &x, element e) { x += before[e]; });
            load(before, sum + 1);
            each(dV, [&](float &x, element e) { x += before[e]; });
        }
        if (turn + 1 < shares) {
            store(sum, dK);
            store(sum + 1, dV);
            warpgroup_meets();
            if (threadIdx.x % warpgroup_threads == 0) announce(&w.dKV_turn[at]);
            return;
        }
    }
    each(dK, [&](float &x, element) { x *= scale; });
    store(tiles.V[group], dV);
    store_async(dV_map, group_key, kv_head, tiles.V[group]);
    meet<2>();  // the other warpgroup no longer reads our keys
    store(tiles.K[group], dK);
    store_async(dK_map, group_key, kv_head, tiles.K[group]);
    stores_read();
}

// ------------------------------------------------------------------------------------------------------------------- dQ

// The sum, scaled and rounded, 64 queries a block.
template <int D> __global__ __launch_bounds__(128) void round_kernel(
    const __grid_constant__ tensor_map dQ_map, const fragments<D> *dQ_sum, int blocks64, float scale)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &tile = *reinterpret_cast<tma_tile<64, D> *>(shared);
    const int head = gridDim.y - 1 - blockIdx.y;  // the last heads first: they are still in the cache
    reg_tile<16, D> dQ;
    before_is_done();
    load(dQ, &dQ_sum[(size_t)head * blocks64 + blockIdx.x]);
    each(dQ, [&](float &x, element) { x *= scale; });
    store(tile, dQ);
    store_async(dQ_map, blockIdx.x * 64, head, tile);
    stores_read();
}

// ---------------------------------------------------------------------------------------------------------------- launch

static schedule plan_of(const attention_shape *shape, bool ordered)
{
    schedule plan;
    plan.kv_heads = shape->batch * shape->kv_heads;
    plan.group = shape->q_heads / shape->kv_heads;
    // Causal: blocks of a head have unlike amounts of work. In many query heads they would drift apart, and out of the cache.
    const int most = !shape->causal ? plan.group : ordered ? 2 : 4;
    plan.share = plan.group % most == 0 ? most : plan.group % 2 == 0 ? 2 : plan.group;
    plan.items = plan.kv_heads * (plan.group / plan.share);
    plan.key_tiles = (shape->kv_len - 1) / BK + 1;
    plan.blocks64 = 2 * plan.key_tiles;
    plan.side = shape->causal || ordered ? 132 / plan.key_tiles : 1;  // an H200 runs 132 blocks at a time
    plan.side = plan.side < 1 ? 1 : plan.side > plan.items ? plan.items : plan.side;
    return plan;
}

// Cuts the memory into the parts of the workspace; returns how many bytes they take.
template <int D> static size_t cut(workspace<D> &w, void *memory, const attention_shape *shape, const schedule &plan)
{
    const size_t blocks = (size_t)shape->batch * shape->q_heads * plan.blocks64;
    const size_t parts = (size_t)plan.kv_heads * plan.key_tiles * 4;
    size_t bytes = 0;
    const auto take = [&](size_t part) {
        char *at = static_cast<char *>(memory) + bytes;
        bytes += (part + 255) / 256 * 256;
        return reinterpret_cast<uintptr_t>(at);
    };
    w.dQ_sum = reinterpret_cast<fragments<D> *>(take(blocks * sizeof(fragments<D>)));
    w.dKV_sum = reinterpret_cast<fragments<D> *>(take(plan.share < plan.group ? parts * sizeof(fragments<D>) : 0));
    w.stats = reinterpret_cast<void *>(take(blocks * sizeof(statistics<64>)));
    w.dQ_turn = reinterpret_cast<unsigned *>(take(blocks * sizeof(unsigned)));
    w.dKV_turn = reinterpret_cast<unsigned *>(take(blocks * sizeof(unsigned)));
    w.next_block = reinterpret_cast<unsigned *>(take(sizeof(unsigned)));
    return bytes;
}

template <int D, bool CAUSAL, bool ORDERED> static wb_status launch(
    void *memory, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    constexpr int BQ = BQ_of<D>, bytes = sizeof(backward_tiles<D>);
    static_assert(bytes <= 227 * 1024, "a block may have 227 KB of shared memory");
    const int q_heads = shape->batch * shape->q_heads, N = shape->q_len;
    const schedule plan = plan_of(shape, ORDERED);
    workspace<D> w;
    cut(w, memory, shape, plan);
    tensor_map dQ_map, dK_map, dV_map, Q_map, K_map, V_map, dO_map;
    wb_status status = describe(dQ_map, dQ, q_heads, N, D, 64);
    if (status == WB_OK) status = describe(dK_map, dK, plan.kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(dV_map, dV, plan.kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(Q_map, Q, q_heads, N, D, BQ);
    if (status == WB_OK) status = describe(K_map, K, plan.kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(V_map, V, plan.kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(dO_map, dO, q_heads, N, D, BQ);
    if (status != WB_OK) return status;

    const int rows = 4 * 256 / (D / 8);  // of a block
    prepare_kernel<D, ORDERED>
        <<<dim3((plan.blocks64 * 64 - 1) / rows + 1, q_heads), 256, 0, stream>>>(delta, w, O, dO, L, N, plan.blocks64);
    WB_CUDA(cudaGetLastError());
    const auto kernel = backward_kernel<D, CAUSAL, ORDERED>;
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    status = launch_after(
        kernel, dim3(plan.key_tiles * plan.items), 384, bytes, stream, dK_map, dV_map, Q_map, K_map, V_map, dO_map, w,
        plan, N, shape->scale);
    if (status != WB_OK) return status;
    return launch_after(
        round_kernel<D>, dim3((N - 1) / 64 + 1, q_heads), 128, sizeof(tma_tile<64, D>), stream, dQ_map, w.dQ_sum,
        plan.blocks64, shape->scale);
}

// For the validator, which knows of no 08 without a mask: the same shape with one.
static const attention_shape *with_mask(attention_shape &masked, const attention_shape *shape)
{
    if (!shape) return nullptr;
    masked = *shape;
    if (masked.causal == 0) masked.causal = 1;
    return &masked;
}

// Whether these kernels can do it here: what they cannot, the key does.
static bool suits(const attention_shape *shape)
{
    const long long heads = (long long)shape->batch * shape->q_heads;
    return shape->head_dim >= 64 && heads <= 65535 && heads * ((shape->kv_len - 1) / BK + 1) <= INT_MAX &&
           check_hopper("flash_gqa_backward") == WB_OK;
}

// Bytes of device memory that the next function needs beyond inputs and outputs.
extern "C" size_t flash_gqa_backward_workspace(const attention_shape *shape)
{
    attention_shape masked;
    if (wb_check_shape("flash_gqa_backward", with_mask(masked, shape)) != WB_OK || !suits(shape)) return 0;
    const schedule plan = plan_of(shape, SAME_BITS);
    workspace<64> small;
    workspace<128> large;
    return shape->head_dim == 64 ? cut(small, nullptr, shape, plan) : cut(large, nullptr, shape, plan);
}

// flash_gqa_backward in memory of the caller's. Beyond the contract, causal may be 0: then every query sees every key.
extern "C" wb_status flash_gqa_backward_in(
    void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_gqa_backward";
    attention_shape masked;
    wb_status status = wb_check_backward(name, dQ, dK, dV, delta, Q, K, V, O, L, dO, with_mask(masked, shape));
    if (status == WB_OK) status = wb_check_workspace(name, memory, bytes, flash_gqa_backward_workspace(shape));
    if (status != WB_OK) return status;
    if (!suits(shape)) {
        if (!shape->causal) return wb_fail(WB_UNSUPPORTED, "flash_gqa_backward: this shape needs causal = 1");
        return of_the_key::flash_gqa_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    }
    const auto run = shape->head_dim == 64 ? shape->causal ? launch<64, true, SAME_BITS> : launch<64, false, SAME_BITS>
                     : shape->causal ? launch<128, true, SAME_BITS>
                                           : launch<128, false, SAME_BITS>;
    return run(memory, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}

wb_status flash_gqa_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    const size_t bytes = flash_gqa_backward_workspace(shape);
    void *memory = nullptr;
    if (bytes) WB_CUDA(cudaMallocAsync(&memory, bytes, stream));
    status = flash_gqa_backward_in(memory, bytes, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    if (bytes) WB_CUDA(cudaFreeAsync(memory, stream));
    return status;
}
