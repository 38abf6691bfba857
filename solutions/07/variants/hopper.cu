// hopper.cu - flash_sinks on a Hopper GPU, for windows so short that a tile of queries needs no loop over the keys.
//
// The 64 rows of a tile are POSITIONS positions of HEADS heads that share K and V: 8 of 8, or 16 of 4. Together they
// see W + POSITIONS - 1 keys, at most 144, and the sinks. So all scores of a tile are one product (and a small one for
// the sinks): a plain softmax, no running maximum, nothing to rescale. The keys of 64 queries come at once, in the
// words of problem 10; blocks stay for many of them.
//
// Per tile of 8 x 8: 18 KB between the chip and its memory, 9216 exponentials if there are at most 8 sinks, 2.6
// million multiplications and additions; problems/07/README.md adds them up. D = 64, W <= 129, up to 16 sinks, groups
// of a multiple of 4, sm_90; all else is the reference solution's.
// Random shapes that it is chosen for: 11 of 215 forward passes with a window, 1 of 34 with sinks (records of `make
// duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "hopper.cuh"

constexpr int KEYS = 144;    // columns of a tile's scores; its queries' own keys are the last
constexpr int MOST_W = 129;  // W + POSITIONS - 1 keys are at most KEYS
constexpr int CHUNK = 64;    // queries whose keys come together
constexpr int MOST_SINKS = 16;
constexpr int GROUPS = 3;  // warpgroups that compute
constexpr int LEFT = 64;   // P V is begun when these columns have their weights

#ifdef SINK_LOGITS  // for problem 11: one more term in the denominator
constexpr bool LOGITS = true;
#else
constexpr bool LOGITS = false;
#endif

// What a block keeps in shared memory: 208 KB.
template <int ROWS> struct chunk_keys {
    tma_tile<ROWS, 64> K, V;
    tma_tile<MOST_SINKS, 64> K_sinks, V_sinks;
};
template <int ROWS> struct window_tiles {
    chunk_keys<ROWS> keys[2];  // of one chunk and the next
    ring<tma_tile<64, 64>, 3> Q[GROUPS];
    tma_tile<64, 64> O[GROUPS];
    signal keys_full[2], keys_empty[2];
};

// Columns FIRST ... FIRST + Cols - 1 of a tile in registers, as a tile.
template <int FIRST, int Cols, int TileCols> TILE_FN reg_tile<16, Cols> &columns(reg_tile<16, TileCols> &tile)
{
    return reinterpret_cast<reg_tile<16, Cols> &>(tile.x[0][FIRST / 8]);
}

// An item is CHUNK queries of HEADS heads; a block takes every gridDim.x-th of them, and its warpgroups take turns at
// its tiles. SINKS: columns for sinks, of which `sinks` are; 0, 8 or 16.
template <int HEADS, int SINKS> __global__ __launch_bounds__(128 * (1 + GROUPS), 1) void window_kernel(
    const __grid_constant__ tensor_map O_map,        // [B, Hq, N, 64] in tiles of POSITIONS rows of HEADS heads
    const __grid_constant__ tensor_map Q_map,        // [B, Hq, N, 64] likewise
    const __grid_constant__ tensor_map K_map,        // [B, Hkv, N, 64] in tiles of ROWS rows
    const __grid_constant__ tensor_map V_map,        // [B, Hkv, N, 64] likewise
    const __grid_constant__ tensor_map K_sinks_map,  // [B, Hkv, N, 64] in tiles of MOST_SINKS rows
    const __grid_constant__ tensor_map V_sinks_map,  // [B, Hkv, N, 64] likewise
    float *L,                                        // [B, Hq, N]
    const float *sink_logits,                        // [Hq], or null: none
    int heads, int q_heads, int group_size, int N, int W, int sinks, float scale)
{
    constexpr int POSITIONS = 64 / HEADS, ROWS = CHUNK - POSITIONS + KEYS;
    constexpr int UNUSED = KEYS - POSITIONS + 1 - MOST_W;  // columns left of every window
    using registers = register_shares<GROUPS, 32, 160>;
    extern __shared__ __align__(1024) unsigned char shared[];  // shared_memory() takes registers: none is left
    auto &tiles = *reinterpret_cast<window_tiles<ROWS> *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) tiles.keys_full[i].init(SINKS ? 4 : 2), tiles.keys_empty[i].init(4 * GROUPS);
        for (int g = 0; g < GROUPS; g++) tiles.Q[g].init(4);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // f(first head, first query of the chunk) for each of this block's items: every gridDim.x-th chunk, counted over
    // all heads
    const int chunks = (N - 1) / CHUNK + 1;
    const auto each_item = [&](auto f) {
        int head = 0;
#pragma unroll 1
        for (int chunk = blockIdx.x;; chunk += gridDim.x) {
#pragma unroll 1
            for (; chunk >= chunks; chunk -= chunks) head += HEADS;
            if (head >= heads) return;
            f(head, chunk * CHUNK);
        }
    };
    // f() for each of a chunk's tiles that is the group's; q is where the group's next one begins, counted from the
    // chunk
    const auto each_tile = [&](int &q, int row, auto f) {
#pragma unroll 1
        for (; q < CHUNK; q += GROUPS * POSITIONS)
            if (row + q < N) f();
        q -= CHUNK;
    };

    // fetch: one thread the keys and values, one the queries of each group
    if (warpgroup_id() == 0) {
        registers::give();
        if (threadIdx.x == 0) {
            int round = 0;
            each_item([&](int head, int row) {
                const int now = round % 2, kv_head = head / group_size, key = row + POSITIONS - KEYS;
                signal &full = tiles.keys_full[now];
                tiles.keys_empty[now].wait(round++ / 2 % 2 ^ 1);
                load_async(tiles.keys[now].K, K_map, key, kv_head, full);
                if (SINKS) load_async(tiles.keys[now].K_sinks, K_sinks_map, 0, kv_head, full);
                load_async(tiles.keys[now].V, V_map, key, kv_head, full);
                if (SINKS) load_async(tiles.keys[now].V_sinks, V_sinks_map, 0, kv_head, full);
            });
        } else if (threadIdx.x % 32 == 0) {
            const int group = threadIdx.x / 32 - 1;
            sender Q(tiles.Q[group]);
            int q = group * POSITIONS;
            each_item([&](int head, int row) { each_tile(q, row, [&] { Q.send(Q_map, row + q, head); }); });
        }
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1, warp_row = 16 * warp_in_group();
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    receiver Q(tiles.Q[group]);
    auto &O_tile = tiles.O[group];

    // The tile before leaves while this one's scores are computed: it waits in registers.
    weights<64> O;  // rounded
    row_vec<16> m = {}, l = {}, O_sink = {};
    int O_head = 0, O_row = -1;  // -1: there is none
    const auto leave = [&] {
        stores_read();
        warpgroup_meets();  // the O of the tile before that has left
        store(O_tile, O);
        store_async(O_map, O_row, O_head, O_tile);
        const int i = lane_id() % 4, r = warp_row + 8 * i + lane_id() / 4, query = O_row + r % POSITIONS;
        const auto mine = [i](const row_vec<16> &v) { return i ? v.x[1] : v.x[0]; };
        if (i < 2 && query < N) {                                    // two of a quad's lanes, one for each of its rows
            float L_row = (mine(m) + log2f(mine(l))) * 0.69314718f;  // ln(2): base e
            if (LOGITS) L_row = fmaxf(L_row, mine(O_sink)) + log1pf(expf(-fabsf(L_row - mine(O_sink))));
            L[(size_t)(O_head + r / POSITIONS) * N + query] = L_row;
        }
    };

    int round = 0, q = group * POSITIONS;
    each_item([&](int head, int row) {
        const int now = round % 2;
        const auto &keys = tiles.keys[now];
        row_vec<16> sink;
        TILE_UNROLL
        for (int i = 0; LOGITS && i < 2; i++)
            sink.x[i] = sink_logits[(head + (warp_row + 8 * i) / POSITIONS) % q_heads];
        tiles.keys_full[now].wait(round++ / 2 % 2);
        each_tile(q, row, [&] {
            const int first = row + q;  // query of the tile
            reg_tile<16, KEYS> S;
            reg_tile<16, 16> S_sinks;
            const auto &Q_tile = Q.receive();
            mma_ABt_async(S, Q_tile, strip<KEYS>(keys.K, q));  // S = Q K^T
            if (SINKS) mma_ABt_async(S_sinks, Q_tile, keys.K_sinks);
            if (O_row >= 0) leave();
            if (SINKS) products_done<0>(S_sinks);
            products_done<0>(S);
            Q.release();

            // mask: row r is query first + r % POSITIONS, column c is key first + POSITIONS - KEYS + c
            const int before = KEYS - POSITIONS - first;  // columns of keys that do not exist
            const auto hide_left = [&](float &s, element e) {
                if (e.col_slot < UNUSED / 4 || e.col < max(KEYS - POSITIONS + 1 - W + e.row % POSITIONS, before))
                    s = -INFINITY;
            };
            if (W >= KEYS - 16 && before <= 16)  // as far as the first sixteen columns, which the compiler knows
                each(S, [&](float &s, element e) {
                    if (e.col_slot < 4) hide_left(s, e);
                });
            else
                each(S, hide_left);
            each(S, [&](float &s, element e) {
                if (e.col_slot >= (KEYS - POSITIONS) / 4 && e.col > KEYS - POSITIONS + e.row % POSITIONS) s = -INFINITY;
            });
            if (SINKS)
                each(S_sinks, [&](float &s, element e) {  // those left of the window
                    if (e.col_slot >= SINKS / 4 || e.col >= sinks || e.col > first + e.row % POSITIONS - W)
                        s = -INFINITY;
                });

            // max
            m = row_max_part(S);
            if (SINKS) m = max(m, row_max_part(S_sinks));
            m = row_max_whole(m) * scale2;

            // accumulate: S becomes P, and P V is summed up; of the left columns while the right ones' exponentials run
            const auto weight = [&](float s, element e) { return exp2_fast(s * scale2 - m[e]); };
            auto &S_left = columns<0, LEFT>(S);
            auto &S_right = columns<LEFT, KEYS - LEFT>(S);
            reg_tile<16, 64> sum = {};
            weights<LEFT> P_left;
            weights<KEYS - LEFT> P_right;
            weights<16> P_sinks;
            each(S_left, [&](float &s, element e) { s = e.col_slot < UNUSED / 4 ? 0 : weight(s, e); });
            round_to(P_left, S_left);
            mma_AB_async(sum, P_left, strip<LEFT>(keys.V, q));
            each(S_right, [&](float &s, element e) { s = weight(s, e); });
            round_to(P_right, S_right);
            mma_AB_async(sum, P_right, strip<KEYS - LEFT>(keys.V, q + LEFT));
            l = row_sum_part(S);
            if (SINKS) {
                each(S_sinks, [&](float &s, element e) { s = e.col_slot < SINKS / 4 ? weight(s, e) : 0; });
                round_to(P_sinks, S_sinks);
                mma_AB_async(sum, P_sinks, keys.V_sinks);
                l = l + row_sum_part(S_sinks);
            }
            l = row_sum_whole(l);
            row_vec<16> share = l;
            if (LOGITS) share = share + exp2(sink * 1.44269504f - m), O_sink = sink;
            share = rowwise(share, [](float x) { return 1 / x; });  // before the wait
            products_done<0>(sum);
            scale_rows(sum, share);
            round_to(O, sum);
            O_row = first, O_head = head;
        });
        if (lane_id() == 0) tiles.keys_empty[now].arrive();
    });
    if (O_row >= 0) leave();
    stores_read();  // the block may not end before
}

template <int HEADS, int SINKS> static wb_status launch_window(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    constexpr int POSITIONS = 64 / HEADS, ROWS = CHUNK - POSITIONS + KEYS, bytes = sizeof(window_tiles<ROWS>);
    static_assert(bytes <= 227 * 1024, "a block may have 227 KB of shared memory");
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads, N = shape->q_len;
    const int items = heads / HEADS * ((N - 1) / CHUNK + 1);
    tensor_map O_map, Q_map, K_map, V_map, K_sinks_map, V_sinks_map;
    wb_status status = describe(O_map, O, heads, N, 64, POSITIONS, HEADS);
    if (status == WB_OK) status = describe(Q_map, Q, heads, N, 64, POSITIONS, HEADS);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, N, 64, ROWS);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, N, 64, ROWS);
    if (status == WB_OK) status = describe(K_sinks_map, K, kv_heads, N, 64, MOST_SINKS);
    if (status == WB_OK) status = describe(V_sinks_map, V, kv_heads, N, 64, MOST_SINKS);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const auto kernel = window_kernel<HEADS, SINKS>;
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<min(items, processors), 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, K_sinks_map, V_sinks_map, L, sink_logits, heads, shape->q_heads, heads / kv_heads,
        N, shape->window, shape->sinks, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// Whether the kernel can do it here.
static bool suits(const char *name, const attention_shape *shape, int sinks)
{
    const int group_size = shape->q_heads / shape->kv_heads;
    const long long tiles = (long long)shape->batch * shape->q_heads * ((shape->q_len - 1) / CHUNK + 1);
    return shape->head_dim == 64 && shape->window <= MOST_W && sinks <= MOST_SINKS && group_size % 4 == 0 &&
           tiles <= INT_MAX && fits<window_tiles<CHUNK - 8 + KEYS>>() && check_hopper(name) == WB_OK;
}

// Items are equally long whatever the window is, in steps of a head. `more`: items that another head takes to begin.
static double window_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim != 64 || shape->window > MOST_W || shape->sinks > MOST_SINKS ||
        wb_group_of(shape) % 4)
        return INFINITY;
    const int heads = wb_pack_of(shape, 8);
    const double tiles = (shape->q_len - 1) / CHUNK + 1;
    const double items = (double)shape->batch * shape->q_heads / heads * (tiles + device->costs->more);
    return wb_forward(shape, device, {items, 1.0 * heads, 1.0 * heads, 1.0 * heads, 1, 0});
}
#ifndef SINK_LOGITS  // problem 11 has its own
namespace any_window
{
#include "../flash_sinks.cu"
}

wb_status flash_sinks(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (!suits("flash_sinks", shape, shape->sinks)) return any_window::flash_sinks(O, L, Q, K, V, shape, stream);
    const bool eight = shape->q_heads / shape->kv_heads % 8 == 0;
    const auto run = shape->sinks == 0   ? eight ? launch_window<8, 0> : launch_window<4, 0>
                       : shape->sinks <= 8 ? eight ? launch_window<8, 8> : launch_window<4, 8>
                       : eight ? launch_window<8, 16>
                                         : launch_window<4, 16>;
    return run(O, L, Q, K, V, nullptr, shape, stream);
}
double flash_sinks_microseconds(const attention_shape *shape, const wb_device *device)
{
    return window_microseconds(shape, device);
}
#endif
