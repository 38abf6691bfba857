// hopper.cu - flash_sink_logits for the two kinds of layers in gpt-oss, each by the kernel that suits it.
//
// With a window: a block takes few positions of many heads instead of many positions of one, as 07's packed_heads.cu
// does, whose comments say why. Without one, D 64 and 128, on a GPU of sm_90: the copies and products of problem 10,
// which run on their own. What neither is made for, such as D 16 without a window, or a window of 4096, is the first
// one's.
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "hopper.cuh"
#include "../../10/variants/online_step.cuh"

// What both end with: one more term in the denominator. exp(L) becomes exp(L) + exp(sink), for O, in l, and for L.
template <int Rows> TILE_FN void join(row_vec<Rows> &l, row_vec<Rows> &L, const row_vec<Rows> &sink)
{
    const row_vec<Rows> above = sink - L;
    l = rowwise(l, above, [](float sum, float a) { return sum * (1 + expf(a)); });
    L = max(L, sink) + rowwise(above, [](float a) { return log1pf(expf(-fabsf(a))); });
}

// ------------------------------------------------------------------------------ heads side by side

constexpr int WARPS = 4, ROWS = 32, THREADS = 32 * WARPS, BLOCK_ROWS = ROWS * WARPS;

// What a block keeps in shared memory. Row r of Q is position r % POSITIONS of head r / POSITIONS. Of the STAGES tiles
// of the window one is read while the others are on their way.
template <int BC, int STAGES, int D> struct packed_tiles {
    smem_tile<BLOCK_ROWS, D> Q_smem;
    smem_tile<BC, D> K_smem[STAGES], V_smem[STAGES];
};

// Rows row0 ... row0 + Rows - 1 of a tile as a tile.
template <int Rows, int TileRows, int Cols>
TILE_FN smem_tile<Rows, Cols> &part(smem_tile<TileRows, Cols> &tile, int row0)
{
    return reinterpret_cast<smem_tile<Rows, Cols> &>(tile.at[row0]);
}

// One step of the online softmax, as in the key.
template <int BC, int D, class Mask> TILE_FN void attend(
    reg_tile<ROWS, D> &O_reg, row_vec<ROWS> &m, row_vec<ROWS> &l, const operand<ROWS, D> &Q_reg,
    const smem_tile<BC, D> &K_smem, const smem_tile<BC, D> &V_smem, float scale2, Mask mask)
{
    reg_tile<ROWS, BC> S = {};
    mma_ABt(S, Q_reg, K_smem);  // S = Q K^T
    mask(S);
    const row_vec<ROWS> S_max = row_max_part(S) * scale2;
    if (any_above(S_max, m + 8.0f)) {
        const row_vec<ROWS> m_new = max(m, row_max_whole(S_max)), alpha = exp2(m - m_new);
        m = m_new;
        l = l * alpha;
        scale_rows(O_reg, alpha);
    }
    each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });  // S becomes P
    l = l + row_sum_part(S);
    mma_AB(O_reg, S, V_smem);  // O += P V
}

// A block owns POSITIONS query rows of HEADS heads that share K and V, each of its warps ROWS rows of the packed tile.
template <int D, int HEADS, int BC, int STAGES, int BLOCKS>
__global__ __launch_bounds__(THREADS, BLOCKS) void packed_kernel(
    bf16 *O,                   // [B, Hq, N, D]
    float *L,                  // [B, Hq, N]
    const bf16 *Q,             // [B, Hq, N, D]
    const bf16 *K,             // [B, Hkv, N, D]
    const bf16 *V,             // [B, Hkv, N, D]
    const float *sink_logits,  // [Hq]
    int q_heads, int kv_heads, int N, int W, float scale)
{
    constexpr int POSITIONS = BLOCK_ROWS / HEADS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<packed_tiles<BC, STAGES, D> *>(shared);

    // who am I
    const int packs = q_heads / HEADS, q_head = blockIdx.x % packs * HEADS, kv_head = q_head / (q_heads / kv_heads);
    const int block_row = ((N - 1) / POSITIONS - blockIdx.x / packs) * POSITIONS;  // position of the block's first rows
    const int warp_row = warp_id() * ROWS;                                         // in the packed tile
    const int row = block_row + warp_row % POSITIONS;                              // position of the warp's first row
    const size_t head = (size_t)blockIdx.y * q_heads + q_head;                     // the first of HEADS
    K += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;
    V += ((size_t)blockIdx.y * kv_heads + kv_head) * N * D;

    // what the block sees: keys first ... last, in tiles that begin where the window begins
    const int first = max(0, block_row - W + 1), last = min(block_row + POSITIONS, N) - 1;
    const int count = (last - first) / BC + 1;

    // load: queries, then the first tiles of the window, a group of loads each
    const auto send_for = [&](int t) {
        if (t < count) {
            const int key = first + t * BC;
            load_async<THREADS>(tiles.K_smem[t % STAGES], K + (size_t)key * D, N - key);
            load_async<THREADS>(tiles.V_smem[t % STAGES], V + (size_t)key * D, N - key);
        }
        loads_issued();
    };
    for (int h = 0; h < HEADS; h++)
        load_async<THREADS>(
            part<POSITIONS>(tiles.Q_smem, h * POSITIONS), Q + ((head + h) * N + block_row) * D, N - block_row);
    loads_issued();
    for (int t = 0; t < STAGES - 1; t++) send_for(t);
    loads_arrived<STAGES - 1>();
    __syncthreads();  // the queries are there for all
    operand<ROWS, D> Q_reg;
    load(Q_reg, tiles.Q_smem, warp_row);

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    reg_tile<ROWS, D> O_reg = {};
    row_vec<ROWS> m, l = {};
    fill(m, -FLT_MAX);
    // the window and the diagonal
    for (int t = 0; t < count; t++) {
        loads_arrived<STAGES - 2>();
        __syncthreads();  // tile t is there for all warps, and no warp reads tile t - 1 any more
        send_for(t + STAGES - 1);
        attend(
            O_reg, m, l, Q_reg, tiles.K_smem[t % STAGES], tiles.V_smem[t % STAGES], scale2, [&](reg_tile<ROWS, BC> &S) {
                const int key = first + t * BC, last_row = row + min(ROWS, POSITIONS) - 1;
                if (key + BC - 1 > row || key <= last_row - W)
                    each(S, [&](float &s, element e) {
                        const int i = row + e.row % POSITIONS, j = key + e.col;
                        if (j > i || j <= i - W) s = -INFINITY;
                    });
            });
    }

    // finalize
    l = row_sum_whole(l);
    row_vec<ROWS> L_row = (m + log2(l)) * 0.69314718f, sink;  // ln(2): base e
    TILE_UNROLL
    for (int r = 0; r < ROWS / 8; r++) sink.x[r] = sink_logits[q_head + (warp_row + 8 * r) / POSITIONS];
    join(l, L_row, sink);
    divide_rows(O_reg, l);

    // store: 16 rows at a time, which are of one head
    TILE_UNROLL
    for (int r = 0; r < ROWS / 16; r++) {
        const int packed_row = warp_row + 16 * r, i = block_row + packed_row % POSITIONS;
        const size_t at = (head + packed_row / POSITIONS) * N + i;
        store(O + at * D, reinterpret_cast<const reg_tile<16, D> &>(O_reg.x[r]), N - i);
        store(L + at, reinterpret_cast<const row_vec<16> &>(L_row.x[2 * r]), N - i);
    }
}

template <int D, int HEADS, int BC, int STAGES, int BLOCKS> static wb_status launch_packed(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const auto kernel = packed_kernel<D, HEADS, BC, STAGES, BLOCKS>;
    const size_t bytes = sizeof(packed_tiles<BC, STAGES, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((shape->q_len - 1) / (BLOCK_ROWS / HEADS) + 1) * (shape->q_heads / HEADS), shape->batch);
    kernel<<<grid, THREADS, bytes, stream>>>(
        O, L, Q, K, V, sink_logits, shape->q_heads, shape->kv_heads, shape->q_len, shape->window, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// The largest pack that divides the group.
template <int D, int BC, int STAGES, int BLOCKS> static wb_status packed(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const int group = shape->q_heads / shape->kv_heads;
    if (group % 8 == 0) return launch_packed<D, 8, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
    if (group % 4 == 0) return launch_packed<D, 4, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
    if (group % 2 == 0) return launch_packed<D, 2, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
    return launch_packed<D, 1, BC, STAGES, BLOCKS>(O, L, Q, K, V, sink_logits, shape, stream);
}

// --------------------------------------------------------------------------------------- on Hopper

// What a block keeps in shared memory.
template <int D, int BC, int GROUPS> struct hopper_tiles {
    ring<tma_tile<BC, D>, 2> K, V;    // one of the two is read while the other is filled
    ring<tma_tile<64, D>, GROUPS> Q;  // one a warpgroup
    tma_tile<64, D> O[GROUPS];
};

// A block owns 64 * GROUPS query rows, each of its computing warps 16, in each of `bunch` heads, one head after the
// other: while the last products of one run, the next one's tiles come. It walks over the keys from right to left, BC
// at a time: the tiles with a mask come first.
template <int D, int BC, int GROUPS> __global__ __launch_bounds__(128 * (1 + GROUPS), 1) void hopper_kernel(
    const __grid_constant__ tensor_map O_map,  // [B, Hq, N, D]
    const __grid_constant__ tensor_map Q_map,  // [B, Hq, N, D]
    const __grid_constant__ tensor_map K_map,  // [B, Hkv, N, D]
    const __grid_constant__ tensor_map V_map,  // [B, Hkv, N, D]
    float *L,                                  // [B, Hq, N]
    const float *sink_logits,                  // [Hq]
    int heads, int bunch, int side_by_side, int q_heads, int group_size, int N, float scale)
{
    constexpr int BR = 64 * GROUPS;
    using registers = register_shares<GROUPS, GROUPS == 2 ? 40 : 32, GROUPS == 2 ? 232 : 160>;
    auto &tiles = shared_memory<hopper_tiles<D, BC, GROUPS>>();

    // who am I: side_by_side bunches of heads, counted over the whole batch, share a section of the grid
    const int tiles_of_head = (N - 1) / BR + 1, section = blockIdx.x / (side_by_side * tiles_of_head);
    const int n = blockIdx.x % (side_by_side * tiles_of_head);  // in the section
    const int first_head = (section * side_by_side + n % side_by_side) * bunch;
    const int block_row = (tiles_of_head - 1 - n / side_by_side) * BR;
    const int last_head = min(first_head + bunch, heads);
    const int end = (min(N, block_row + BR) - 1) / BC + 1;  // tiles of keys that the block sees

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
        sender K(tiles.K), V(tiles.V);
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
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1, group_row = block_row + 64 * group, row = group_row + 16 * warp_in_group();
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    const auto &Q = tiles.Q.tile[group];
    receiver K(tiles.K), V(tiles.V);
    turns<GROUPS == 2 ? 1 : GROUPS> turn(GROUPS == 2 ? 0 : group);  // two groups are faster without

    const auto mask = [&](reg_tile<16, BC> &S,
                          int t) {  // keys that come after the query, those that do not exist among them
        if (row < (t + 1) * BC - 1)
            each(S, [&](float &s, element e) {
                if (t * BC + e.col > row + e.row) s = -INFINITY;
            });
    };

    for (int head = first_head; head < last_head; head++) {
        reg_tile<16, D> O = {};
        row_vec<16> m, l = {}, alpha, sink;
        fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
        weights<BC> P;
        int t = end - 1;
        tiles.Q.full[group].wait((head - first_head) & 1);
        for (; t * BC >= group_row + 64; t--) {  // tiles that only the other warpgroups see
            K.receive(), K.release();
            V.receive(), V.release();
            turn.wait(), turn.pass();
        }
        {  // the first tile: nothing to overlap with
            reg_tile<16, BC> S;
            mma_ABt_async(S, Q, K.receive());  // S = Q K^T
            products_done<0>(S);
            K.release();
            mask(S, t);
            online_step(S, m, l, alpha, scale2);
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
            const bool outgrown = online_step(S, m, l, alpha, scale2);
            products_done<0>(O);
            V.release();
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O, alpha);
        }
        mma_AB_async(O, P, V.receive());
        products_done<0>(O);
        V.release();
        if (lane_id() == 0) tiles.Q.empty[group].arrive();  // the next head's queries may come

        // finalize
        l = row_sum_whole(l);
        row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e
        fill(sink, sink_logits[head % q_heads]);
        join(l, L_row, sink);
        divide_rows(O, l);

        // store
        store(L + (size_t)head * N + row, L_row, N - row);
        stores_read();
        warpgroup_meets();  // the tile's last O has left
        store(tiles.O[group], O);
        store_async(O_map, group_row, head, tiles.O[group]);
    }
    stores_read();  // the block may not end before
}

template <int D, int GROUPS> static wb_status on_hopper(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    constexpr int BC = 128, BR = 64 * GROUPS;
    const auto kernel = hopper_kernel<D, BC, GROUPS>;
    const int bytes = sizeof(hopper_tiles<D, BC, GROUPS>), N = shape->q_len;
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads,
              group_size = heads / kv_heads;
    tensor_map O_map, Q_map, K_map, V_map;
    wb_status status = describe(O_map, O, heads, N, D, 64);
    if (status == WB_OK) status = describe(Q_map, Q, heads, N, D, 64);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, N, D, BC);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, N, D, BC);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    // a section has as many heads as have their keys and values in half of the L2 cache (60 MB) together; a bunch has
    // four, as long as there are three blocks for two multiprocessors in a section
    int section = group_size, bunch = 4;
    while (2 * section <= heads && 2ll * section / group_size * N * D * 4 <= 32 << 20) section *= 2;
    const long long tiles_of_head = (N - 1) / BR + 1;
    while (bunch > 1 && tiles_of_head * (section / bunch) * 2 < processors * 3) bunch /= 2;
    const int side = (section - 1) / bunch + 1;
    const long long blocks = tiles_of_head * side * ((heads - 1) / (side * bunch) + 1);
    if (blocks > INT_MAX) return wb_fail(WB_UNSUPPORTED, "flash_sink_logits: more than %d tiles of queries", INT_MAX);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<(unsigned)blocks, 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, sink_logits, heads, bunch, side, shape->q_heads, group_size, N, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_sink_logits(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_sink_forward("flash_sink_logits", O, L, Q, K, V, sink_logits, shape);
    if (status != WB_OK) return status;
    const bool hopper = shape->window >= shape->q_len && check_hopper("flash_sink_logits") == WB_OK &&
                        fits<hopper_tiles<64, 128, 3>>() && fits<hopper_tiles<128, 128, 2>>();
    const bool room = fits<packed_tiles<32, 3, 128>>();
    switch (shape->head_dim) {
    case 16: return packed<16, 48, 3, 4>(O, L, Q, K, V, sink_logits, shape, stream);
    case 32: return packed<32, 48, 3, 3>(O, L, Q, K, V, sink_logits, shape, stream);
    case 64:
        return hopper ? on_hopper<64, 3>(O, L, Q, K, V, sink_logits, shape, stream)
                      : packed<64, 48, 3, 3>(O, L, Q, K, V, sink_logits, shape, stream);
    default:
        return hopper ? on_hopper<128, 2>(O, L, Q, K, V, sink_logits, shape, stream)
               : room ? packed<128, 32, 3, 2>(O, L, Q, K, V, sink_logits, shape, stream)
                      : packed<128, 16, 2, 1>(O, L, Q, K, V, sink_logits, shape, stream);
    }
}

// `more`: a step of the second kernel, in microseconds.
double flash_sink_logits_microseconds(const attention_shape *shape, const wb_device *device)
{
    const int D = shape->head_dim, heads = wb_pack_of(shape, 8);
    if (shape->window >= shape->q_len && device->capability == 9 && D >= 64) {
        const wb_walks w = wb_over_keys(shape, D == 64 ? 192 : 128, 128, 1);
        const wb_costs *c = device->costs;
        return c->launch + c->more * wb_rounds(&w, 2, device->processors);
    }
    wb_walks w = wb_over_keys(shape, BLOCK_ROWS / heads, D == 128 ? 32 : 48, D == 16 ? 4 : D == 128 ? 2 : 3);
    w.blocks /= heads;
    return wb_forward(shape, device, w);
}
