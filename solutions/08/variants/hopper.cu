// hopper.cu - flash_gqa_backward on a Hopper GPU, with the primitives of problem 10: five matrix products, and TMA
// reductions accumulate dQ.
//
// A block has 128 keys of one key head at a time, 64 a warpgroup, and walks over the queries that see them; then it
// takes what work is left. Scores and their gradients lie on their sides, keys as rows, so that P and dS are left
// factors of the products for dV and dK as they lie in registers. dS goes through shared memory, transposed, to dQ =
// dS K; and dQ to a sum in global memory, in float32, by the copy engine. Three kernels: delta and what the next one
// reads; the gradients; dQ out of its sum. hopper_work.cuh says who does what; problems/08/hopper.md, why it is so.
//
// Who waits for whom: an arrow is a signal, from who arrives at it to who waits for it.
//
//     thread 0 fetches         thread 96 fetches      threads 32 and 64
//     Q, dO, the next work     K, V                   add dQ to its sum -- dQ_turn --> those of other blocks
//       |              ^         |          ^           ^            |
//     Q, dO,       Q, dO,      K_full,   KV_empty    dQ_full     dQ_empty
//     work: full   work: empty V_full       |           |            |
//       v              |         v          |           |            v
//     two warpgroups, 64 keys each: S^T, dP^T, dV, dK, dQ -- dKV_turn --> those of other blocks
//     which meet when their dS is stored: dQ is of both
//
// Two modes. The fastest adds to dQ in whatever order blocks come; its last bits change from run to run. SAME_BITS
// gives each block its turn (FlashAttention-4's way): hopper_same_bits.cu. dK and dV have the same bits each time in
// both. GPUs that are none of sm_90 are the key's.
//
// 09 and 12 include this file for their windows (#define WINDOWS): a tile of keys has a last query, too. Keys that are
// sinks are seen from beyond it; those queries are shared out as further work, or the first tile would end long after
// all others.
// Random shapes that it is chosen for: 258 of 366 backward passes (records of `make duel`, 2026-11-28).
//
// exempt: memory same_twice
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

#ifndef SAME_BITS
#define SAME_BITS false
#endif
#ifdef WINDOWS
constexpr bool HAS_WINDOWS = true;
#else
constexpr bool HAS_WINDOWS = false;
namespace of_the_key
{
#include "../flash_gqa_backward.cu"
}
#endif
#include "../../08/variants/hopper_work.cuh"  // as it is found from 09 and 12, too

template <int D> constexpr int STAGES_of = D < 64 ? 4 : 2;  // of the rings of Q and dO

// ------------------------------------------------------------------------------------------ before

// What a step needs besides Q and dO. A lane holds columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of each sixteen: they
// stand side by side, so that it fetches them at once.
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

// Where dK and dV go: to a tensor in tiles of bf16, or to rows of float32.
template <bool ADD> using gradient_of = std::conditional_t<ADD, float *, tensor_map>;

// What the kernels hand to one another.
template <int D> struct workspace {
    fragments<D> *dQ_sum;  // [B Hq, blocks64], not yet times scale
    fragments<D>
        *dKV_sum;  // [key_tiles, B Hkv, 2 warpgroups, dK and dV], so far; of parts apart [B Hkv, before[parts], 2, 2]
    void *stats;   // [B Hq, blocks64 * 64 / BQ], statistics<BQ>
    unsigned *dQ_turn;    // [B Hq, blocks64]: how many tiles of keys have been added
    unsigned *dKV_turn;   // [B Hkv, key_tiles, 2]: how many works; has room for as many as dQ_turn
    unsigned *next_work;  // how many works have been taken
};

// delta = rowsum(dO * O): D / 8 neighbouring lanes share a row, each of them 16 bytes of it. And zeros for what counts
// and adds up.
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
            if (row == 0 && head == 0) *w.next_work = 0;
        }
        if (ORDERED) continue;  // who comes first does not add, but put
        float4 *zeros = reinterpret_cast<float4 *>(w.dQ_sum) + (head * blocks64 * 64 + row) * (D / 4) + lane;
        zeros[0] = zeros[LANES] = float4{};
    }
}

// The same where delta is given: a thread a query. turns: how many of dKV_turn there are.
template <int D, bool ORDERED> __global__ __launch_bounds__(256) void begin_kernel(
    workspace<D> w, const float *L, const float *delta, int N, int blocks64, int turns)
{
    constexpr int BQ = BQ_of<D>;
    const int row = blockIdx.x * 256 + threadIdx.x, rows = blocks64 * 64;
    const size_t head = blockIdx.y, at = head * N + row;
    after_may_begin();
    if (row < rows) {
        statistics<BQ> &s = static_cast<statistics<BQ> *>(w.stats)[(head * rows + row) / BQ];
        s.L[place(row % BQ)] = row < N ? L[at] * LOG2_E : INFINITY;
        s.delta[place(row % BQ)] = row < N ? delta[at] : 0;
        if (row % 64 == 0) w.dQ_turn[head * blocks64 + row / 64] = 0;
    }
    const size_t thread = (head * gridDim.x + blockIdx.x) * 256 + threadIdx.x;
    for (size_t n = thread; n < (size_t)turns; n += (size_t)gridDim.x * gridDim.y * 256) w.dKV_turn[n] = 0;
    if (thread == 0) *w.next_work = 0;
    if (ORDERED) return;  // who comes first does not add, but put
    float4 *zeros = reinterpret_cast<float4 *>(w.dQ_sum) + head * rows * (D / 4);
    const int end = min(rows, (int)(blockIdx.x + 1) * 256) * (D / 4);
    for (int n = blockIdx.x * 256 * (D / 4) + threadIdx.x; n < end; n += 256) zeros[n] = float4{};
}

// --------------------------------------------------------------------------------------- gradients

// Adds a warp's sixteen rows, times so much, to those of a head of sums [.., N, D], of which there are N. Another
// block may have been there before.
template <int D> TILE_FN void add_rows(float *sums, int head, int row, int N, const reg_tile<16, D> &x, float times)
{
    float2 *at = reinterpret_cast<float2 *>(sums + ((size_t)head * N + row + lane_id() / 4) * D) + lane_id() % 4;
    const bool there[2] = {row + lane_id() / 4 < N, row + lane_id() / 4 + 8 < N};
    float2 sum[2][D / 8] = {};
    TILE_UNROLL
    for (int i = 0; i < 2; i++) {
        TILE_UNROLL
        for (int c = 0; c < D / 8; c++)
            if (there[i]) load(sum[i][c], &at[4 * D * i + 4 * c]);
    }
    TILE_UNROLL
    for (int i = 0; i < 2; i++) {
        TILE_UNROLL
        for (int c = 0; c < D / 8; c++) {
            sum[i][c].x += times * x.x[0][c][2 * i], sum[i][c].y += times * x.x[0][c][2 * i + 1];
            if (there[i]) store(&at[4 * D * i + 4 * c], sum[i][c]);
        }
    }
}

// What a block keeps in shared memory: 224 KB.
template <int D> struct backward_tiles {
    static constexpr int BQ = BQ_of<D>, PARTS = BQ / 64, STAGES = STAGES_of<D>;
    tma_tile<64, D> K[2], V[2];             // of each warpgroup; in the end dK and dV
    tma_tile<BQ, D> Q[STAGES], dO[STAGES];  // two rings
    tma_tile<64, 64> dS[2][2][PARTS];  // of this step and the one before, of each warpgroup's keys, of each 64 queries
    fragments<D> dQ[2][PARTS];         // of each warpgroup, on its way to the sum
    statistics<BQ> stats[STAGES];      // come with Q
    ring_signals<STAGES> Q_signals, dO_signals;
    signal K_full, V_full, KV_empty, dQ_full[2][PARTS], dQ_empty[2][PARTS];
    work works[2];  // a ring
    ring_signals<2> work_signals;
};

// What the threads of a block do, but for the steps, which stand in the kernel.
//   ORDERED   blocks take turns at adding to dQ
//   MANY      a block takes work after work; without, one, and the loop's few more instructions are saved
//   ADD       18's form, for pairs of chunks: delta is given, dQ, dK and dV, in float32, are added to, and without a
//             mask Nq and Nk may differ
template <int D, mask_kind MASK, bool ORDERED, bool MANY, bool ADD> struct backward_block {
    static constexpr int BQ = BQ_of<D>, PARTS = BQ / 64, STAGES = STAGES_of<D>;
    static constexpr bool DIAGONAL = MASK != FULL, WINDOWED = MASK == WINDOW;

    backward_tiles<D> &tiles;
    const workspace<D> &w;
    const schedule &plan;
    int N, end, W;  // keys; tiles of queries of a head; the window
    float scale;

    // By one thread: the signals, and the first work.
    TILE_FN void begin()
    {
        tiles.K_full.init(2), tiles.V_full.init(2), tiles.KV_empty.init(2);
        for (int g = 0; g < 2; g++)
            for (int b = 0; b < PARTS; b++) tiles.dQ_full[g][b].init(4), tiles.dQ_empty[g][b].init(1);
        tiles.Q_signals.init(8), tiles.dO_signals.init(8), tiles.work_signals.init(8 + 3);
        signals_ready();
        after_may_begin();
        // The first blocks have time to find out before the kernel before ends. await: only for who has begun.
        int number = blockIdx.x;
        const bool early = !MANY && number < plan.processors;
        if (early) tiles.works[0] = work_of<D, MASK, ORDERED>(plan, number, N, end, W);
        before_is_done();
        if (!MANY && (ORDERED || (plan.parts > 1 && !plan.apart))) number = take_number(w.next_work);
        if (!MANY && !(early && number == (int)blockIdx.x))
            tiles.works[0] = work_of<D, MASK, ORDERED>(plan, number, N, end, W);
    }

    // f(work, how many before) for each that this block takes: by all 32 lanes of a warp, or alone
    template <class F> TILE_FN void each_work(bool alone, F f)
    {
        if (!MANY) f(tiles.works[0], 0);
        for (int n = 0; MANY; n++) {
            receiver works(tiles.works, tiles.work_signals);
            works.stage = n % 2, works.phase = n / 2 % 2;
            const work &now = works.receive();
            if (now.kv_head < 0) return;
            f(now, n);
            if (!alone) __syncwarp();  // no lane reads it any more
            works.release();
        }
    }
    // f(query head, query tile) for each tile that sees one of its keys
    template <class F> TILE_FN void each_step(const work &now, F f)
    {
        // Bounds are read once: in each step it would cost 3 to 5 % of the time, and in a window a head has few steps.
        const int first = WINDOWED ? now.first : 0, last = WINDOWED ? now.last : 0, heads = WINDOWED ? now.heads : 0;
        for (int h = 0; h < (WINDOWED ? heads : now.heads); h++) {
            const int begin = WINDOWED ? first : h == 0 ? now.from : now.first;
            const int end_here = WINDOWED ? last : h + 1 == now.heads ? now.to : now.last;
#pragma unroll 1
            for (int q = begin; q < end_here; q++) f(now.q_head + h, q);
        }
    }

    // One thread takes work, and fetches what belongs to queries.
    TILE_FN void fetch_queries(const tensor_map &Q_map, const tensor_map &dO_map)
    {
        sender Q(tiles.Q, tiles.Q_signals), dO(tiles.dO, tiles.dO_signals);
        sender works(tiles.works, tiles.work_signals);
        const auto *stats = static_cast<const statistics<BQ> *>(w.stats);
        const auto send = [&](int head, int q) {
            Q.send_with(Q_map, q * BQ, head, tiles.stats, &stats[(size_t)head * end + q]);
            dO.send(dO_map, q * BQ, head);
        };
        if (!MANY) each_step(tiles.works[0], send);
        for (bool more = MANY; more;) {
            const int number = take_number(w.next_work);
            works.empty[works.stage].wait(works.phase);
            work &now = tiles.works[works.stage];
            now = work_of<D, MASK, ORDERED>(plan, number, N, end, W);
            more = now.kv_head >= 0;
            works.full[works.stage].arrive();
            works.next();
            if (more) each_step(now, send);
        }
    }

    // One thread fetches keys and values.
    TILE_FN void fetch_keys(const tensor_map &K_map, const tensor_map &V_map)
    {
        each_work(true, [&](const work &now, int n) {
            tiles.KV_empty.wait(n % 2 ^ 1);
            for (int g = 0; g < 2; g++)
                load_async(tiles.K[g], K_map, now.key_tile * BK + 64 * g, now.kv_head, tiles.K_full);
            for (int g = 0; g < 2; g++)
                load_async(tiles.V[g], V_map, now.key_tile * BK + 64 * g, now.kv_head, tiles.V_full);
        });
    }

    // How many tiles of keys come before ours at these queries: those from the diagonal on, and for a far sink all that
    // are near, then later sinks.
    TILE_FN int turn_at(const work &now, int block64) const
    {
        if (!DIAGONAL || (!WINDOWED && now.long_first)) return now.key_tile;
        if (!WINDOWED || !now.far_part) return block64 / 2 - now.key_tile;
        const int nearest = (block64 / PARTS * BQ - W + 1) / BK;  // of the tiles of keys
        return block64 / 2 - nearest + min(plan.far_tiles, nearest) - now.key_tile;
    }

    // One thread adds to dQ what warpgroup g has computed.
    TILE_FN void add_dQ(int g)
    {
        int b = 0, steps = 0;
        uint32_t phase = 0;
        each_work(true, [&](const work &now, int) {
            bool come = false;  // our turn at this tile
            each_step(now, [&](int head, int q) {
                if (PARTS == 1 && steps++ % 2 != g) return;
                const int block64 = PARTS * q + (PARTS == 1 ? 0 : g);
                const size_t at = (size_t)head * plan.blocks64 + block64;
                const unsigned mine = turn_at(now, block64);
                tiles.dQ_full[g][b].wait(phase);
                if (ORDERED && !come) await(&w.dQ_turn[at], mine);
                if (ORDERED && mine == 0)
                    put_async(&w.dQ_sum[at], tiles.dQ[g][b]);
                else
                    add_async(&w.dQ_sum[at], tiles.dQ[g][b]);
                stores_read();
                tiles.dQ_empty[g][b].arrive();
                if (ORDERED) {
                    come = block64 + 2 < now.last * PARTS &&
                           is_turn(&w.dQ_turn[at + 2], turn_at(now, block64 + 2));  // while it is written
                    stores_done();
                    announce(&w.dQ_turn[at]);
                }
                if (++b == PARTS) b = 0, phase ^= 1;
            });
        });
    }

    // Stores a warpgroup's dK and dV, which go from one work of the key head to the next; the last one has all.
    TILE_FN void store_gradients(
        const tensor_map &dK_out, const tensor_map &dV_out, const work &now, int group, int group_key,
        reg_tile<16, D> &dK, reg_tile<16, D> &dV)
    {
        const bool first_thread = threadIdx.x % warpgroup_threads == 0;
        if (now.turns > 1) {
            const size_t at = (size_t)now.sum * 2 + group;
            fragments<D> *sum = w.dKV_sum + 2 * at;
            if (now.turn > 0 && !plan.apart) {
                if (first_thread) await(&w.dKV_turn[at], now.turn);
                warpgroup_meets();
                reg_tile<16, D> before;
                load(before, sum);
                each(dK, [&](float &x, element e) { x += before[e]; });
                load(before, sum + 1);
                each(dV, [&](float &x, element e) { x += before[e]; });
            }
            if (now.turn + 1 < now.turns || plan.apart) {
                store(sum, dK);
                store(sum + 1, dV);
                warpgroup_meets();
                // stores_done(): of the work before. Its dK must be out before this thread may announce anything.
                if (first_thread && !plan.apart) stores_done(), announce(&w.dKV_turn[at]);
                if (first_thread) tiles.KV_empty.arrive();
                return;
            }
        }
        each(dK, [&](float &x, element) { x *= scale; });
        store(tiles.V[group], dV);
        store_async(dV_out, group_key, now.kv_head, tiles.V[group]);
        meet<2>();  // the other warpgroup no longer reads our keys
        store(tiles.K[group], dK);
        store_async(dK_out, group_key, now.kv_head, tiles.K[group]);
        stores_read();
        if (first_thread) tiles.KV_empty.arrive();
    }

    // ADD's: in turns, where there are any, to where they belong.
    TILE_FN void store_gradients(
        float *dK_out, float *dV_out, const work &now, int group, int group_key, reg_tile<16, D> &dK,
        reg_tile<16, D> &dV)
    {
        const bool first_thread = threadIdx.x % warpgroup_threads == 0;
        const int key = group_key + 16 * warp_in_group();
        const size_t at = (size_t)now.sum * 2 + group;
        const bool apart = now.turns > 1 && plan.apart, in_turns = now.turns > 1 && !plan.apart;
        if (apart) store(w.dKV_sum + 2 * at, dK), store(w.dKV_sum + 2 * at + 1, dV);
        warpgroup_meets();  // all of us have read our keys and values
        if (first_thread) tiles.KV_empty.arrive();
        if (apart) return;
        if (in_turns) {
            if (first_thread) await(&w.dKV_turn[at], now.turn);
            warpgroup_meets();
        }
        add_rows(dK_out, now.kv_head, key, N, dK, scale);
        add_rows(dV_out, now.kv_head, key, N, dV, 1);
        if (in_turns) {
            warpgroup_meets();
            if (first_thread) announce(&w.dKV_turn[at]);
        }
    }
};

// Where a step of a warpgroup stands. The rings of Q and dO turn with the steps; so does dQ, which has two places, or
// one of each warpgroup's, who take turns.
struct step {
    int q0, stage;     // the first query; of the rings
    int turn, b;       // which of the two dS; which place of our dQ,
    uint32_t phase;    // and its phase
    bool mine;         // dQ of this step is ours,
    int dQ_part;       // of the first 64 queries or the second,
    bool early, late;  // which see none of the second 64 keys, or of the first
};

// What a warpgroup that computes does: it owns 64 keys of the block's tile, and meets tile after tile of queries.
template <int D, mask_kind MASK, bool ORDERED, bool MANY, bool ADD> struct key_group {
    using block_roles = backward_block<D, MASK, ORDERED, MANY, ADD>;
    static constexpr int BQ = BQ_of<D>, PARTS = BQ / 64, STAGES = STAGES_of<D>;
    static constexpr bool DIAGONAL = MASK != FULL, WINDOWED = MASK == WINDOW;
    // Where heads are small the exponentials decide: so S^T of the next step is begun before dQ and dK of this one, and
    // dK is awaited under that step's exponentials.
    static constexpr bool AHEAD = D < 64 && !WINDOWED;
    using query_ring = receiver<tma_tile<BQ, D>, STAGES>;

    block_roles &block;
    backward_tiles<D> &tiles;
    int group;
    float scale2;
    query_ring Q_in;
    bool pending = false;  // the last dQ has been stored, but the copy engine does not know

    // of a work
    int block_key = 0, group_key = 0, key = 0;  // the first key of the block, of the warpgroup, of the warp
    reg_tile<16, D> dK = {}, dV = {};
    // of a step, or, AHEAD, of the next one
    reg_tile<16, BQ> S = {};
    col_vec<BQ> L = {};
    // read by the products for dV and dK; AHEAD, the latter runs into the next step
    weights<BQ> P_left = {}, dS_left = {};
    query_ring Q_back = Q_in;  // whose queries go back next
    int left = 0;              // steps

    // S^T = K Q^T
    TILE_FN void begin_S(int stage)
    {
        mma_ABt_async(S, tiles.K[group], tiles.Q[stage]);
        load(L, tiles.stats[stage].L);  // before the next product, behind which it would have to queue
    }
    // dQ = dS K
    TILE_FN void begin_dQ(reg_tile<16, D> &dQ, const step &s)
    {
        mma_AB_first_async(dQ, tiles.dS[s.turn][s.late][s.dQ_part], tiles.K[s.late]);
        if (!s.early && !s.late) mma_AB_async(dQ, tiles.dS[s.turn][1][s.dQ_part], tiles.K[1]);
    }
    TILE_FN void keep_dQ(const reg_tile<16, D> &dQ, const step &s)
    {
        store(tiles.dQ[group][s.b], dQ);
        pending = true;
    }
    // dQ of that step may be added, after writes_visible(). A step later than it could be: so that one fence serves dQ
    // and the next dS.
    TILE_FN void hand_over(int stage)
    {
        __syncwarp();
        if (lane_id() == 0) tiles.dQ_full[group][stage % PARTS].arrive();
        pending = false;
    }
    // Both warpgroups' dS are there, for who computes dQ.
    TILE_FN void gather_dS(const step &s, bool compute)
    {
        if (PARTS == 1)
            gather<2>(s.turn, compute);
        else
            meet<2>();
    }

    TILE_FN step step_at(const work &now, int q) const
    {
        step s;
        s.q0 = q * BQ, s.stage = Q_in.stage;
        s.turn = STAGES == 2 ? s.stage : s.stage % 2, s.b = s.turn % PARTS;
        s.phase = STAGES == 2 ? Q_in.phase : s.stage / 2;
        s.mine = PARTS == 2 || s.turn == group;
        s.dQ_part = PARTS == 1 ? 0 : group;
        const int first = s.q0 + 64 * s.dQ_part;
        const bool far = WINDOWED && now.far_part && block.plan.sinks <= block_key + 64;
        s.early = DIAGONAL && (first <= block_key || far);
        s.late = WINDOWED && first - (block_key + 63) >= block.W && block.plan.sinks <= block_key;
        return s;
    }

    // A step that sees none of our keys. Without a window the turn is not ours, either.
    TILE_FN void pass(const step &s, query_ring &dO_in)
    {
        const bool mine = WINDOWED && s.mine;
        dO_in.receive();
        Q_in.release();
        dO_in.release();
        if (pending) writes_visible(), hand_over(s.stage ^ 1);
        if (mine) tiles.dQ_empty[group][s.b].wait(s.phase ^ 1);
        gather_dS(s, mine);
        if (!mine) return;
        reg_tile<16, D> dQ;
        begin_dQ(dQ, s);
        products_done<0>(dQ);
        keep_dQ(dQ, s);
    }

    // Scores that are not seen.
    TILE_FN void hide(int q0)
    {
        const bool diagonal = DIAGONAL && q0 < key + 15, ragged = block.N - block_key < BK;
        if (WINDOWED ? diagonal || q0 + BQ - 1 - key >= block.W : diagonal || ragged)
            each(S, [&](float &x, element e) {
                const int i = q0 + e.col, j = key + e.row;
                if (WINDOWED) {  // of keys beyond the last one, too: no query comes after them
                    const unsigned seen_by = j < block.plan.sinks ? INT_MAX : block.W;
                    if ((unsigned)(i - j) >= seen_by) x = -INFINITY;
                } else if ((DIAGONAL && j > i) || j >= block.N)
                    x = -INFINITY;
            });
    }

    // P and dS of a step, and dV begun.
    TILE_FN void weigh(const step &s, query_ring &dO_in)
    {
        reg_tile<16, BQ> dS;
        col_vec<BQ> delta;
        if (!AHEAD) begin_S(s.stage);
        const auto &dO = dO_in.receive();
        mma_ABt_async(dS, tiles.V[group], dO);  // dP^T = V dO^T
        if (!AHEAD) products_done<1>(S);
        hide(s.q0);
        each(S, [&](float &x, element e) { x = exp2_fast(x * scale2 - L[e]); });  // S^T becomes P^T
        round_to(P_left, S);
        // Could be later; here, a branch, it keeps half of the exponentials before the next wait, where they have
        // company.
        if (s.mine) tiles.dQ_empty[group][s.b].wait(s.phase ^ 1);
        if (AHEAD) products_done<1>(dK);  // of the step before
        if (AHEAD && Q_back.stage != s.stage) Q_back.release();
        load(delta, tiles.stats[s.stage].delta);
        products_done<0>(dS);
        each(dS, [&](float &x, element e) { x = S[e] * (x - delta[e]); });
        round_to(dS_left, dS);
        store_transposed(tiles.dS[s.turn][group], dS_left);
        mma_AB_async(dV, P_left, dO);  // dV += P^T dO
        if (AHEAD) {                   // in the last step with the same queries once more
            Q_in.next();
            if (--left > 0) Q_in.receive();
            begin_S(left > 0 ? Q_in.stage : s.stage);
        }
        writes_visible();
        if (pending) hand_over(s.stage ^ 1);  // one fence for both stores
        gather_dS(s, s.mine);                 // who computes dQ needs the other's dS
    }

    // dQ, where it is ours, and dK.
    TILE_FN void multiply(const step &s, query_ring &dO_in)
    {
        const auto &Q = tiles.Q[s.stage];
        if (s.mine) {
            reg_tile<16, D> dQ;
            if (PARTS == 1) products_done<0>(dV);  // or there are not enough registers
            begin_dQ(dQ, s);
            mma_AB_async(dK, dS_left, Q);  // dK += dS^T Q, times scale at the end
            products_done<1>(dQ);
            if (PARTS == 2) products_done<1>(dV);
            if (AHEAD) products_done<1>(S);
            dO_in.release();
            keep_dQ(dQ, s);
        } else {
            mma_AB_async(dK, dS_left, Q);
            products_done<1>(dV);
            dO_in.release();
        }
        if (AHEAD) return;
        products_done<0>(dK);
        Q_in.release();
    }

    TILE_FN void take_step(const work &now, int q)
    {
        const step s = step_at(now, q);
        query_ring dO_in(tiles.dO, tiles.dO_signals);
        dO_in.stage = s.stage, dO_in.phase = Q_in.phase;
        if (!AHEAD) Q_in.receive();
        const bool above = DIAGONAL && PARTS == 1 && s.q0 + BQ <= group_key;
        const bool beyond = WINDOWED && s.q0 - (group_key + 63) >= block.W && block.plan.sinks <= group_key;
        if (above || beyond) {
            pass(s, dO_in);
            return;
        }
        weigh(s, dO_in);
        multiply(s, dO_in);
    }

    // dK and dV of the n-th work.
    TILE_FN void take_work(const work &now, int n)
    {
        block_key = now.key_tile * BK, group_key = block_key + 64 * group, key = group_key + 16 * warp_in_group();
        dK = {}, dV = {};
        tiles.K_full.wait(n % 2);
        tiles.V_full.wait(n % 2);
        Q_back = Q_in, left = 0;
        if (AHEAD) {
            block.each_step(now, [&](int, int) { left++; });
            Q_in.receive();
            begin_S(Q_in.stage);
            products_done<0>(S);
        }
        block.each_step(now, [&](int, int q) { take_step(now, q); });
        if (AHEAD) products_done<0>(dK), Q_back.release();
        if (pending) writes_visible(), hand_over(Q_in.stage ^ 1);
    }
};

template <int D, mask_kind MASK, bool ORDERED, bool MANY, bool ADD>
__global__ __launch_bounds__(384, 1) void backward_kernel(
    const __grid_constant__ gradient_of<ADD> dK_out,  // [B, Hkv, N, D], all in tiles of 64 rows but Q and dO
    const __grid_constant__ gradient_of<ADD> dV_out,  // [B, Hkv, N, D]
    const __grid_constant__ tensor_map Q_map,         // [B, Hq, N, D] in tiles of BQ rows
    const __grid_constant__ tensor_map K_map,         // [B, Hkv, N, D]
    const __grid_constant__ tensor_map V_map,         // [B, Hkv, N, D]
    const __grid_constant__ tensor_map dO_map,        // [B, Hq, N, D] in tiles of BQ rows
    workspace<D> w, schedule plan, int N, float scale)
{
    using registers = register_shares<2, 24, 240>;
    extern __shared__ __align__(1024) unsigned char shared[];  // shared_memory() takes registers: none is left
    auto &tiles = *reinterpret_cast<backward_tiles<D> *>(shared);
    const int end = plan.blocks64 / (BQ_of<D> / 64), W = plan.W;
    backward_block<D, MASK, ORDERED, MANY, ADD> block = {tiles, w, plan, N, end, W, scale};
    if (threadIdx.x == 0) block.begin();
    __syncthreads();

    if (warpgroup_id() == 0) {
        registers::give();
        if (threadIdx.x == 0)
            block.fetch_queries(Q_map, dO_map);
        else if (threadIdx.x == 96)
            block.fetch_keys(K_map, V_map);
        else if (threadIdx.x == 32 || threadIdx.x == 64)
            block.add_dQ(threadIdx.x / 32 - 1);
        return;
    }

    registers::take();
    key_group<D, MASK, ORDERED, MANY, ADD> mine = {
        block, tiles, warpgroup_id() - 1, scale * LOG2_E, receiver(tiles.Q, tiles.Q_signals)};
    block.each_work(false, [&](const work &now, int n) {
        mine.take_work(now, n);
        block.store_gradients(dK_out, dV_out, now, mine.group, mine.group_key, mine.dK, mine.dV);
    });
}

// -------------------------------------------------------------------------------------------- sums

// Two neighbours of a sum: rounded, or added.
TILE_FN void put(bf16 *at, float x, float y) { *reinterpret_cast<__nv_bfloat162 *>(at) = __floats2bfloat162_rn(x, y); }
TILE_FN void put(float *at, float x, float y)
{
    float2 *const pair = reinterpret_cast<float2 *>(at);
    *pair = make_float2(pair->x + x, pair->y + y);
}

// The parts of 64 rows of a head of dK or dV (which: 0 or 1), added up; of 16 columns a block, for there are few rows.
template <int D, class Number> TILE_FN void
add_parts(Number *sum, const workspace<D> &w, const schedule &plan, int head, int which, int piece, int N, float scale)
{
    const int key_tile = blockIdx.x / 2, row = blockIdx.x * 64 + 16 * warp_in_group() + lane_id() / 4;
    reg_tile<16, 16> all = {};
    int terms = 0;
#pragma unroll 4
    for (int p = 0; p < plan.parts; p++) {
        const bool has = key_tile < plan.before[p + 1] - plan.before[p];
        const size_t at = (size_t)head * plan.before[plan.parts] + plan.before[p] + (has ? key_tile : 0);
        reg_tile<16, 16> part;  // loaded in any case: then four are on their way at a time
        load(part, reinterpret_cast<const fragments<16> *>(&w.dKV_sum[(at * 2 + blockIdx.x % 2) * 2 + which]) + piece);
        each(all, [&](float &x, element e) { x += has ? part[e] : 0; });
        terms += has;
    }
    for (int i = 0; i < 4; i++) {
        const int r = row + i % 2 * 8, col = piece * 16 + i / 2 * 8 + lane_id() % 4 * 2;
        const float *x = &all.x[0][i / 2][i % 2 * 2];
        if (r < N && terms > 1)  // or it is there already
            put(&sum[((size_t)head * N + r) * D + col], x[0] * scale, x[1] * scale);
    }
}

// Sums, scaled and rounded, 64 rows a block: dQ's, and, above, dK's and dV's where their parts lie apart.
template <int D> __global__ __launch_bounds__(128) void round_kernel(
    const __grid_constant__ tensor_map dQ_map, bf16 *dK, bf16 *dV, workspace<D> w,
    const __grid_constant__ schedule plan, int N, float scale)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &tile = *reinterpret_cast<tma_tile<64, D> *>(shared);
    const int head = gridDim.y - 1 - blockIdx.y;  // the last heads first: they are still in the cache
    const int above = head - plan.kv_heads * plan.group, pieces = D / 16;
    before_is_done();
    if (above >= 0) {
        const int which = above / pieces % 2;
        add_parts(which ? dV : dK, w, plan, above / pieces / 2, which, above % pieces, N, which ? 1 : scale);
        return;
    }
    reg_tile<16, D> dQ;
    load(dQ, &w.dQ_sum[(size_t)head * plan.blocks64 + blockIdx.x]);
    each(dQ, [&](float &x, element) { x *= scale; });
    store(tile, dQ);
    store_async(dQ_map, blockIdx.x * 64, head, tile);
    stores_read();
}

// The same, added in float32. The grid is as long as the longer of Q and K.
template <int D> __global__ __launch_bounds__(128) void add_kernel(
    float *dQ, float *dK, float *dV, workspace<D> w, const __grid_constant__ schedule plan, int queries, int keys,
    float scale)
{
    const int head = gridDim.y - 1 - blockIdx.y, row = blockIdx.x * 64;
    const int above = head - plan.kv_heads * plan.group, pieces = D / 16;
    before_is_done();
    if (row >= (above >= 0 ? keys : queries)) return;
    if (above >= 0) {
        const int which = above / pieces % 2;
        add_parts(which ? dV : dK, w, plan, above / pieces / 2, which, above % pieces, keys, which ? 1 : scale);
        return;
    }
    reg_tile<16, D> sum;
    load(sum, &w.dQ_sum[(size_t)head * plan.blocks64 + blockIdx.x]);
    add_rows(dQ, head, row + 16 * warp_in_group(), queries, sum, scale);
}

// ------------------------------------------------------------------------------------------ launch

// Cuts the memory into the parts of the workspace; returns how many bytes they take.
template <int D>
static size_t cut(workspace<D> &w, void *memory, const attention_shape *shape, const schedule &plan, bool add = false)
{
    const size_t blocks = (size_t)shape->batch * shape->q_heads * plan.blocks64;
    const int in_turns = plan.parts > 1 && !add ? plan.key_tiles : plan.far_tiles;
    const int sums = plan.apart ? plan.before[plan.parts] : in_turns;
    const size_t turns = max(blocks, (size_t)plan.kv_heads * plan.key_tiles * 2);
    const size_t parts = (size_t)plan.kv_heads * sums * 4;
    size_t bytes = 0;
    const auto take = [&](auto *&part, size_t size) {
        part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(static_cast<char *>(memory) + bytes);
        bytes += (size + 255) / 256 * 256;
    };
    take(w.dQ_sum, blocks * sizeof(fragments<D>));
    take(w.dKV_sum, parts * sizeof(fragments<D>));
    take(w.stats, blocks * sizeof(statistics<64>));
    take(w.dQ_turn, blocks * sizeof(unsigned));
    take(w.dKV_turn, turns * sizeof(unsigned));
    take(w.next_work, sizeof(unsigned));
    return bytes;
}

// With gradients in bf16, all three kernels; in float32, which knows delta and needs no O, ADD's.
template <int D, mask_kind MASK, bool ORDERED, class Gradient, class Delta> static wb_status launch(
    void *memory, Gradient *dQ, Gradient *dK, Gradient *dV, Delta *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    constexpr bool ADD = sizeof(Gradient) == sizeof(float);
    constexpr int BQ = BQ_of<D>, bytes = sizeof(backward_tiles<D>);
    static_assert(bytes <= 227 * 1024, "a block may have 227 KB of shared memory");
    const int q_heads = shape->batch * shape->q_heads, queries = shape->q_len, keys = shape->kv_len;
    const schedule plan = plan_of(shape, ORDERED);
    const int tiles = plan.blocks64, sums = plan.apart ? plan.kv_heads * (D / 8) : 0;  // what the last kernel sums up
    workspace<D> w;
    cut(w, memory, shape, plan, ADD);
    tensor_map dQ_map, Q_map, K_map, V_map, dO_map;
    gradient_of<ADD> dK_out, dV_out;
    wb_status status = describe(Q_map, Q, q_heads, queries, D, BQ);
    if (status == WB_OK) status = describe(K_map, K, plan.kv_heads, keys, D, 64);
    if (status == WB_OK) status = describe(V_map, V, plan.kv_heads, keys, D, 64);
    if (status == WB_OK) status = describe(dO_map, dO, q_heads, queries, D, BQ);
    if constexpr (ADD) {
        dK_out = dK, dV_out = dV;
    } else {
        if (status == WB_OK) status = describe(dQ_map, dQ, q_heads, queries, D, 64);
        if (status == WB_OK) status = describe(dK_out, dK, plan.kv_heads, keys, D, 64);
        if (status == WB_OK) status = describe(dV_out, dV, plan.kv_heads, keys, D, 64);
    }
    if (status != WB_OK) return status;

    const int rows = ADD ? 256 : 4 * 256 / (D / 8);  // of a block
    const dim3 grid((tiles * 64 - 1) / rows + 1, q_heads);
    if constexpr (ADD)
        begin_kernel<D, ORDERED><<<grid, 256, 0, stream>>>(
            w, L, delta, queries, tiles, plan.parts > 1 ? plan.kv_heads * plan.key_tiles * 2 : 0);
    else
        prepare_kernel<D, ORDERED><<<grid, 256, 0, stream>>>(delta, w, O, dO, L, queries, tiles);
    WB_CUDA(cudaGetLastError());
    const auto kernel =
        plan.many ? backward_kernel<D, MASK, ORDERED, true, ADD> : backward_kernel<D, MASK, ORDERED, false, ADD>;
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    status = launch_after(
        kernel, dim3(plan.many ? min(plan.processors, plan.works) : plan.works), 384, bytes, stream, dK_out, dV_out,
        Q_map, K_map, V_map, dO_map, w, plan, keys, shape->scale);
    if (status != WB_OK) return status;
    const dim3 last(((plan.apart ? max(queries, keys) : queries) - 1) / 64 + 1, q_heads + sums);
    if constexpr (ADD)
        return launch_after(add_kernel<D>, last, 128, 0, stream, dQ, dK, dV, w, plan, queries, keys, shape->scale);
    else
        return launch_after(
            round_kernel<D>, last, 128, sizeof(tma_tile<64, D>), stream, dQ_map, dK, dV, w, plan, keys, shape->scale);
}

// f(so many bytes of the stream's pool), where any are needed.
template <class F> static wb_status with_memory(size_t bytes, wb_stream stream, F f)
{
    void *memory = nullptr;
    if (bytes) WB_CUDA(cudaMallocAsync(&memory, bytes, stream));
    const wb_status status = f(memory, bytes);
    if (bytes) WB_CUDA(cudaFreeAsync(memory, stream));
    return status;
}

// f(the head dimension, as a constant)
template <class F> static auto for_dim(const attention_shape *shape, F f)
{
    switch (shape->head_dim) {
    case 16: return f(std::integral_constant<int, 16>());
    case 32: return f(std::integral_constant<int, 32>());
    case 64: return f(std::integral_constant<int, 64>());
    default: return f(std::integral_constant<int, 128>());
    }
}

// Whether these kernels can do it here: what they cannot, the key does.
static bool suits(const char *name, const attention_shape *shape)
{
    const long long heads = (long long)shape->batch * shape->q_heads;
    return heads <= 62000 &&  // and rows of blocks that add parts up
           heads * (1 + MOST_FAR_PARTS) * ((shape->kv_len - 1) / BK + 1) <= INT_MAX && check_hopper(name) == WB_OK;
}

static size_t bytes_of(const attention_shape *shape)
{
    return for_dim(shape, [&](auto D) {
        workspace<D> w;
        return cut(w, nullptr, shape, plan_of(shape, SAME_BITS));
    });
}

static wb_status launch_any(
    void *memory, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    constexpr mask_kind OTHER = HAS_WINDOWS ? WINDOW : FULL;
    const auto run = for_dim(shape, [&](auto D) {
        return mask_of(shape) == CAUSAL ? launch<D, CAUSAL, SAME_BITS, bf16, float>
                                        : launch<D, OTHER, SAME_BITS, bf16, float>;
    });
    return run(memory, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}

// In three launches. A tile of keys meets the queries of its group, cut into as many parts as end soonest, of which
// those of some heads, side by side, come before the others. `more`, in microseconds: of a part that waits for others
// to hand on dK and dV.
static double three_launches_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || (double)shape->batch * shape->q_heads > 62000) return INFINITY;
    const wb_costs *c = device->costs;
    const wb_walks w = wb_over_queries(shape, BK, queries_of(shape), 1);
    const bool window = shape->causal && shape->window < shape->q_len;
    const double heads = (double)shape->batch * shape->kv_heads, tiles = w.blocks / heads, P = device->processors;
    const int group = wb_group_of(shape);
    const bool turns = SAME_BITS && !HAS_WINDOWS && !window;  // with windows they hardly show
    const int most_parts = min(MOST_PARTS, window ? group : (int)w.most);
    double best = INFINITY, extra = 0, of_part = group;  // heads
    for (int parts = 1; parts <= most_parts; parts += 1 + parts / 2) {
        // of parts of a head the early ones are left of the diagonal of late keys
        const double of_head = shape->causal && !window ? fmax(1, (double)parts / group) : 1;
        const double works = w.blocks * parts * (of_head + 1) / (2 * of_head), mean = w.mean * w.blocks / works;
        const double beginning = c->beginning + (parts > 1 ? 2 : 0);
        const double side = fmax(1, fmin(heads, floor(P / tiles)));
        const double cached = 30 / (8e-6 * shape->head_dim * shape->q_len), of_works = fmax(1, (double)group / parts);
        const double shared = SAME_BITS ? cached : fmin(cached, fmax(cached * 5 / 3 / of_works, P / 8));
        const double merged = fmax(1, fmin(5 * P / tiles, shared));
        const double last = heads - floor(fmax(0, heads - merged) / side) * side;  // as last_side_of()
        const bool sections = shape->causal && !window;
        const wb_walks cut = {
            works, w.least / parts, mean, ceil(w.most / parts), 1, sections * (1 - last / heads / parts)};
        // a tile of keys waits a step for the one before it, of those that run at a time, but on the diagonal, and
        // where another part runs meanwhile
        const double early = fmin(1, P / works),
                     waits = shape->causal ? fmax(0, 1 - (double)group / parts) * early * early * tiles
                                           : 0.8 * fmin(tiles, P / fmin(heads, 4 * side));
        const double steps = wb_rounds(&cut, beginning, P) + turns * waits;
        if (steps >= best * 0.99) continue;
        best = steps, of_part = fmax(1, (double)group / parts);
        extra = c->more * (parts > 1 && works * shape->head_dim > 176 * 128 ? parts : 0);
    }
    if (shape->sinks && window) {
        const double far = fmax(0, ceil(shape->q_len / (double)queries_of(shape)) - w.most / group);
        best += ceil(shape->sinks / (double)BK) * far * heads * group / P;
        extra += c->more * ceil(far / fmax(1024 / queries_of(shape), ceil(far / MOST_FAR_PARTS)));
    }
    // Where a mask cuts walks short, blocks with the tiles of one head fall back behind each other, a tile a head: of
    // four heads, which a part has at most, two and a half on average. Between two that meet the same queries lie Q, dO
    // and the sum of dQ, which is read and written, of other heads.
    const double row = 2e-6 * shape->head_dim, at_a_time = fmin(P, w.blocks), back = (1 + fmin(4, of_part)) / 2;
    const double others = (at_a_time - fmin(at_a_time, tiles)) * fmin(1, 4 * (1 - w.mean / w.most));
    const double again =
        wb_missed(6 * row * queries_of(shape) * w.blocks * w.mean * (1 - 1 / tiles), 4 * row * BK * back * others);
    const double least = shape->head_dim < 64 ? 0 : 14;  // of three launches, whatever they do: 14.4 in 351 shapes
    return fmax(
        least, c->launch + wb_both(c->step * best, wb_from_memory(again, device)) + extra +
                   c->megabyte * wb_megabytes(shape, 10, 3));
}

#ifndef WINDOWS
// For the validator, which knows of no 08 without a mask: the same shape with one.
static const attention_shape *with_mask(attention_shape &masked, const attention_shape *shape)
{
    if (!shape) return nullptr;
    masked = *shape;
    if (masked.causal == 0) masked.causal = 1;
    return &masked;
}

// Bytes of device memory that the next function needs beyond inputs and outputs.
extern "C" size_t flash_gqa_backward_workspace(const attention_shape *shape)
{
    const char *name = "flash_gqa_backward";
    attention_shape masked;
    return wb_check_shape(name, with_mask(masked, shape)) == WB_OK && suits(name, shape) ? bytes_of(shape) : 0;
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
    if (!suits(name, shape)) {
        if (!shape->causal) return wb_fail(WB_UNSUPPORTED, "flash_gqa_backward: this shape needs causal = 1");
        return of_the_key::flash_gqa_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    }
    return launch_any(memory, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}

wb_status flash_gqa_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    return with_memory(flash_gqa_backward_workspace(shape), stream, [&](void *memory, size_t bytes) {
        return flash_gqa_backward_in(memory, bytes, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    });
}

// Bytes that the next function needs beyond inputs and outputs; 0: it does not take this shape here.
extern "C" size_t flash_gqa_backward_add_workspace(const attention_shape *shape)
{
    const char *name = "flash_hopper";
    if (wb_check_shape(name, shape) != WB_OK || !suits(name, shape)) return 0;  // it knows D 64 and 128
    if ((long long)shape->batch * shape->q_heads * ((shape->q_len - 1) / 64 + 2) > INT_MAX) return 0;
    const schedule plan = plan_of(shape, SAME_BITS);
    workspace<64> small;
    workspace<128> large;
    return shape->head_dim == 64 ? cut(small, nullptr, shape, plan, true) : cut(large, nullptr, shape, plan, true);
}

// wb_attention_backward (workbook.h) in memory of the caller's.
extern "C" wb_status flash_gqa_backward_add_in(
    void *memory, size_t bytes, float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *dO, const float *L, const float *delta, const attention_shape *shape, wb_stream stream)
{
    const char *name = "wb_attention_backward";
    wb_status status = wb_check_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, shape);
    if (status != WB_OK) return status;
    const size_t needed = flash_gqa_backward_add_workspace(shape);
    if (!needed) return wb_fail(WB_UNSUPPORTED, "%s: not of this shape, or not on this GPU", name);
    status = wb_check_workspace(name, memory, bytes, needed);
    if (status != WB_OK) return status;
    const auto add = [&](auto run) { return run(memory, dQ, dK, dV, delta, Q, K, V, nullptr, L, dO, shape, stream); };
    if (shape->head_dim == 64)
        return add(
            shape->causal ? launch<64, CAUSAL, SAME_BITS, float, const float>
                          : launch<64, FULL, SAME_BITS, float, const float>);
    return add(
        shape->causal ? launch<128, CAUSAL, SAME_BITS, float, const float>
                      : launch<128, FULL, SAME_BITS, float, const float>);
}

// And in memory of the stream's pool.
extern "C" wb_status flash_gqa_backward_add(
    float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO, const float *L,
    const float *delta, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, shape);
    if (status != WB_OK) return status;
    return with_memory(flash_gqa_backward_add_workspace(shape), stream, [&](void *memory, size_t bytes) {
        return flash_gqa_backward_add_in(memory, bytes, dQ, dK, dV, Q, K, V, dO, L, delta, shape, stream);
    });
}
double flash_gqa_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return three_launches_microseconds(shape, device);
}
#endif
