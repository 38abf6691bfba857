// scored.cu - attention and its gradients, L's too, where a score is more than scale * q k and a mask is an interval of
// keys for each query (workbook.h: wb_scored). In the words of tile.cuh, for any GPU. One kernel walks over keys, for O
// and for dQ; the other over queries, for dK and dV. P is computed again from L, as in problem 08.
#include "in_this_name.h"
#include "tile.cuh"

namespace
{
constexpr int ROWS = 16, BLOCK = 64, THREADS = 128;        // rows of a warp and of a block, and its threads
constexpr float LOG2_E = 1.44269504f;                      // exp(x) = exp2(LOG2_E x)
template <int D> constexpr int STEP = D == 128 ? 32 : 64;  // rows that a block walks over at a time

struct tensors {
    bf16 *O, *dQ, *dK, *dV;
    float *L, *delta;
    const bf16 *Q, *K, *V, *dO;
    const float *dL;
    wb_scores scores;
    int q_heads, kv_heads, Nq, Nk;
    float scale;
};

// What is known of the queries of a tile.
struct statistics {
    int first[BLOCK], last[BLOCK], origin;
    float at[BLOCK];                             // behind the origin, a key
    float slope[BLOCK], L[BLOCK], delta[BLOCK];  // in base 2; L is infinity where nothing is seen, so that P = 0
};

// Of a block: of queries Q and dO, or of keys K and V. Two steps of a walk by turns: one arrives, the other is used.
template <int D> struct block_tiles {
    smem_tile<BLOCK, D> mine[2];
    smem_tile<STEP<D>, D> theirs[2][2];
    statistics now[2];
    int begin, end;
};

// Which keys query i sees beside the sinks; none that do not exist.
TILE_FN void interval(int &first, int &last, const tensors &t, int i)
{
    first = i < t.Nq ? max(0, t.scores.first[i]) : INT_MAX, last = i < t.Nq ? min(t.Nk - 1, t.scores.last[i]) : -1;
    if (first > last && t.scores.sinks == 0) first = INT_MAX, last = -1;
}

// Of `count` queries from i on, which stand in rows `row` ... of L: a thread each.
template <bool BACK> TILE_FN void fetch(statistics &now, const tensors &t, int count, int i, size_t row, int origin)
{
    const int n = threadIdx.x;
    if (n >= count) return;
    const bool there = i + n < t.Nq;
    interval(now.first[n], now.last[n], t, i + n);
    now.origin = origin;
    now.at[n] = there && t.scores.slopes ? (float)(t.scores.at[i + n] - origin) : 0;
    now.slope[n] = there && t.scores.slopes ? t.scores.slopes[row + n] * LOG2_E : 0;
    if (!BACK) return;
    const float L = there ? t.L[row + n] : -INFINITY;
    now.L[n] = L == -INFINITY ? INFINITY : L * LOG2_E;
    now.delta[n] = there && L != -INFINITY ? t.delta[row + n] : 0;
}

// Whether each of `count` queries from n on sees all of `keys` keys from j0 on. Of a whole warp.
TILE_FN bool all_seen(const statistics &now, int n, int count, int j0, int keys)
{
    bool all = true;
    for (int i = n + lane_id(); i < n + count; i += 32) all &= now.first[i] <= j0 && j0 + keys - 1 <= now.last[i];
    return __all_sync(0xffffffffu, all);
}

// Products become the tanh of what the cap bends, where there is one: tanh(x) = 1 - 2 / (1 + exp(2 x)), but x - x^3 / 3
// where that cancels: times a large cap it has to be right.
template <int Cols> TILE_FN void bend(reg_tile<ROWS, Cols> &S, const tensors &t)
{
    const float bends = t.scale / t.scores.softcap;
    if (t.scores.softcap > 0)
        each(S, [&](float &s, element) {
            const float x = s * bends, far = 1 - __fdividef(2, 1 + exp2_fast(2 * LOG2_E * x));
            s = fabsf(x) < 0.02f ? x - x * x * x * (1 / 3.0f) : far;
        });
}

// These become scores in base 2: of queries i0 ... of `now` and keys j0 ..., which are columns, or ON_SIDE rows. A pass
// for each thing that a call may have.
template <bool ON_SIDE, int Cols>
TILE_FN void score(reg_tile<ROWS, Cols> &S, const statistics &now, const tensors &t, int i0, int j0, bool all)
{
    const float unit = LOG2_E * (t.scores.softcap > 0 ? t.scores.softcap : t.scale), from = (float)(j0 - now.origin);
    each(S, [&](float &s, element) { s *= unit; });
    if (t.scores.slopes)
        each(S, [&](float &s, element e) {
            const int i = i0 + (ON_SIDE ? e.col : e.row);
            s -= now.slope[i] * fabsf(from - now.at[i] + (float)(ON_SIDE ? e.row : e.col));
        });
    if (!all)
        each(S, [&](float &s, element e) {
            const int i = i0 + (ON_SIDE ? e.col : e.row), j = j0 + (ON_SIDE ? e.row : e.col);
            s = (j > now.last[i]) | ((j < now.first[i]) & (j >= t.scores.sinks)) ? -INFINITY : s;
        });
}

// Products become P, and dP the gradient of Q K^T, which is not yet times scale.
template <bool ON_SIDE, int Cols> TILE_FN void gradient(reg_tile<ROWS, Cols> &S, reg_tile<ROWS, Cols> &dP,
                                                        const statistics &now, const tensors &t, int i0, int j0,
                                                        bool all)
{
    const auto query = [&](element e) { return i0 + (ON_SIDE ? e.col : e.row); };
    bend(S, t);
    each(dP, [&](float &x, element e) { x -= now.delta[query(e)]; });
    if (t.scores.softcap > 0) each(dP, [&](float &x, element e) { x *= 1 - S[e] * S[e]; });
    score<ON_SIDE>(S, now, t, i0, j0, all);
    each(S, [&](float &s, element e) { s = exp2_fast(s - now.L[query(e)]); });
    each(dP, [&](float &x, element e) { x *= S[e]; });
}

// A block owns 64 queries of a head and walks over the keys that one of them sees.
template <int D, bool BACK> __global__ __launch_bounds__(THREADS) void queries_kernel(const tensors t)
{
    constexpr int BC = STEP<D>;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<block_tiles<D> *>(shared);
    auto &[Q_smem, dO_smem] = tiles.mine;
    statistics &now = tiles.now[0];

    // who am I: late queries, which often see the most keys, start first
    const int head = blockIdx.x % t.q_heads, block_row = ((t.Nq - 1) / BLOCK - blockIdx.x / t.q_heads) * BLOCK;
    const int warp_row = warp_id() * ROWS, rows = t.Nq - block_row;
    const size_t row = ((size_t)blockIdx.y * t.q_heads + head) * t.Nq + block_row;
    const size_t keys = ((size_t)blockIdx.y * t.kv_heads + head / (t.q_heads / t.kv_heads)) * t.Nk;

    // load
    load_async<THREADS>(Q_smem, t.Q + row * D, rows);
    if (BACK) load_async<THREADS>(dO_smem, t.dO + row * D, rows);
    loads_issued();
    fetch<BACK>(now, t, BLOCK, block_row, row, t.scores.slopes ? t.scores.at[block_row] : 0);
    loads_arrived<0>();
    __syncthreads();  // every thread's part has arrived
    int begin = t.scores.sinks > 0 ? 0 : INT_MAX, end = 0;
    for (int r = 0; r < BLOCK; r++) begin = min(begin, now.first[r]), end = max(end, now.last[r] + 1);
    operand<ROWS, D> Q_reg, dO_reg;
    load(Q_reg, Q_smem, warp_row);
    if (BACK) load(dO_reg, dO_smem, warp_row);

    reg_tile<ROWS, D> sum = {};  // O, or dQ
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
    const auto send = [&](int j0) {
        auto &[K_smem, V_smem] = tiles.theirs[j0 / BC % 2];
        if (j0 < end) load_async<THREADS>(K_smem, t.K + (keys + j0) * D, t.Nk - j0);
        if (j0 < end) load_async<THREADS>(V_smem, t.V + (keys + j0) * D, t.Nk - j0);
        loads_issued();
    };
    begin = begin / BC * BC;
    send(begin);
    for (int j0 = begin; j0 < end; j0 += BC) {
        loads_arrived<0>();
        __syncthreads();  // these keys are there for all warps, and none reads those before any more
        send(j0 + BC);
        auto &[K_smem, V_smem] = tiles.theirs[j0 / BC % 2];
        const bool all = all_seen(now, warp_row, ROWS, j0, BC);
        reg_tile<ROWS, BC> S = {}, dS = {};
        mma_ABt(S, Q_reg, K_smem);
        if (BACK) {
            mma_ABt(dS, dO_reg, V_smem);  // dP = dO V^T
            gradient<false>(S, dS, now, t, warp_row, j0, all);
            mma_AB(sum, dS, K_smem);  // dQ += dS K
            continue;
        }
        bend(S, t);
        score<false>(S, now, t, warp_row, j0, all);
        const row_vec<ROWS> S_max = row_max_part(S);
        if (any_above(S_max, m + 8.0f)) {
            const row_vec<ROWS> m_new = max(m, row_max_whole(S_max)), alpha = exp2(m - m_new);
            m = m_new, l = l * alpha;
            scale_rows(sum, alpha);
        }
        each(S, [&](float &s, element e) { s = exp2_fast(s - m[e]); });
        l = l + row_sum_part(S);
        mma_AB(sum, S, V_smem);  // O += P V
    }

    // store
    if (BACK) {
        each(sum, [&](float &x, element) { x *= t.scale; });
    } else {
        l = row_sum_whole(l);
        divide_rows(sum, rowwise(l, [](float x) { return x > 0 ? x : 1; }));
        store(t.L + row + warp_row, (m + log2(l)) * (1 / LOG2_E), rows - warp_row);
    }
    store((BACK ? t.dQ : t.O) + (row + warp_row) * D, sum, rows - warp_row);
}

// A block owns 64 keys of a key head, and walks over the queries from the first to the last that sees one of them, in
// all heads of the group. Tiles lie on their sides: rows are keys.
template <int D> __global__ __launch_bounds__(THREADS) void keys_kernel(const tensors t)
{
    constexpr int BQ = STEP<D>;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<block_tiles<D> *>(shared);
    auto &[K_smem, V_smem] = tiles.mine;

    // who am I
    const int kv_head = blockIdx.x % t.kv_heads, block_key = blockIdx.x / t.kv_heads * BLOCK;
    const int warp_key = warp_id() * ROWS, rows = t.Nk - block_key, group = t.q_heads / t.kv_heads;
    const size_t key = ((size_t)blockIdx.y * t.kv_heads + kv_head) * t.Nk + block_key;

    // load
    load_async<THREADS>(K_smem, t.K + key * D, rows);
    load_async<THREADS>(V_smem, t.V + key * D, rows);
    loads_issued();
    if (threadIdx.x == 0) tiles.begin = INT_MAX, tiles.end = 0;
    __syncthreads();  // these are there for all
    int begin = INT_MAX, end = 0;
    for (int i = threadIdx.x; i < t.Nq; i += THREADS) {
        int first, last;
        interval(first, last, t, i);
        if (last >= block_key && (first < block_key + BLOCK || block_key < t.scores.sinks))
            begin = min(begin, i), end = i + 1;
    }
    atomicMin(&tiles.begin, begin), atomicMax(&tiles.end, end);
    loads_arrived<0>();
    __syncthreads();  // every thread's part has arrived
    begin = tiles.begin / BQ * BQ, end = tiles.end;
    operand<ROWS, D> K_reg, V_reg;
    load(K_reg, K_smem, warp_key);
    load(V_reg, V_smem, warp_key);

    reg_tile<ROWS, D> dK = {}, dV = {};
    const int steps = max(0, (end - begin + BQ - 1) / BQ), count = group * steps;
    const auto send = [&](int n) {  // of head n / steps of the group
        auto &[Q_smem, dO_smem] = tiles.theirs[n % 2];
        const int i0 = begin + n % steps * BQ;
        const size_t row = ((size_t)blockIdx.y * t.q_heads + kv_head * group + n / steps) * t.Nq + i0;
        if (n < count) {
            load_async<THREADS>(Q_smem, t.Q + row * D, t.Nq - i0);
            load_async<THREADS>(dO_smem, t.dO + row * D, t.Nq - i0);
            fetch<true>(tiles.now[n % 2], t, BQ, i0, row, block_key);
        }
        loads_issued();
    };
    if (count) send(0);
    for (int n = 0; n < count; n++) {
        loads_arrived<0>();
        __syncthreads();  // these queries are there for all warps, and none reads those before any more
        send(n + 1);
        auto &[Q_smem, dO_smem] = tiles.theirs[n % 2];
        const statistics &now = tiles.now[n % 2];
        const bool all = all_seen(now, 0, BQ, block_key + warp_key, ROWS);
        reg_tile<ROWS, BQ> S = {}, dS = {};
        mma_ABt(S, K_reg, Q_smem);    // S^T = K Q^T
        mma_ABt(dS, V_reg, dO_smem);  // dP^T = V dO^T
        gradient<true>(S, dS, now, t, 0, block_key + warp_key, all);
        mma_AB(dV, S, dO_smem);  // dV += P^T dO
        mma_AB(dK, dS, Q_smem);  // dK += dS^T Q
    }
    each(dK, [&](float &x, element) { x *= t.scale; });
    store(t.dK + (key + warp_key) * D, dK, rows - warp_key);
    store(t.dV + (key + warp_key) * D, dV, rows - warp_key);
}

// delta = rowsum(dO * O) - dL, in float32: dS = P (dP - delta). A warp a row.
__global__ __launch_bounds__(THREADS) void delta_kernel(const tensors t, int D, size_t rows)
{
    const size_t row = (size_t)blockIdx.x * (THREADS / 32) + warp_id();
    float sum = 0;
    for (int d = lane_id(); d < D && row < rows; d += 32)
        sum += __bfloat162float(t.O[row * D + d]) * __bfloat162float(t.dO[row * D + d]);
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (row < rows && lane_id() == 0) t.delta[row] = sum - (t.dL ? t.dL[row] : 0);
}

template <int D> wb_status launch(const tensors &t, const attention_shape *shape, bool back, wb_stream stream)
{
    const auto run = [&](void (*kernel)(tensors), int heads, int rows) {
        const size_t bytes = sizeof(block_tiles<D>);
        WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        const dim3 grid(((rows - 1) / BLOCK + 1) * heads, shape->batch);
        kernel<<<grid, THREADS, bytes, stream>>>(t);
        WB_CUDA(cudaGetLastError());
        return WB_OK;
    };
    if (!back) return run(queries_kernel<D, false>, t.q_heads, t.Nq);
    const size_t rows = (size_t)shape->batch * t.q_heads * t.Nq;
    delta_kernel<<<(unsigned)((rows - 1) / (THREADS / 32) + 1), THREADS, 0, stream>>>(t, D, rows);
    WB_CUDA(cudaGetLastError());
    const wb_status status = run(queries_kernel<D, true>, t.q_heads, t.Nq);
    return status != WB_OK ? status : run(keys_kernel<D>, t.kv_heads, t.Nk);
}

wb_status serve(tensors t, const wb_scores *scores, const attention_shape *shape, bool back, wb_stream stream)
{
    if (!scores || !scores->first || !scores->last || (scores->slopes && !scores->at))
        return wb_fail(WB_BAD_ARGUMENT, "wb_scored: the scores have no intervals, or slopes without positions");
    if (!(scores->softcap >= 0 && scores->softcap < INFINITY) || scores->sinks < 0)
        return wb_fail(WB_BAD_ARGUMENT, "wb_scored: softcap = %g, sinks = %d", scores->softcap, scores->sinks);
    t.scores = *scores, t.q_heads = shape->q_heads, t.kv_heads = shape->kv_heads;
    t.Nq = shape->q_len, t.Nk = shape->kv_len, t.scale = shape->scale;
    const int D = shape->head_dim;
    return (D == 16 ? launch<16> : D == 32 ? launch<32> : D == 64 ? launch<64> : launch<128>)(t, shape, back, stream);
}
}  // namespace

wb_status wb_scored(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const wb_scores *scores,
                    const attention_shape *shape, wb_stream stream)
{
    const wb_status status = in_this_name("wb_scored", wb_check_forward("flash_block_mask", O, L, Q, K, V, shape));
    if (status != WB_OK) return status;
    tensors t = {};
    t.O = O, t.L = L, t.Q = Q, t.K = K, t.V = V;
    return serve(t, scores, shape, false, stream);
}

wb_status wb_scored_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const float *dL, const wb_scores *scores,
                             const attention_shape *shape, wb_stream stream)
{
    const wb_status status = in_this_name(
        "wb_scored_backward", wb_check_backward("flash_block_mask", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape));
    if (status != WB_OK) return status;
    tensors t = {};
    t.dQ = dQ, t.dK = dK, t.dV = dV, t.delta = delta, t.L = const_cast<float *>(L), t.dL = dL;
    t.Q = Q, t.K = K, t.V = V, t.O = const_cast<bf16 *>(O), t.dO = dO;
    return serve(t, scores, shape, true, stream);
}
