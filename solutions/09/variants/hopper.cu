// hopper.cu - flash_sinks_backward on a Hopper GPU, for short windows: each element of Q, dO and O is read once, and dQ
// is written once.
//
// A block walks along a stretch of the sequence, 64 positions at a time, with all query heads of a key head. The keys
// that 64 queries see lie in three tiles of 64, one for each warpgroup. A warpgroup keeps its keys' dK and dV in
// registers while the queries of three tiles pass; then it stores them and takes the tile of keys that comes next.
// Scores lie on their sides, as in 08's variant for Hopper; the three warpgroups' dS meet in shared memory, where one
// of them, in turns, makes dQ of all three: whole, so it leaves as bf16 at once. It does so at the end of the step
// that follows: at the end of its own it would wait for the other two, and they in their turns for it. delta is
// computed by warps that otherwise fetch.
//
// A stretch goes two tiles beyond its end, for the sake of its last keys alone. Sinks are a fourth, small tile of keys
// for dQ; their own dK and dV are sums over all queries: a kernel of their own adds them up first, in parts that dQ,
// not yet filled, holds. D = 64, W <= 129, up to 16 sinks; all else is the reference solution's.
// Random shapes that it is chosen for: 36 of 215 backward passes with a window, 2 of 34 with sinks (records of `make
// duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

#ifndef SINK_LOGITS  // problem 12 has its own
namespace any_window
{
#include "../flash_sinks_backward.cu"
}
#endif

constexpr int GROUPS = 3;  // warpgroups that compute, tiles of keys that a query sees, stages of all that is passed on
constexpr int MOST_W = 129;  // the last query of a tile sees no more keys than three tiles have
constexpr int MOST_SINKS = 16;
constexpr int SLOTS = 4;  // tiles of keys: three in use, one on its way

// Where tile k of the keys lies.
TILE_FN int slot_of(int k) { return (unsigned)k % SLOTS; }

// Of 64 queries. A lane holds columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of each sixteen: they stand side by side, so
// that it fetches them at once.
struct alignas(16) query_values {
    float at[64];
};
TILE_FN int place_of(int col) { return col / 16 * 16 + col % 8 / 2 * 4 + col / 8 % 2 * 2 + col % 2; }
TILE_FN void load(col_vec<64> &v, const query_values &src)
{
    TILE_UNROLL
    for (int k = 0; k < 4; k++) {
        const float4 x = reinterpret_cast<const float4 *>(src.at)[4 * k + lane_id() % 4];
        v.x[4 * k] = x.x, v.x[4 * k + 1] = x.y, v.x[4 * k + 2] = x.z, v.x[4 * k + 3] = x.w;
    }
}

// What a block keeps in shared memory: 220 KB.
struct stretch_tiles {
    tma_tile<64, 64> K[SLOTS], V[SLOTS];
    tma_tile<64, 64> Q[GROUPS], dO[GROUPS], O[GROUPS];
    tma_tile<64, 64> dS[GROUPS][GROUPS];  // of three steps, each warpgroup's; whose turn it was has dQ there in the end
    query_values L[GROUPS], delta[GROUPS];      // L in base 2
    uint4 dS_sinks[GROUPS][warpgroup_threads];  // of each thread, from its turn to the step after
    tma_tile<MOST_SINKS, 64> K_sinks, V_sinks;
    signal sinks_full, keys_full[SLOTS], keys_empty[SLOTS];
    signal full[GROUPS], empty[GROUPS], known[GROUPS];  // Q, dO and O; L and delta
    signal dS_empty[GROUPS];                            // dQ has been made of it
};

// The product of rows r of two tiles, by one thread.
TILE_FN float dot(const tma_tile<64, 64> &a, const tma_tile<64, 64> &b, int r)
{
    float even = 0, odd = 0;
#pragma unroll 2
    for (int c = 0; c < 8; c++) {
        const int piece = (c ^ r % 8) * 8;
        const uint4 x = reinterpret_cast<const uint4 &>(a.at[0][r][piece]);
        const uint4 y = reinterpret_cast<const uint4 &>(b.at[0][r][piece]);
        const uint32_t f[4] = {x.x, x.y, x.z, x.w}, g[4] = {y.x, y.y, y.z, y.w};
        TILE_UNROLL
        for (int i = 0; i < 4; i++) {
            even += tile_machine::low(f[i]) * tile_machine::low(g[i]);
            odd += tile_machine::high(f[i]) * tile_machine::high(g[i]);
        }
    }
    return even + odd;
}

// Where a step of a block stands: everything that is passed on has as many stages as there are groups, and so has the
// turn.
struct place {
    int stage = 0;
    uint32_t phase = 0;
    TILE_FN void next()
    {
        if (++stage == GROUPS) stage = 0, phase ^= 1;
    }
};

// The tiles of a head are cut into stretches. A block owns the tiles begin ... end - 1 of one, as queries and as keys.
struct stretch {
    int tiles, count, length;  // of a head: tiles, stretches; tiles of a stretch
    int reach;                 // so many tiles further than its keys, queries see them
};

// What is a block's of a head: it walks over the tiles begin ... last - 1 of queries, of which those before `end` are
// its own. first_key: the first tile of keys that they see.
struct share {
    int kv_head, begin, end, last, first_key;
};

// One thread fetches what belongs to queries.
TILE_FN void fetch_queries(
    stretch_tiles &tiles, const share &my, int group_size, const tensor_map &Q_map, const tensor_map &dO_map,
    const tensor_map &O_map)
{
    place now;
#pragma unroll 1
    for (int n = my.begin; n < my.last; n++)
#pragma unroll 1
        for (int h = 0; h < group_size; h++, now.next()) {
            const int head = my.kv_head * group_size + h;
            signal &full = tiles.full[now.stage];
            tiles.empty[now.stage].wait(now.phase ^ 1);
            load_async(tiles.Q[now.stage], Q_map, n * 64, head, full);
            load_async(tiles.dO[now.stage], dO_map, n * 64, head, full);
            load_async(tiles.O[now.stage], O_map, n * 64, head, full);
        }
}

// One thread fetches keys and values.
template <bool SINKS> TILE_FN void fetch_keys(
    stretch_tiles &tiles, const share &my, const tensor_map &K_map, const tensor_map &V_map,
    const tensor_map &K_sinks_map, const tensor_map &V_sinks_map)
{
    if (SINKS) load_async(tiles.K_sinks, K_sinks_map, 0, my.kv_head, tiles.sinks_full);
    if (SINKS) load_async(tiles.V_sinks, V_sinks_map, 0, my.kv_head, tiles.sinks_full);
#pragma unroll 1
    for (int k = my.first_key; k < my.end; k++) {
        const int slot = slot_of(k);
        tiles.keys_empty[slot].wait((k - my.first_key) / SLOTS % 2 ^ 1);
        load_async(tiles.K[slot], K_map, k * 64, my.kv_head, tiles.keys_full[slot]);
        load_async(tiles.V[slot], V_map, k * 64, my.kv_head, tiles.keys_full[slot]);
    }
}

// Two warps find delta = rowsum(dO * O), a thread a row.
TILE_FN void find_delta(stretch_tiles &tiles, const share &my, int group_size, int N, float *delta_out, const float *L)
{
    place now;
    const int r = threadIdx.x - 64;
#pragma unroll 1
    for (int row = my.begin * 64 + r; row < my.last * 64; row += 64) {
        int at = my.kv_head * group_size * N + row;
        float L_row = row < N ? L[at] : INFINITY;  // a query that does not exist: P = 0
#pragma unroll 1
        for (int h = 0; h < group_size; h++, at += N, now.next()) {
            tiles.full[now.stage].wait(now.phase);
            tiles.L[now.stage].at[place_of(r)] = L_row * LOG2_E;
            if (row < N && h + 1 < group_size) L_row = L[at + N];  // comes while delta is computed
            const float sum = dot(tiles.O[now.stage], tiles.dO[now.stage], r);
            tiles.delta[now.stage].at[place_of(r)] = sum;
            if (row < N && row < my.end * 64) delta_out[at] = sum;
            __syncwarp();
            if (lane_id() == 0) tiles.known[now.stage].arrive(), tiles.empty[now.stage].arrive();
        }
    }
}

// Some of a stage's queries, which begin at i0 and whose turn is ours, see a sink left of the window: dS of these.
TILE_FN void see_sinks(stretch_tiles &tiles, const place &now, int group, int i0, int W, int sinks, float scale2)
{
    const int warp_row = 16 * warp_in_group(), stage = now.stage;
    reg_tile<16, 16> P, dS;
    weights<16> dS_left;
    mma_ABt_async(P, tiles.Q[stage], tiles.K_sinks);    // S = Q K^T
    mma_ABt_async(dS, tiles.dO[stage], tiles.V_sinks);  // dP = dO V^T
    tiles.known[stage].wait(now.phase);
    products_done<1>(P);
    products_done<0>(dS);
    each(P, [&](float &x, element e) {
        const int row = warp_row + e.row;
        const bool seen = e.col < sinks && e.col <= i0 + row - W;
        x = seen ? exp2_fast(x * scale2 - tiles.L[stage].at[place_of(row)]) : 0;
    });
    each(dS, [&](float &x, element e) { x = P[e] * (x - tiles.delta[stage].at[place_of(warp_row + e.row)]); });
    round_to(dS_left, dS);
    const uint32_t(&x)[4] = dS_left.x[0];
    tiles.dS_sinks[group][threadIdx.x % warpgroup_threads] = {x[0], x[1], x[2], x[3]};
}

template <bool SINKS> __global__ __launch_bounds__(128 * (1 + GROUPS), 1) void stretch_kernel(
    const __grid_constant__ tensor_map dQ_map,       // [B, Hq, N, 64], all in tiles of 64 rows
    const __grid_constant__ tensor_map Q_map,        // [B, Hq, N, 64]
    const __grid_constant__ tensor_map K_map,        // [B, Hkv, N, 64]
    const __grid_constant__ tensor_map V_map,        // [B, Hkv, N, 64]
    const __grid_constant__ tensor_map O_map,        // [B, Hq, N, 64]
    const __grid_constant__ tensor_map dO_map,       // [B, Hq, N, 64]
    const __grid_constant__ tensor_map K_sinks_map,  // [B, Hkv, N, 64], in tiles of MOST_SINKS rows
    const __grid_constant__ tensor_map V_sinks_map,  // [B, Hkv, N, 64]
    bf16 *dK_out,                                    // [B, Hkv, N, 64]
    bf16 *dV_out,                                    // [B, Hkv, N, 64]
    float *delta_out,                                // [B, Hq, N]
    const float *L,                                  // [B, Hq, N]
    stretch plan, int group_size, int N, int W, int sinks,
    int keys_done,  // so many of the first keys have dK and dV already; a multiple of 16
    float scale)
{
    using registers = register_shares<GROUPS, 32, 160>;
    extern __shared__ __align__(1024) unsigned char shared[];  // shared_memory() takes registers: none is left
    auto &tiles = *reinterpret_cast<stretch_tiles *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) tiles.keys_full[i].init(2), tiles.keys_empty[i].init(4 * GROUPS);
        for (int i = 0; i < GROUPS; i++)
            tiles.full[i].init(3), tiles.empty[i].init(4 * GROUPS + 2), tiles.known[i].init(2);
        for (int i = 0; i < GROUPS; i++) tiles.dS_empty[i].init(4);
        tiles.sinks_full.init(2);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // who am I
    const int kv_head = blockIdx.x, begin = blockIdx.y * plan.length;
    const int end = min(plan.tiles, begin + plan.length), last = min(plan.tiles, begin + plan.length + plan.reach);
    const int first_key = max(0, begin - plan.reach);  // the first tile of keys that our queries see

    if (warpgroup_id() == 0) {
        const share my = {kv_head, begin, end, last, first_key};
        registers::give();
        if (threadIdx.x == 0)
            fetch_queries(tiles, my, group_size, Q_map, dO_map, O_map);
        else if (threadIdx.x == 32)
            fetch_keys<SINKS>(tiles, my, K_map, V_map, K_sinks_map, V_sinks_map);
        else if (threadIdx.x >= 64)
            find_delta(tiles, my, group_size, N, delta_out, L);
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1, warp_row = 16 * warp_in_group();
    const float scale2 = scale * LOG2_E;
    reg_tile<16, 64> dK = {}, dV = {};
    place now;
    const auto store_keys = [&](int k) {  // if they are ours
        if (k < begin || k >= end) return;
        const int key = k * 64 + warp_row;
        if (key < keys_done) return;
        each(dK, [&](float &x, element) { x *= scale; });
        store(dK_out + ((size_t)kv_head * N + key) * 64, dK, N - key);
        store(dV_out + ((size_t)kv_head * N + key) * 64, dV, N - key);
    };
    // dQ of the step before, whose turn was ours: tile n of this head.
    const auto make_dQ = [&](int n, int head) {
        auto &dS = tiles.dS[group];
        reg_tile<16, 64> dQ;
        gather<GROUPS>(group, true);                                  // the others' dS
        mma_AB_first_async(dQ, dS[n % GROUPS], tiles.K[slot_of(n)]);  // dQ = dS K
        if (n - 1 >= first_key && plan.reach >= 1) mma_AB_async(dQ, dS[(n - 1) % GROUPS], tiles.K[slot_of(n - 1)]);
        if (n - 2 >= first_key && plan.reach >= 2) mma_AB_async(dQ, dS[(n - 2) % GROUPS], tiles.K[slot_of(n - 2)]);
        if (SINKS && n * 64 + 63 >= W) {
            const uint4 x = tiles.dS_sinks[group][threadIdx.x % warpgroup_threads];
            mma_AB_async(dQ, weights<16>{{{x.x, x.y, x.z, x.w}}}, tiles.K_sinks);
        }
        products_done<0>(dQ);
        if (lane_id() == 0) tiles.dS_empty[group].arrive();
        each(dQ, [&](float &x, element) { x *= scale; });
        store(dS[group], dQ);
        if (SINKS) before_is_done();  // the sinks' parts, which lie in dQ, have been added up
        store_async(dQ_map, n * 64, head, dS[group]);
    };
    if (SINKS) tiles.sinks_full.wait(0);
    const int first_head = kv_head * group_size, after_us = (group + 1) % GROUPS;
    int age = (begin + GROUPS - group) % GROUPS;  // so many tiles before the queries' are our keys'
#pragma unroll 1
    for (int n = begin; n < last; n++, age++) {
        if (age == GROUPS) {  // nobody sees our keys any more
            store_keys(n - age);
            age = 0;
            each(dK, [](float &x, element) { x = 0; });
            each(dV, [](float &x, element) { x = 0; });
        }
#pragma unroll 1
        for (int k = n == begin ? first_key : n; k <= n && k < end; k++)
            tiles.keys_full[slot_of(k)].wait((k - first_key) / SLOTS % 2);
        const bool sees = age <= plan.reach && n - age >= first_key && n - age < end;  // these queries, our keys
        const int apart = age * 64 - warp_row;  // position of the first query minus that of the warp's first key
        const auto &K = tiles.K[slot_of(n - age)], &V = tiles.V[slot_of(n - age)];
#pragma unroll 1
        for (int head = first_head; head < first_head + group_size; head++, now.next()) {
            const int stage = now.stage;
            const auto &Q = tiles.Q[stage], &dO = tiles.dO[stage];
            const bool mine = stage == group;
            tiles.full[stage].wait(now.phase);
            if (n < end) {
                tiles.dS_empty[stage].wait(now.phase ^ 1);   // dQ of three steps ago has been made,
                if (mine) stores_read(), warpgroup_meets();  // and what lay in our part has left
            }
            if (sees) {
                reg_tile<16, 64> P, dS;
                weights<64> P_left, dS_left;
                col_vec<64> L_col, delta_col;
                tiles.known[stage].wait(now.phase);
                load(L_col, tiles.L[stage]);
                mma_ABt_async(P, K, Q);    // S^T = K Q^T
                mma_ABt_async(dS, V, dO);  // dP^T = V dO^T
                products_done<1>(P);
                if (apart <= 15 || apart + 63 >= W)
                    each(P, [&](float &x, element e) {
                        if ((unsigned)(apart + e.col - e.row) >= (unsigned)W)
                            x = -INFINITY;  // W or more, or less than 0
                    });
                each(P, [&](float &x, element e) { x = exp2_fast(x * scale2 - L_col[e]); });  // S^T becomes P^T
                products_done<0>(dS);
                load(delta_col, tiles.delta[stage]);
                each(dS, [&](float &x, element e) { x = P[e] * (x - delta_col[e]); });
                round_to(P_left, P);
                round_to(dS_left, dS);
                mma_AB_async(dV, P_left, dO);  // dV += P^T dO
                mma_AB_async(dK, dS_left, Q);  // dK += dS^T Q, times scale at the end
                if (n < end) {
                    store_transposed(reinterpret_cast<tma_tile<64, 64>(&)[1]>(tiles.dS[stage][group]), dS_left);
                    writes_visible();
                }
                products_done<1>(dV);
                products_done<0>(dK);
            }
            if (SINKS && mine && n < end && n * 64 + 63 >= W) see_sinks(tiles, now, group, n * 64, W, sinks, scale2);
            if (n < end && !mine) gather<GROUPS>(stage, false);  // our dS is there
            __syncwarp();                                        // all lanes have read L and delta
            if (lane_id() == 0) tiles.empty[stage].arrive();
            const bool first = head == first_head;  // then the step before was the last of the tile before
            if (stage == after_us && n - first >= begin && n - first < end)
                make_dQ(n - first, first ? first_head + group_size - 1 : head - 1);
            if (first && n - 3 >= first_key && lane_id() == 0) tiles.keys_empty[slot_of(n - 3)].arrive();
        }
    }
    if (last == end && now.stage == after_us) make_dQ(end - 1, first_head + group_size - 1);
    store_keys(last - age);
    stores_read();  // the block may not end before
}

// As many stretches as make the blocks end at the same time: as many as an H200 runs at a time, or a multiple. (Not
// those of this GPU: the bits of the result are not to depend on it.)
static stretch plan_of(int heads, int N, int W)
{
    constexpr int blocks = 132;
    stretch plan = {(N - 1) / 64 + 1, 1, 0, (W + 62) / 64};
    long long best = LLONG_MAX;
    for (int count = 1; count <= plan.tiles && count <= 4 * blocks; count++) {
        const int length = (plan.tiles - 1) / count + 1;
        const long long rounds = ((long long)heads * ((plan.tiles - 1) / length + 1) - 1) / blocks + 1;
        const long long time = rounds * (length + plan.reach);
        if (time < best) best = time, plan.length = length;
    }
    plan.count = (plan.tiles - 1) / plan.length + 1;
    return plan;
}

// Whether the kernel can do it here.
static bool suits(const char *name, const attention_shape *shape)
{
    const long long heads = (long long)shape->batch * shape->q_heads;
    return shape->head_dim == 64 && shape->window <= MOST_W && shape->scale > 1e-30f &&
           heads * shape->q_len <= INT_MAX / 2 && fits<stretch_tiles>() && check_hopper(name) == WB_OK;
}

// dQ, delta, and dK and dV but for the first keys_done keys.
template <bool SINKS> static wb_status launch_stretches(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, int keys_done, wb_stream stream)
{
    constexpr int bytes = sizeof(stretch_tiles);
    static_assert(bytes <= 227 * 1024, "a block may have 227 KB of shared memory");
    const int q_heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads, N = shape->q_len;
    const stretch plan = plan_of(kv_heads, N, shape->window);
    tensor_map dQ_map, Q_map, K_map, V_map, O_map, dO_map, K_sinks_map, V_sinks_map;
    wb_status status = describe(dQ_map, dQ, q_heads, N, 64, 64);
    if (status == WB_OK) status = describe(Q_map, Q, q_heads, N, 64, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, N, 64, 64);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, N, 64, 64);
    if (status == WB_OK) status = describe(O_map, O, q_heads, N, 64, 64);
    if (status == WB_OK) status = describe(dO_map, dO, q_heads, N, 64, 64);
    if (status == WB_OK) status = describe(K_sinks_map, K, kv_heads, N, 64, MOST_SINKS);
    if (status == WB_OK) status = describe(V_sinks_map, V, kv_heads, N, 64, MOST_SINKS);
    if (status != WB_OK) return status;
    const auto kernel = stretch_kernel<SINKS>;
    const dim3 grid(kv_heads, plan.count);
    const int threads = 128 * (1 + GROUPS), group_size = q_heads / kv_heads;
    const float scale = shape->scale;
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (SINKS && keys_done)  // begins while their parts are added up
        return launch_after(
            kernel, grid, threads, bytes, stream, dQ_map, Q_map, K_map, V_map, O_map, dO_map, K_sinks_map, V_sinks_map,
            dK, dV, delta, L, plan, group_size, N, shape->window, shape->sinks, keys_done, scale);
    kernel<<<grid, threads, bytes, stream>>>(
        dQ_map, Q_map, K_map, V_map, O_map, dO_map, K_sinks_map, V_sinks_map, dK, dV, delta, L, plan, group_size, N,
        shape->window, shape->sinks, keys_done, scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// Stretches of all tiles, and two more each, of all heads of a group. `more`: microseconds of a step of the sinks.
static double stretch_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim != 64 || shape->window > MOST_W || shape->sinks > MOST_SINKS)
        return INFINITY;
    const wb_costs *c = device->costs;
    const double heads = (double)shape->batch * shape->kv_heads, tiles = (shape->q_len - 1) / 64 + 1;
    const int reach = (shape->window + 62) / 64, group = wb_group_of(shape);
    double steps = INFINITY;
    for (int rounds = 1; rounds <= 8; rounds++) {
        const double length = ceil(tiles / fmax(1, floor(rounds * 132 / heads)));
        const double stretches = ceil(tiles / length), taken = ceil(heads * stretches / device->processors);
        const double beyond = fmin(reach, tiles - length);  // its end
        steps = fmin(steps, taken * ((length + beyond) * group + c->beginning));
    }
    const bool far = shape->sinks && shape->window < shape->q_len;
    const double of_sinks = fmax(8, heads * group * shape->q_len / 32 / (4 * device->processors));
    return c->launch + wb_both(c->step * steps, c->megabyte * wb_megabytes(shape, 4, 4)) +
           (far ? 4 + c->more * of_sinks : 0);
}
#ifndef SINK_LOGITS
// The first MOST_SINKS keys, the sinks among them: their dK and dV are sums over all queries, in parts, a block for
// each.
constexpr int BQ = 32;     // queries of a step
constexpr int BLOCKS = 4;  // of a multiprocessor
struct sink_tiles {
    smem_tile<MOST_SINKS, 64> K_smem, V_smem;
    smem_tile<BQ, 64> Q_smem[GROUPS], dO_smem[GROUPS], O_smem[GROUPS];  // one is read, one has come, one is on its way
    float L_smem[2][BQ], delta_smem[2][BQ];                             // L in base 2
};

static_assert(
    BLOCKS * (sizeof(sink_tiles) + 1024) <= 228 * 1024, "a multiprocessor has 228 KB, and keeps 1 for each block");

// Two warps: one multiplies, the other computes delta of the step that comes next. Tiles lie on their sides, as above.
__global__ __launch_bounds__(64, BLOCKS) void sinks_kernel(
    bf16 *dK,        // [B, Hkv, N, 64]
    bf16 *dV,        // [B, Hkv, N, 64]
    float *sums,     // [B Hkv, parts, 2, MOST_SINKS, 64], or, of one part, null: it is all there is
    const bf16 *Q,   // [B, Hq, N, 64]
    const bf16 *K,   // [B, Hkv, N, 64]
    const bf16 *V,   // [B, Hkv, N, 64]
    const bf16 *O,   // [B, Hq, N, 64]
    const bf16 *dO,  // [B, Hq, N, 64]
    const float *L,  // [B, Hq, N]
    int group_size, int N, int W, int sinks, float scale)
{
    extern __shared__ uint4 shared_of_sinks[];
    auto &tiles = *reinterpret_cast<sink_tiles *>(shared_of_sinks);

    // who am I: steps begin ... end - 1 of those of all heads of the group
    const int part = blockIdx.y, parts = gridDim.y, per_head = (N - 1) / BQ + 1;
    const size_t kv_head = blockIdx.x;  // counted over the whole batch
    const int begin = (int)((long long)group_size * per_head * part / parts);
    const int end = (int)((long long)group_size * per_head * (part + 1) / parts);
    const auto first_of = [&](int step) { return step % per_head * BQ; };
    const auto row_of = [&](int step) { return (kv_head * group_size + step / per_head) * N + first_of(step); };
    const auto load_step = [&](int step) {
        const int stage = step % GROUPS, rows = N - first_of(step);
        const size_t at = row_of(step) * 64;
        load_async<64>(tiles.Q_smem[stage], Q + at, rows);
        load_async<64>(tiles.dO_smem[stage], dO + at, rows);
        load_async<64>(tiles.O_smem[stage], O + at, rows);
        loads_issued();
    };
    // By one warp, a lane a query. One that does not exist has L = infinity, and thereby P = 0.
    const auto know = [&](int step) {
        const int r = lane_id();
        const float L_row = first_of(step) + r < N ? L[row_of(step) + r] * LOG2_E : INFINITY;
        const auto *O_row = reinterpret_cast<const uint4 *>(tiles.O_smem[step % GROUPS].at[r]),
                   *dO_row = reinterpret_cast<const uint4 *>(tiles.dO_smem[step % GROUPS].at[r]);
        float sum = 0;
        TILE_UNROLL
        for (int c = 0; c < 8; c++) {
            const uint4 o = O_row[c], g = dO_row[c];  // eight bf16 each
            const auto *a = reinterpret_cast<const __nv_bfloat162 *>(&o),
                       *b = reinterpret_cast<const __nv_bfloat162 *>(&g);
            TILE_UNROLL
            for (int i = 0; i < 4; i++) {
                const float2 x = __bfloat1622float2(a[i]), y = __bfloat1622float2(b[i]);
                sum += x.x * y.x + x.y * y.y;
            }
        }
        tiles.delta_smem[step % 2][r] = sum;
        tiles.L_smem[step % 2][r] = L_row;
    };

    load_async<64>(tiles.K_smem, K + kv_head * N * 64, N);
    load_async<64>(tiles.V_smem, V + kv_head * N * 64, N);
    load_step(begin);
    loads_arrived<0>();
    __syncthreads();  // every thread's part of K, V and the first step has arrived
    if (begin + 1 < end) load_step(begin + 1);
    const bool multiplies = warp_id() == 0;
    if (!multiplies) know(begin);
    operand<MOST_SINKS, 64> K_reg, V_reg;
    load(K_reg, tiles.K_smem, 0);
    load(V_reg, tiles.V_smem, 0);
    const float scale2 = scale * LOG2_E;
    reg_tile<MOST_SINKS, 64> dK_reg = {}, dV_reg = {};
    for (int step = begin; step < end; step++) {
        loads_arrived<0>();
        __syncthreads();  // L and delta of this step are known, the next tiles have arrived, those of the last are free
        if (step + 2 < end) load_step(step + 2);
        if (!multiplies) {
            if (step + 1 < end) know(step + 1);
            continue;
        }
        const auto &Q_tile = tiles.Q_smem[step % GROUPS], &dO_tile = tiles.dO_smem[step % GROUPS];
        const int i0 = first_of(step);
        col_vec<BQ> L_col, delta_col;
        load(L_col, tiles.L_smem[step % 2], BQ, 0);
        load(delta_col, tiles.delta_smem[step % 2], BQ, 0);
        reg_tile<MOST_SINKS, BQ> P = {}, dS = {};
        mma_ABt(P, K_reg, Q_tile);    // S^T = K Q^T
        mma_ABt(dS, V_reg, dO_tile);  // dP^T = V dO^T
        each(P, [&](float &s, element e) {
            const int i = i0 + e.col, j = e.row;
            s = j > i || (i - j >= W && j >= sinks) ? 0 : exp2_fast(s * scale2 - L_col[e]);  // S^T becomes P^T
        });
        mma_AB(dV_reg, P, dO_tile);  // dV += P^T dO
        each(dS, [&](float &x, element e) { x = P[e] * (x - delta_col[e]); });
        mma_AB(dK_reg, dS, Q_tile);  // dK += dS^T Q, times scale at the end
    }
    if (!multiplies) return;

    each(dK_reg, [&](float &x, element) { x *= scale; });
    if (!sums) {
        store(dK + kv_head * N * 64, dK_reg, N);
        store(dV + kv_head * N * 64, dV_reg, N);
        return;
    }
    float *sum = sums + (kv_head * parts + part) * 2 * MOST_SINKS * 64;
    each(dK_reg, [&](float &x, element e) { sum[e.row * 64 + e.col] = x; });
    each(dV_reg, [&](float &x, element e) { sum[(MOST_SINKS + e.row) * 64 + e.col] = x; });
}

// The sums of their parts, always in the same order. A thread an element, with AT_ONCE parts on their way to it.
__global__ __launch_bounds__(256) void sum_kernel(
    bf16 *dK,           // [B Hkv, N, 64]
    bf16 *dV,           // [B Hkv, N, 64]
    const float *sums,  // [B Hkv, parts, 2, MOST_SINKS, 64]
    int parts, int N)
{
    constexpr int AT_ONCE = 16, SIZE = 2 * MOST_SINKS * 64;
    after_may_begin();  // the stretches, which wait for these sums before they store into dQ
    before_is_done();
    const size_t kv_head = blockIdx.x;
    const int at = blockIdx.y * 256 + threadIdx.x, key = at / 64 % MOST_SINKS;
    if (key >= N) return;
    sums += kv_head * parts * SIZE + at;
    float sum = 0;
    for (int part = 0; part < parts; part += AT_ONCE) {
        float x[AT_ONCE];
        TILE_UNROLL
        for (int i = 0; i < AT_ONCE; i++) x[i] = part + i < parts ? sums[(size_t)(part + i) * SIZE] : 0;
        TILE_UNROLL
        for (int i = 0; i < AT_ONCE; i++) sum += x[i];
    }
    (at < SIZE / 2 ? dK : dV)[(kv_head * N + key) * 64 + at % 64] = __float2bfloat16(sum);
}

static wb_status launch_sinks(
    bf16 *dQ, bf16 *dK, bf16 *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O, const float *L,
    const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    constexpr int FEWEST_STEPS = 8, bytes = sizeof(sink_tiles), part_bytes = 2 * MOST_SINKS * 64 * sizeof(float);
    const int kv_heads = shape->batch * shape->kv_heads, group_size = shape->q_heads / shape->kv_heads;
    const int N = shape->q_len;
    // BLOCKS blocks for each multiprocessor, of FEWEST_STEPS steps or more, and no more than have room in dQ for their
    // sums.
    const size_t room = (size_t)group_size * N * 64 * sizeof(bf16), steps = (size_t)group_size * ((N - 1) / BQ + 1);
    const size_t most = max(1, BLOCKS * 132 / kv_heads);
    const int parts = (int)max((size_t)1, min(room / part_bytes, min(most, steps / FEWEST_STEPS)));
    float *sums = parts > 1 ? reinterpret_cast<float *>(dQ) : nullptr;
    WB_CUDA(cudaFuncSetAttribute(sinks_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    sinks_kernel<<<dim3(kv_heads, parts), 64, bytes, stream>>>(
        dK, dV, sums, Q, K, V, O, dO, L, group_size, N, min(shape->window, N), min(shape->sinks, N), shape->scale);
    WB_CUDA(cudaGetLastError());
    if (parts == 1) return WB_OK;
    return launch_after(sum_kernel, dim3(kv_heads, part_bytes / 4 / 256), 256, 0, stream, dK, dV, sums, parts, N);
}

wb_status flash_sinks_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_sinks_backward";
    wb_status status = wb_check_backward(name, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    if (!suits(name, shape) || shape->sinks > MOST_SINKS)
        return any_window::flash_sinks_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    const bool far = shape->sinks > 0 && shape->window < shape->q_len;  // some query sees a sink left of its window
    if (far) status = launch_sinks(dQ, dK, dV, Q, K, V, O, L, dO, shape, stream);
    if (status != WB_OK) return status;
    const auto run = far ? launch_stretches<true> : launch_stretches<false>;
    return run(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, far ? MOST_SINKS : 0, stream);
}
double flash_sinks_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return stretch_microseconds(shape, device);
}
#endif
