// one_launch.cu - flash_gqa_backward on a Hopper GPU for short sequences: the reference solution's kernels for dQ and
// for dK and dV as two kinds of blocks of one launch, with the primitives of problem 10. Neither needs results of the
// other.
//
// A short pass is mostly waiting: for a launch, for the first tiles, for the last stores. In hopper.cu there are three
// launches, each of which waits for the one before. Here S and dP are computed twice, once for dQ and once for dK and
// dV: seven products instead of five, and delta where it is used. For that nothing is handed from block to block: no
// workspace, no counters, no turns, no transposed dS, and the same bits each time. At N = D = 128 the seven are 29
// MFLOP a head, 4 us of a multiprocessor's tensor cores, shared by four warpgroups on two of them; the five are 2.8
// us, of one. (The other way is a cluster, a query head a block: S once, dK and dV added up through the shared memory
// of all. It saves products that hardly count here, for barriers across multiprocessors, and ends at groups of 8.)
//
// What a warpgroup does is the same for both kinds. It has a tile of 64 rows of one side, and meets tiles of 64 of the
// other:
//     P = exp(S - L), S = mine theirs^T;  dS = P (dP - delta), dP = mine' theirs'^T;  its gradient += dS theirs
// With queries, mine are Q and dO, theirs K and V, and the gradient is dQ. With keys, mine are K and V, theirs Q and
// dO, the gradient is dK, and dV += P theirs'. So P and dS are left factors as they lie in registers. The warpgroups
// of a block with keys share out the tiles of all heads of the group, and in the end add up what each has, in order.
// With queries each has a tile of its own.
//
// Shared memory, D = 128: 32 KB of mine, two stages of 32 KB of theirs, 16 KB of O, for each of two warpgroups: 226
// KB. D = 64: 57 KB, three of them.
//
// D = 16 and 32, and GPUs that are none of sm_90, are the key's. 09 and 12 include this file for their masks (#define
// OF_ANOTHER).
// Random shapes that it is chosen for: 81 of 366 backward passes, 92 of 366 deterministic backward passes (records of
// `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

#ifndef OF_ANOTHER
namespace of_the_key
{
#include "../flash_gqa_backward.cu"
}
#endif

// Query i sees key j where i - j is one of the `span` numbers from `least` on, and any after these if the key is a
// sink.
struct visibility {
    int N, least, span, sinks;
    TILE_FN bool of(int i, int j) const
    {
        const int seen_by = j < sinks ? INT_MAX : j < N ? span : 0;
        return (unsigned)(i - j - least) < (unsigned)seen_by;
    }
    // Of a tile of 64 queries from i on and one of 64 keys from j on: any pair, all pairs.
    TILE_FN bool of_any(int i, int j) const
    {
        const int last_i = min(i + 63, N - 1), last_j = min(j + 63, N - 1);
        return last_i - j >= least && (i - last_j - least < span || j < sinks);
    }
    TILE_FN bool of_all(int i, int j) const
    {
        return i - (j + 63) >= least && (i + 63 - j - least < span || j + 63 < sinks) && j + 63 < N;
    }
};

constexpr float LOG2E = 1.44269504f;

// So many warpgroups share a multiprocessor, as one block or as blocks of one.
template <int D> constexpr int AT_ONCE = D == 128 ? 2 : 3;

TILE_FN void load(col_vec<64> &v, const float (&src)[64])
{
    TILE_UNROLL
    for (int k = 0; k < 8; k++) {
        const float2 x = reinterpret_cast<const float2 *>(src)[4 * k + lane_id() % 4];
        v.x[2 * k] = x.x, v.x[2 * k + 1] = x.y;
    }
}

// What a warpgroup keeps in shared memory. Tiles of the other side come a step early. In the end its gradients lie
// where mine were.
template <int D> struct warpgroup_tiles {
    tma_tile<64, D> mine[2];              // Q and dO; or K and V
    tma_tile<64, D> first[2], second[2];  // two stages of K and V; or of Q and dO
    tma_tile<64, D> O[1];                 // beside dO
    // Of the rows of O, made when it is there. L in base 2; infinity for queries that do not exist, so that P = 0.
    float L[64], delta[64];
    ring_signals<2> first_signals, second_signals;
    ring_signals<1> O_signals;
    signal mine_full[2];
};

// The tiles that a warpgroup meets, head after head: of those that its block meets every EVERY-th.
template <bool OF_KEYS, int EVERY> struct walk {
    visibility sees;
    int mine;            // the first of my rows
    int head, end_head;  // the first, then the one where I am
    int wait;            // so many tiles are for others before the next one of mine
    int theirs = -64;
    TILE_FN bool next()
    {
        for (;;) {
            theirs += 64;
            if (theirs >= sees.N && (theirs = 0, ++head == end_head)) return false;
            if (!(OF_KEYS ? sees.of_any(theirs, mine) : sees.of_any(mine, theirs))) continue;
            if (wait-- > 0) continue;
            wait = EVERY - 1;
            return true;
        }
    }
};

// One end of a ring, as it is after so many turns: so that one number stands for all ends, and the registers suffice.
template <class End> TILE_FN End at_turn(int turns, End end, int stages = 2)
{
    end.stage = turns % stages, end.phase ^= turns / stages % 2;
    return end;
}

template <int D> TILE_FN void add(reg_tile<16, D> &sum, const fragments<D> &term)
{
    TILE_UNROLL
    for (int c = 0; c < D / 8; c++) {
        const float4 x = term.at[c][threadIdx.x % warpgroup_threads];
        float *y = sum.x[0][c];
        y[0] += x.x, y[1] += x.y, y[2] += x.z, y[3] += x.w;
    }
}

// O_i dO_i of the row that this thread and its neighbour share. Both read 16 bytes at a time, of pieces that lie in
// different banks.
template <int D> TILE_FN float dot_of_row(const tma_tile<64, D> &O, const tma_tile<64, D> &dO)
{
    const int row = threadIdx.x % warpgroup_threads / 2, half = threadIdx.x % 2;
    float even = 0, odd = 0;
    TILE_UNROLL
    for (int k = 0; k < D / 16; k++) {
        const int piece = ((k % 4 + 4 * half) ^ (row % 8)) * 8;
        const uint4 x = reinterpret_cast<const uint4 &>(O.at[k / 4][row][piece]);
        const uint4 y = reinterpret_cast<const uint4 &>(dO.at[k / 4][row][piece]);
        const uint32_t f[4] = {x.x, x.y, x.z, x.w}, g[4] = {y.x, y.y, y.z, y.w};
        TILE_UNROLL
        for (int i = 0; i < 4; i++) {
            even += tile_machine::low(f[i]) * tile_machine::low(g[i]);
            odd += tile_machine::high(f[i]) * tile_machine::high(g[i]);
        }
    }
    const float sum = even + odd;
    return sum + __shfl_xor_sync(0xffffffffu, sum, 1);
}

// The tensors, [B, H, N, D] in tiles of 64 rows, and [B, Hq, N].
struct tensors {
    tensor_map dQ, dK, dV, Q, K, V, O, dO;
    float *delta;
    const float *L;
};

// One warpgroup's work: with keys, of key head `head`, or with queries, of query head `head`, from row `mine` on.
template <int D, int GROUPS, bool OF_KEYS> TILE_FN void work(
    warpgroup_tiles<D> (&all)[GROUPS], const tensors &t, int head, int mine, int group_size, visibility sees,
    float scale)
{
    const int group = GROUPS == 1 ? 0 : warpgroup_id();
    auto &tiles = all[group];
    const bool fetches = threadIdx.x % warpgroup_threads == 0;
    const int pair = threadIdx.x % warpgroup_threads / 2;  // of threads, and the row of which they make L and delta

    // fetch what is mine, and what comes first
    const int first_head = OF_KEYS ? head * group_size : head / group_size;
    walk<OF_KEYS, OF_KEYS ? GROUPS : 1> next = {
        sees, mine, first_head, first_head + (OF_KEYS ? group_size : 1), OF_KEYS ? group : 0};
    bool more = next.next();
    const auto fetch_first = [&](int step) {
        at_turn(step, sender(tiles.first, tiles.first_signals)).send(OF_KEYS ? t.Q : t.K, next.theirs, next.head);
    };
    const auto fetch_second = [&](int step) {
        at_turn(step, sender(tiles.second, tiles.second_signals)).send(OF_KEYS ? t.dO : t.V, next.theirs, next.head);
    };
    const auto fetch_O = [&](int step) {
        at_turn(step, sender(tiles.O, tiles.O_signals), 1)
            .send(t.O, OF_KEYS ? next.theirs : mine, OF_KEYS ? next.head : head);
    };
    // L of my row of the queries of which O comes next; early, for it takes as long as a tile
    const auto next_L = [&] {
        const int row = (OF_KEYS ? next.theirs : mine) + pair;
        return row < sees.N ? t.L[(size_t)(OF_KEYS ? next.head : head) * sees.N + row] * LOG2E : INFINITY;
    };
    float L = 0;
    if (more) {
        if (fetches) {
            load_async(tiles.mine[0], OF_KEYS ? t.K : t.Q, mine, head, tiles.mine_full[0]);
            fetch_first(0);
            load_async(tiles.mine[1], OF_KEYS ? t.V : t.dO, mine, head, tiles.mine_full[1]);
            fetch_second(0);
            fetch_O(0);
        }
        L = next_L();
    }

    const float scale2 = scale * LOG2E;  // the scores in base 2, for exp2
    row_vec<16> L_row, delta_row;
    reg_tile<16, D> sum = {}, dV = {};  // dQ, or dK and dV
    for (int step = 0; more; step++) {
        receiver firsts = at_turn(step, receiver(tiles.first, tiles.first_signals));
        receiver seconds = at_turn(step, receiver(tiles.second, tiles.second_signals));
        receiver Os = at_turn(step, receiver(tiles.O, tiles.O_signals), 1);
        const int theirs = next.theirs;
        more = next.next();
        if (fetches && more) fetch_first(step + 1), fetch_second(step + 1);

        reg_tile<16, 64> P, dS;
        if (step == 0) tiles.mine_full[0].wait(0);
        const auto &first = firsts.receive();
        mma_ABt_async(P, tiles.mine[0], first);  // S
        if (step == 0) tiles.mine_full[1].wait(0);
        const auto &second = seconds.receive();
        // Loads stand in a queue behind the products issued before them: so these come before the next product.
        col_vec<64> L_col, delta_col;
        if (OF_KEYS || step == 0) {  // of queries that are mine L and delta stay
            const float delta = dot_of_row(Os.receive(), OF_KEYS ? second : tiles.mine[1]);
            if (threadIdx.x % 2)
                tiles.L[pair] = L;
            else
                tiles.delta[pair] = delta;
            warpgroup_meets();  // L and delta of all rows are there
            if (OF_KEYS) {
                load(L_col, tiles.L);
                if (more) L = next_L();
            } else {
                const int warp_row = 16 * warp_in_group();
                load(L_row, tiles.L + warp_row, 16, 0);
                load(delta_row, tiles.delta + warp_row, 16, 0);
                store(t.delta + (size_t)head * sees.N + mine + warp_row, delta_row, sees.N - mine - warp_row);
            }
        }
        mma_ABt_async(dS, tiles.mine[1], second);  // dP
        products_done<1>(P);
        const int row = mine + 16 * warp_in_group();
        if (!(OF_KEYS ? sees.of_all(theirs, mine) : sees.of_all(mine, theirs)))
            each(P, [&](float &s, element e) {
                const int i = OF_KEYS ? theirs + e.col : row + e.row, j = OF_KEYS ? row + e.row : theirs + e.col;
                if (!sees.of(i, j)) s = -INFINITY;
            });
        each(P, [&](float &s, element e) { s = exp2_fast(s * scale2 - (OF_KEYS ? L_col[e] : L_row[e])); });
        weights<64> P_left, dS_left;
        const auto begin_dV = [&] {  // dV += P^T dO
            round_to(P_left, P);
            mma_AB_async(dV, P_left, second);
        };
        constexpr bool EARLY = OF_KEYS && D == 128;  // at D = 64 there are too few registers for that
        if (EARLY) begin_dV();
        products_done<EARLY>(dS);
        if (OF_KEYS) {
            load(delta_col, tiles.delta);
            __syncwarp();  // all lanes have read L and delta
            Os.release();
        }
        each(dS, [&](float &x, element e) { x = P[e] * (x - (OF_KEYS ? delta_col[e] : delta_row[e])); });
        round_to(dS_left, dS);
        mma_AB_async(sum, dS_left, first);  // dK += dS^T Q, or dQ += dS K; times scale at the end
        if (OF_KEYS && fetches && more) fetch_O(step + 1);
        if (EARLY) products_done<1>(dV);
        products_done<0>(sum);
        if (OF_KEYS && !EARLY) begin_dV(), products_done<0>(dV);
        firsts.release();
        seconds.release();
    }

    // the warpgroups with keys add up, always in the same order: the first dK, the second dV
    if (OF_KEYS && GROUPS > 1) {
        warpgroup_meets();  // no warp's product reads theirs any more
        if (group != 0) store(reinterpret_cast<fragments<D> &>(tiles.first), sum);
        if (group != 1) store(reinterpret_cast<fragments<D> &>(tiles.second), dV);
        meet<GROUPS>();  // all have done so
        for (int g = 1; g < GROUPS; g++) {
            if (group == 0) add(sum, reinterpret_cast<const fragments<D> &>(all[g].first));
            if (group == 1) add(dV, reinterpret_cast<const fragments<D> &>(all[g == 1 ? 0 : g].second));
        }
    }

    // store: each warp the rows that its own products have read
    each(sum, [&](float &x, element) { x *= scale; });
    if (!OF_KEYS || group == 0) {
        store(tiles.mine[0], sum);
        store_async(OF_KEYS ? t.dK : t.dQ, mine, head, tiles.mine[0]);
    }
    if (OF_KEYS && (GROUPS == 1 || group == 1)) {
        store(tiles.mine[1], dV);
        store_async(t.dV, mine, head, tiles.mine[1]);
    }
    stores_read();  // the block may not end before
}

// The first blocks have keys, a tile of a key head each; then come those with queries, a tile of a query head for each
// warpgroup. Each kind begins with what meets most under a causal mask.
template <int D, int GROUPS> __global__ __launch_bounds__(128 * GROUPS, AT_ONCE<D> / GROUPS) void backward_kernel(
    const __grid_constant__ tensors t, int q_heads, int kv_heads, visibility sees, float scale)
{
    extern __shared__ __align__(1024) unsigned char shared[];  // shared_memory() takes registers: none is left
    auto &all = *reinterpret_cast<warpgroup_tiles<D>(*)[GROUPS]>(shared);
    after_may_begin();
    if (threadIdx.x == 0) {
        for (int g = 0; g < GROUPS; g++) {
            auto &tiles = all[g];
            tiles.first_signals.init(4), tiles.second_signals.init(4);
            tiles.O_signals.init(4);
            tiles.mine_full[0].init(1), tiles.mine_full[1].init(1);
        }
        signals_ready();
    }
    __syncthreads();  // the signals are there for all
    const int tiles_of_head = (sees.N - 1) / 64 + 1, group_size = q_heads / kv_heads, n = blockIdx.x;
    if (n < kv_heads * tiles_of_head) {
        work<D, GROUPS, true>(all, t, n % kv_heads, n / kv_heads * 64, group_size, sees, scale);
    } else {
        const int item = (n - kv_heads * tiles_of_head) * GROUPS + warpgroup_id();
        if (item >= q_heads * tiles_of_head) return;
        work<D, GROUPS, false>(
            all, t, item % q_heads, (tiles_of_head - 1 - item / q_heads) * 64, group_size, sees, scale);
    }
}

// ------------------------------------------------------------------------------------------ launch

template <int D, int GROUPS> static wb_status launch(const tensors &t, const attention_shape *shape, wb_stream stream)
{
    constexpr int bytes = sizeof(warpgroup_tiles<D>[GROUPS]), blocks = AT_ONCE<D> / GROUPS;
    static_assert(
        (bytes + 1024) * blocks <= 228 * 1024,
        "a multiprocessor has 228 KB, of which each block takes 1 beside its own");
    const auto kernel = backward_kernel<D, GROUPS>;
    const int q_heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads, N = shape->q_len;
    const int tiles = (N - 1) / 64 + 1;
    const visibility sees = {
        N, shape->causal ? 0 : -N, shape->causal ? min(shape->window, N) : 2 * N,
        shape->causal ? min(shape->sinks, N) : 0};
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<kv_heads * tiles + (q_heads * tiles - 1) / GROUPS + 1, 128 * GROUPS, bytes, stream>>>(
        t, q_heads, kv_heads, sees, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// Whether the warpgroups of a block had better share out what a tile of keys meets. Where keys are few it ends sooner;
// else all have enough to do, and blocks of one warpgroup end one by one. In steps: what begins and ends a work takes
// about three, and one more where it is added up.
template <int D> static bool shares(const attention_shape *shape, int SMS)
{
    constexpr int AT_A_TIME = AT_ONCE<D>;
    const int tiles = (shape->q_len - 1) / 64 + 1, group = shape->q_heads / shape->kv_heads;
    const bool window = shape->causal && shape->window < shape->q_len;
    const double longest = window && shape->sinks == 0 ? min(tiles, (shape->window - 1) / 64 + 2) : tiles;
    const double mean = shape->causal && !window ? (tiles + 1) / 2.0 : longest;
    const double keys = (double)shape->batch * shape->kv_heads * tiles, queries = keys * group * (mean + 3);
    const double alone = max(group * longest + 3, (keys * (group * mean + 3) + queries) / (SMS * AT_A_TIME));
    const double shared =
        max(group * longest / AT_A_TIME + 4, (keys * (group * mean + 4 * AT_A_TIME) + queries) / (SMS * AT_A_TIME));
    return shared < alone;
}

// Whether this kernel can do it here: what it cannot, the key does.
static bool suits(const char *name, const attention_shape *shape)
{
    const long long heads = (long long)shape->batch * (shape->q_heads + shape->kv_heads);
    return shape->head_dim >= 64 && heads * ((shape->q_len - 1) / 64 + 1) <= INT_MAX && check_hopper(name) == WB_OK;
}

static wb_status launch_any(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const int q_heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads;
    const int N = shape->q_len, D = shape->head_dim;
    tensors t;
    t.delta = delta, t.L = L;
    wb_status status = describe(t.dQ, dQ, q_heads, N, D, 64);
    if (status == WB_OK) status = describe(t.dK, dK, kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(t.dV, dV, kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(t.Q, Q, q_heads, N, D, 64);
    if (status == WB_OK) status = describe(t.K, K, kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(t.V, V, kv_heads, N, D, 64);
    if (status == WB_OK) status = describe(t.O, O, q_heads, N, D, 64);
    if (status == WB_OK) status = describe(t.dO, dO, q_heads, N, D, 64);
    if (status != WB_OK) return status;
    const int processors = wb_this_device().processors;
    if (shape->head_dim == 64)
        return shares<64>(shape, processors) ? launch<64, 3>(t, shape, stream) : launch<64, 1>(t, shape, stream);
    return shares<128>(shape, processors) ? launch<128, 2>(t, shape, stream) : launch<128, 1>(t, shape, stream);
}

// The same in microseconds. A sink is seen by all queries. `more`: of a step of a walk that is shared.
static double one_launch_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim < 64) return INFINITY;
    const wb_costs *c = device->costs;
    const int at_once = shape->head_dim == 128 ? AT_ONCE<128> : AT_ONCE<64>, slots = device->processors * at_once;
    const double tiles = ceil(shape->q_len / 64.0), group = wb_group_of(shape);
    wb_walks keys = wb_over_queries(shape, 64, 64, at_once), queries = wb_over_keys(shape, 64, 64, at_once);
    if (shape->sinks && shape->window < shape->q_len)
        keys.mean += (group * tiles - keys.most) * ceil(shape->sinks / 64.0) / tiles, keys.most = group * tiles;
    // With keys, a tile of each key head comes before the next, and meets Q, dO and O; with queries, K and V. Of blocks
    // of a head the first finds what those before left; the others keep step with it to a fiftieth of their walk.
    const double tile = 2e-6 * 64 * shape->head_dim, key_heads = keys.blocks / tiles, heads = queries.blocks / tiles;
    const double of_queries = 3 * tile * keys.mean, of_keys = 2 * tile * queries.mean;
    const auto again = [&](double read, double apart, double of) {  // so many heads
        const double b = fmax(1, slots / of);
        return wb_missed(read / b, apart) + wb_missed(read - read / b, apart * fmin(1 / b, b / 50));
    };
    const double megabytes =
        again(keys.blocks * of_queries - 3 * tile * queries.blocks, key_heads * of_queries, key_heads) +
        again(queries.blocks * of_keys / group - 2 * tile * keys.blocks, key_heads * of_keys + heads * 4 * tile, heads);
    constexpr double PASS = 0.03;  // of a step: to see that a tile is hidden
    keys.mean += PASS * (group * tiles - keys.mean), keys.most += PASS * (group * tiles - keys.most);
    queries.mean += PASS * (tiles - queries.mean), queries.most += PASS * (tiles - queries.most);
    const bool shared =
        shape->head_dim == 128 ? shares<128>(shape, device->processors) : shares<64>(shape, device->processors);
    const double b = c->beginning, together = shared ? at_once : 1;
    const double chain = fmax(ceil(keys.most / together) * (1 + shared * c->more) + b + shared, queries.most + b);
    const double all = keys.blocks * (keys.mean + (b + shared) * together) + queries.blocks * (queries.mean + b);
    const double time = pow(pow(c->step * chain, 4) + pow(c->busy * all / slots, 4), 0.25);
    return c->launch + wb_both(time, wb_from_memory(megabytes, device)) + c->megabyte * wb_megabytes(shape, 4, 4);
}

#ifndef OF_ANOTHER
extern "C" size_t flash_gqa_backward_workspace(const attention_shape *) { return 0; }

// flash_gqa_backward in memory of the caller's, of which it needs none. Beyond the contract, causal may be 0: then
// every query sees every key.
extern "C" wb_status flash_gqa_backward_in(
    void *, size_t, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_gqa_backward";
    attention_shape masked;
    if (shape) masked = *shape, masked.causal = 1;  // the validator knows of no 08 without a mask
    const wb_status status =
        wb_check_backward(name, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape && shape->causal == 0 ? &masked : shape);
    if (status != WB_OK) return status;
    if (!suits(name, shape)) {
        if (!shape->causal) return wb_fail(WB_UNSUPPORTED, "flash_gqa_backward: this shape needs causal = 1");
        return of_the_key::flash_gqa_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    }
    attention_shape whole = *shape;
    whole.window = whole.q_len, whole.sinks = 0;  // 08 reads neither
    return launch_any(dQ, dK, dV, delta, Q, K, V, O, L, dO, &whole, stream);
}

wb_status flash_gqa_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    return flash_gqa_backward_in(nullptr, 0, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}
double flash_gqa_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return one_launch_microseconds(shape, device);
}
#endif
