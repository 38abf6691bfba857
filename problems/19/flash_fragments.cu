// flash_fragments.cu - problem 03's function without tile.cuh: what its primitives do is written here, lane by lane.
#include "workbook.h"
#include "fragments.cuh"

using namespace tile_machine;  // ldmatrix_x4, ldmatrix_x4_trans, mma_m16n8k16, pack

// ------------------------ who holds what
// A tile of floats is spread over a warp in blocks of 16 x 8, as mma leaves them: a lane holds four elements of each.

struct element {
    int row, col;
};

// Where this lane's element i of a block is, i = 0 ... 3.
TILE_FN element owned(int i)
{
    element e = {};
    //{ owner
    // TODO(19) owner: the row, 0 ... 15, and the column, 0 ... 7, of element i.  (about 2 lines)
    (void)i;
    //}
    return e;
}

// f(x, e, slot) for every element x of a tile, each by the lane that holds it: e is where it is in the tile, slot which
// of this lane's rows that is.
template <int BLOCKS, int COLS, class F> TILE_FN void each(float (&tile)[BLOCKS][COLS][4], F f)
{
    TILE_UNROLL
    for (int r = 0; r < BLOCKS; r++) {
        TILE_UNROLL
        for (int c = 0; c < COLS; c++) {
            TILE_UNROLL
            for (int i = 0; i < 4; i++)
                f(tile[r][c][i], element{16 * r + owned(i).row, 8 * c + owned(i).col}, 2 * r + i / 2);
        }
    }
}

// f, a sum or a maximum, over what this lane holds of its row `slot`.
template <int BLOCKS, int COLS, class F> TILE_FN float over_lane(const float (&tile)[BLOCKS][COLS][4], int slot, F f)
{
    const int r = slot / 2, i = slot % 2 * 2;
    float x = f(tile[r][0][i], tile[r][0][i + 1]);
    TILE_UNROLL
    for (int c = 1; c < COLS; c++) x = f(x, f(tile[r][c][i], tile[r][c][i + 1]));
    return x;
}

// The same over the lanes that hold the same row. All of them get the result.
template <class F> TILE_FN float over_row(float x, F f)
{
    //{ row
    // TODO(19) row: x becomes f of the x of all lanes that hold this row.  (about 2 lines)
    (void)f;
    //}
    return x;
}

// ------------------------ the layout in shared memory
// [ROWS, COLS] bf16, no padding. A chunk is 8 neighbours of a row, 16 bytes: what a copy moves and a lane supplies.
template <int ROWS, int COLS> struct alignas(128) shared_tile {
    static constexpr int CHUNKS = COLS / 8;  // of a row
    bf16 at[ROWS][COLS];

    TILE_FN bf16 *chunk(unsigned row, int number)
    {
        int slot = number;  // which of its row's CHUNKS places it has
        //{ swizzle
        // TODO(19) swizzle: a slot such that the same chunk of 8 rows covers all 32 banks.  (about 2 lines)
        //}
        return &at[row][8 * slot];
    }
};

// The block begins to copy the first `rows` rows of src, [rows, COLS]. The others become zeros, since 0 * NaN is NaN.
template <int THREADS, int ROWS, int COLS> TILE_FN void copy(shared_tile<ROWS, COLS> &tile, const bf16 *src, int rows)
{
    constexpr int CHUNKS = COLS / 8, STEP = THREADS / CHUNKS;  // rows at a time, a chunk a thread
    const int row0 = threadIdx.x / CHUNKS, number = threadIdx.x % CHUNKS;
    static_assert(
        THREADS % CHUNKS == 0 && ROWS % STEP == 0, "the block copies whole rows, and as often as all threads");
    const auto begin = [&](int r) {
        __pipeline_memcpy_async(tile.chunk(row0 + r, number), src + threadIdx.x * 8 + r * COLS, 16);
    };
    if (ROWS > STEP && rows >= ROWS) {  // nearly always: no test for each row
        TILE_UNROLL
        for (int r = 0; r < ROWS; r += STEP) begin(r);
        return;
    }
    TILE_UNROLL
    for (int r = 0; r < ROWS; r += STEP) {
        if (row0 + r < rows)
            begin(r);
        else
            *reinterpret_cast<uint4 *>(tile.chunk(row0 + r, number)) = make_uint4(0, 0, 0, 0);
    }
}

// ------------------------ fragments

// Of Q, the left factor: rows row0 ... row0 + 15, columns 16 k ... 16 k + 15. Its four 8 x 8 blocks come as f[0] above
// f[1], and f[2] above f[3] to the right of them.
template <int ROWS, int D> TILE_FN void fetch_queries(uint32_t f[4], shared_tile<ROWS, D> &Q, int row0, int k)
{
    ldmatrix_x4(f, Q.chunk(row0 + lane_id() % 16, 2 * k + lane_id() / 16));
}

// Of K^T, the right factor: rows 16 k ... of K^T, which are columns of K, and columns 16 n ..., which are keys. f[0],
// f[1] are the fragment of the first 8 keys, f[2], f[3] that of the last 8.
template <int BC, int D> TILE_FN void fetch_keys(uint32_t f[4], shared_tile<BC, D> &K, int k, int n)
{
    //{ keys
    // TODO(19) keys: each lane supplies the address of 8 elements of a row of K, for ldmatrix_x4.  (about 2 lines)
    (void)f, (void)K, (void)k, (void)n;
    //}
}

// Of V, the right factor: keys 16 k ..., columns 16 n .... f[0], f[1] are the fragment of the first 8 columns.
template <int BC, int D> TILE_FN void fetch_values(uint32_t f[4], shared_tile<BC, D> &V, int k, int n)
{
    //{ values
    // TODO(19) values: the same for V, with ldmatrix_x4_trans.  (about 1 line)
    (void)f, (void)V, (void)k, (void)n;
    //}
}

// Columns 16 k ... of 16 rows of P, as a left factor: rounded to bf16, and from registers to registers.
template <int COLS> TILE_FN void fetch_weights(uint32_t f[4], const float (&P)[COLS][4], int k)
{
    //{ weights
    // TODO(19) weights: f[0] ... f[3] from this lane's elements of two blocks of P.  (about 4 lines)
    (void)f, (void)P, (void)k;
    //}
}

// C += A B, 16 DEPTH columns of A, 8 COLS columns of B. left(f, r, k) fetches rows 16 r ... and columns 16 k ... of A;
// right(f, k, n) rows 16 k ... and columns 16 n ... of B, two fragments: n = 0 ... COLS / 2 - 1.
template <int DEPTH, int BLOCKS, int COLS, class Left, class Right>
TILE_FN void multiply(float (&C)[BLOCKS][COLS][4], Left left, Right right)
{
    //{ product
    // TODO(19) product: for each k fetch A's fragments, for each n B's two, and multiply.  (about 12 lines)
    (void)C, (void)left, (void)right;
    //}
}

// ------------------------ the kernel: as in 03

template <int BR, int BC, int D> struct forward_tiles {
    shared_tile<BR, D> Q_smem;
    shared_tile<BC, D> K_smem[2], V_smem[2];  // one of the two is read while the other is filled
};

// One step of the online softmax: a warp's rows see one more tile of keys, but for the scores that mask(S) hides.
template <int ROWS, int BC, int D, class Queries, class Mask> TILE_FN void attend(
    float (&O_reg)[ROWS / 16][D / 8][4], float (&m)[ROWS / 8], float (&l)[ROWS / 8], Queries queries,
    shared_tile<BC, D> &K_smem, shared_tile<BC, D> &V_smem, float scale2, Mask mask)
{
    const auto larger = [](float a, float b) { return fmaxf(a, b); };
    const auto plus = [](float a, float b) { return a + b; };
    float S[ROWS / 16][BC / 8][4] = {}, S_max[ROWS / 8];
    multiply<D / 16>(S, queries, [&](uint32_t *f, int k, int n) { fetch_keys(f, K_smem, k, n); });  // S = Q K^T
    mask(S);
    // max: of this lane's columns, and only if it exceeds m by 8 that of the row (03, version two)
    bool outgrown = false;
    TILE_UNROLL
    for (int i = 0; i < ROWS / 8; i++) {
        S_max[i] = over_lane(S, i, larger) * scale2;
        outgrown |= S_max[i] > m[i] + 8;
    }
    // rescale
    if (__any_sync(0xffffffffu, outgrown)) {
        float alpha[ROWS / 8];
        TILE_UNROLL
        for (int i = 0; i < ROWS / 8; i++) {
            const float m_new = fmaxf(m[i], over_row(S_max[i], larger));
            alpha[i] = exp2_fast(m[i] - m_new), m[i] = m_new, l[i] *= alpha[i];
        }
        each(O_reg, [&](float &o, element, int slot) { o *= alpha[slot]; });
    }
    // accumulate
    each(S, [&](float &s, element, int slot) { s = exp2_fast(s * scale2 - m[slot]); });  // S becomes P
    TILE_UNROLL
    for (int i = 0; i < ROWS / 8; i++) l[i] += over_lane(S, i, plus);
    multiply<BC / 16>(
        O_reg, [&](uint32_t *f, int r, int k) { fetch_weights(f, S[r], k); },
        [&](uint32_t *f, int k, int n) { fetch_values(f, V_smem, k, n); });  // O += P V
}

// A block owns BR query rows of one head, each of its warps ROWS of them. The block walks over the keys, BC at a time.
template <int D, int ROWS, int BC, int WARPS, int BLOCKS>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void forward_kernel(
    bf16 *O,        // [B, Hq, N, D]
    float *L,       // [B, Hq, N]
    const bf16 *Q,  // [B, Hq, N, D]
    const bf16 *K,  // [B, Hq, Nk, D]
    const bf16 *V,  // [B, Hq, Nk, D]
    int q_heads, int N, int Nk, float scale)
{
    constexpr int BR = ROWS * WARPS, THREADS = 32 * WARPS;
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<forward_tiles<BR, BC, D> *>(shared);

    // who am I: all rows of a head come one after the other, so neighbouring blocks read the same keys
    const int blocks = (N - 1) / BR + 1, q_head = blockIdx.x / blocks, tile = blockIdx.x % blocks;
    const int block_row = tile * BR, warp_row = warp_id() * ROWS, row = block_row + warp_row;
    const size_t head = (size_t)blockIdx.y * q_heads + q_head;  // counted over the whole batch
    Q += (head * N + block_row) * D;                            // the block's first query
    K += head * Nk * D;                                         // the head's first key
    V += head * Nk * D;

    // what the block sees: tiles 0 ... end - 1, of which the first `full` have all their keys
    const int full = Nk / BC, end = (Nk - 1) / BC + 1;

    // load: the block's queries and the first tile of keys
    copy<THREADS>(tiles.Q_smem, Q, N - block_row);
    copy<THREADS>(tiles.K_smem[0], K, Nk);
    copy<THREADS>(tiles.V_smem[0], V, Nk);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();  // every thread's part of Q has arrived

    // Few fragments of Q stay in registers for the whole kernel. Many are fetched again for every tile of keys.
    constexpr bool FEW = ROWS * D <= 2048;
    uint32_t Q_reg[FEW ? ROWS / 16 : 1][FEW ? D / 16 : 1][4];
    if constexpr (FEW) {
        TILE_UNROLL
        for (int r = 0; r < ROWS / 16; r++) {
            TILE_UNROLL
            for (int k = 0; k < D / 16; k++) fetch_queries(Q_reg[r][k], tiles.Q_smem, warp_row + 16 * r, k);
        }
    }
    const auto queries = [&](uint32_t *f, int r, int k) {
        if constexpr (FEW)
            memcpy(f, Q_reg[r][k], sizeof Q_reg[r][k]);
        else
            fetch_queries(f, tiles.Q_smem, warp_row + 16 * r, k);
    };

    // Turns to the tile that is in flight, and has tile `next` copied meanwhile, if the block sees it. Tile t lies in
    // place t % 2.
    const auto turn_page = [&](int next) {
        //{ pages
        // TODO(19) pages: the tile in flight has arrived for all; the copy of tile `next` begins.  (about 7 lines)
        (void)next, (void)end;
        //}
    };

    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    float O_reg[ROWS / 16][D / 8][4] = {}, m[ROWS / 8], l[ROWS / 8] = {};
    for (float &x : m) x = -FLT_MAX;  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
    // phase 1: tiles that have all their keys. No mask.
    for (int t = 0; t < full; t++) {
        turn_page(t + 1);
        attend<ROWS, BC, D>(O_reg, m, l, queries, tiles.K_smem[t % 2], tiles.V_smem[t % 2], scale2, [](auto &) {});
    }
    // phase 2: the last tile, where the keys end inside it.
    for (int t = full; t < end; t++) {
        turn_page(t + 1);
        const int left = Nk - t * BC;  // keys from this tile on
        attend<ROWS, BC, D>(O_reg, m, l, queries, tiles.K_smem[t % 2], tiles.V_smem[t % 2], scale2, [&](auto &S) {
            each(S, [&](float &s, element e, int) {
                if (e.col >= left) s = -INFINITY;
            });
        });
    }

    // finalize
    for (float &x : l) x = over_row(x, [](float a, float b) { return a + b; });
    float factor[ROWS / 8];
    TILE_UNROLL
    for (int i = 0; i < ROWS / 8; i++) factor[i] = 1 / l[i];
    each(O_reg, [&](float &o, element, int slot) { o *= factor[slot]; });

    // store: elements 0 and 1 of a block, then 2 and 3, are neighbours in memory
    O += (head * N + row) * D, L += head * N + row;
    TILE_UNROLL
    for (int i = 0; i < ROWS / 8; i++) {
        const element e = owned(i % 2 * 2);
        const int r = i / 2 * 16 + e.row;
        if (r >= N - row) continue;
        TILE_UNROLL
        for (int c = 0; c < D / 8; c++) {
            const float *pair = &O_reg[i / 2][c][i % 2 * 2];
            *reinterpret_cast<__nv_bfloat162 *>(O + r * D + 8 * c + e.col) = __floats2bfloat162_rn(pair[0], pair[1]);
        }
        if (e.col == 0) L[r] = (m[i] + log2f(l[i])) * 0.69314718f;  // ln(2): base e
    }
}

template <int D, int ROWS, int BC, int BLOCKS> static wb_status
launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    constexpr int WARPS = 4, BR = ROWS * WARPS;
    const auto kernel = forward_kernel<D, ROWS, BC, WARPS, BLOCKS>;
    const size_t bytes = sizeof(forward_tiles<BR, BC, D>);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid(((shape->q_len - 1) / BR + 1) * shape->q_heads, shape->batch);
    kernel<<<grid, 32 * WARPS, bytes, stream>>>(
        O, L, Q, K, V, shape->q_heads, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_fragments(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_fragments", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const bool room = fits<forward_tiles<128, 64, 128>>();
    auto go = launch<16, 32, 64, 4>;
    if (shape->head_dim == 32) go = launch<32, 32, 64, 3>;
    if (shape->head_dim == 64) go = launch<64, 32, 64, 2>;
    if (shape->head_dim == 128) go = room ? launch<128, 32, 64, 2> : launch<128, 16, 32, 2>;
    return go(O, L, Q, K, V, shape, stream);
}
