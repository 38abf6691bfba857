// one_block.cuh - what 13's and 14's one_block.cu share: how a block's warps and a cluster's blocks merge what they
// have seen, and for which shapes. It wants before it the key, and queries_room, where a block has its queries.
#pragma once

// A cluster is up to eight blocks, side by side in y, that write to each other's shared memory (CUDA C++ Programming
// Guide). All threads call: a thread has arrived, and all of the cluster have; `mine`, in shared memory, as block
// `rank` has it. The CPU layer has clusters of one block.
#if !defined(__CUDACPU__) && __CUDA_ARCH__ >= 900
TILE_FN void cluster_arrives() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
TILE_FN void cluster_waits() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
template <class T> TILE_FN T &in_block(T &mine, int rank)
{
    T *there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&mine), "r"(rank));
    return *there;
}
#else
TILE_FN void cluster_arrives() {}
TILE_FN void cluster_waits() {}
template <class T> TILE_FN T &in_block(T &mine, int) { return mine; }
#endif

// A lane looks up the page of 16 of its warp's keys: so a warp those of all tiles of BC keys that the block has of
// sequence b, for which 32 lanes suffice (cluster_of). The blocks of a cluster take tiles by turns. All lanes call.
template <int KEYS, int BC> struct pages_of_tiles {
    static constexpr int PAGES = KEYS / 16;  // of a warp's part of a tile
    int page = 0, bits;                      // a page has 1 << bits keys
    TILE_FN pages_of_tiles(int bits_of_page, const int *page_table, int b, int keys, const decode_shape &s)
        : bits(bits_of_page)
    {
        const int tile = lane_id() / PAGES * gridDim.y + blockIdx.y;
        const int key = tile * BC + warp_id() * KEYS + lane_id() % PAGES * 16;
        if (key >= keys) return;
        page = page_table[(size_t)b * s.max_pages + (key >> bits)];
        expect_page(page, s.pages, b, key);
    }
    // Of the block's n-th tile, where this lane sends for 16 keys: the rows of the cache before the page, and in it.
    TILE_FN size_t before(int n) const
    {
        return (size_t)(unsigned)__shfl_sync(0xffffffffu, page, n * PAGES + lane_id() / (512 / KEYS)) << bits;
    }
    TILE_FN int in_page(int key) const { return key & ((1 << bits) - 1); }
};

// A warp's buffers; and when all of its keys are done, in their place what it has seen, lane by lane.
template <int ROWS, int D, int STAGES> union warp_room {
    key_tile<D> keys[STAGES];
    struct {
        float O[ROWS / 16][D / 8][4][32], m[ROWS / 8][32], l[ROWS / 8][32];
    } seen;
    TILE_FN warp_room() {}
};
// What the blocks of a cluster send to this one when they are done: the others their sums of its pieces, lane by lane,
// of eight rows by eight columns; and all m and l. Blocks of four warps are in clusters of two at most (cluster_of).
template <int ROWS, int D, int WARPS> struct cluster_room {
    static constexpr int PIECES = (D / 8 + WARPS - 1) / WARPS * (ROWS / 8), MOST = WARPS == 8 ? 8 : 2;  // of a warp
    float2 O[(PIECES + MOST - 1) / MOST * (MOST - 1)][WARPS][32];
    float m[MOST][ROWS], l[MOST][ROWS];
};
template <int ROWS, int D, int WARPS, int STAGES> struct block_tiles {
    warp_room<ROWS, D, STAGES> warps[WARPS];
    union {
        queries_room<ROWS, D> Q_smem;  // until the cluster has arrived
        cluster_room<ROWS, D, WARPS> sent;
    };
    TILE_FN block_tiles() {}
};

// The warps have seen other keys. Each adds up in `sum`, in their order, what all have of every WARPS-th block of eight
// columns. The blocks of a cluster own these pieces by turns, and send each other what they have of them. An owner
// calls put(row, block of columns, this lane's two numbers, by what to multiply them) for O. m and l become those of
// all keys. Of what O_reg counts in, `unit` make one.
template <int ROWS, int D, int WARPS, int STAGES, int MINE, class Put> TILE_FN void merge_and_put(
    float (&sum)[ROWS / 16][MINE][4], row_vec<ROWS> &m, row_vec<ROWS> &l, reg_tile<ROWS, D> &O_reg,
    block_tiles<ROWS, D, WARPS, STAGES> &tiles, int rows, float unit, Put put)
{
    auto &warps = tiles.warps;
    auto &room = warps[warp_id()];
    __syncwarp();  // no lane reads keys any more
    each(O_reg, [&](float &x, element e) {
        room.seen.O[e.row_slot / 2][e.col_slot / 2][e.row_slot % 2 * 2 + e.col_slot % 2][lane_id()] = x;
    });
    for (int i = 0; i < ROWS / 8; i++) room.seen.m[i][lane_id()] = m.x[i], room.seen.l[i][lane_id()] = l.x[i];
    const int blocks = gridDim.y, rank = blockIdx.y, bits = __ffs(blocks) - 1;
    if (blocks > 1) cluster_arrives();
    __syncthreads();  // all have written theirs
    for (int w = 0; w < WARPS; w++)
        for (int i = 0; i < ROWS / 8; i++) m.x[i] = fmaxf(m.x[i], warps[w].seen.m[i][lane_id()]);
    l = {};
    for (int w = 0; w < WARPS; w++) {
        const auto &seen = warps[w].seen;
        TILE_UNROLL
        for (int i = 0; i < ROWS / 8; i++) {
            const float alpha = exp2f(seen.m[i][lane_id()] - m.x[i]);
            l.x[i] += alpha * seen.l[i][lane_id()];
            TILE_UNROLL
            for (int n = 0; n < MINE; n++)
                for (int j = 0; j < 2; j++) {
                    const int c = warp_id() + n * WARPS;
                    if (c < D / 8) sum[i / 2][n][i % 2 * 2 + j] += alpha * seen.O[i / 2][c][i % 2 * 2 + j][lane_id()];
                }
        }
    }
    const auto piece = [](int i, int n) { return n * ROWS / 8 + i; };
    const auto owner = [&](int i, int n) { return piece(i, n) & (blocks - 1); };
    const auto is_mine = [&](int i, int n) { return warp_id() + n * WARPS < D / 8 && owner(i, n) == rank; };
    if (blocks > 1) {
        auto &sent = tiles.sent;
        const auto sent_by = [&](int b, int i, int n) -> float2 & {  // another block than the owner
            const int place = (piece(i, n) >> bits) * (blocks - 1) + (b ^ owner(i, n)) - 1;
            return sent.O[place][warp_id()][lane_id()];
        };
        cluster_waits();  // nobody reads queries any more
        auto &to = in_block(sent, warp_id() & (blocks - 1));
        TILE_UNROLL
        for (int i = 0; i < ROWS / 8; i++) {
            const int r = 8 * i + lane_id() / 4;
            if (warp_id() < blocks && lane_id() % 4 == 0) to.m[rank][r] = m.x[i], to.l[rank][r] = l.x[i];
            TILE_UNROLL
            for (int n = 0; n < MINE; n++)
                if (warp_id() + n * WARPS < D / 8 && owner(i, n) != rank)
                    in_block(sent_by(rank, i, n), owner(i, n)) =
                        make_float2(sum[i / 2][n][i % 2 * 2], sum[i / 2][n][i % 2 * 2 + 1]);
        }
        cluster_arrives(), cluster_waits();  // all have sent
        const row_vec<ROWS> own = m;
        TILE_ROLLED
        for (int b = 0; b < blocks; b++)
            for (int i = 0; i < ROWS / 8; i++) m.x[i] = fmaxf(m.x[i], sent.m[b][8 * i + lane_id() / 4]);
        l = {};
        for (int i = 0; i < ROWS / 8; i++)
            for (int n = 0; n < MINE; n++)
                for (int j = 0; j < 2; j++) sum[i / 2][n][i % 2 * 2 + j] *= exp2f(own.x[i] - m.x[i]);
        TILE_ROLLED
        for (int b = 0; b < blocks; b++) {
            TILE_UNROLL
            for (int i = 0; i < ROWS / 8; i++) {
                const float alpha = exp2f(sent.m[b][8 * i + lane_id() / 4] - m.x[i]);
                l.x[i] += alpha * sent.l[b][8 * i + lane_id() / 4];
                TILE_UNROLL
                for (int n = 0; n < MINE; n++) {
                    if (b == rank || !is_mine(i, n)) continue;
                    const float2 theirs = sent_by(b, i, n);
                    sum[i / 2][n][i % 2 * 2] += alpha * theirs.x, sum[i / 2][n][i % 2 * 2 + 1] += alpha * theirs.y;
                }
            }
        }
    }
    // A row that has seen nothing has l = 0, and gets O = 0 and L = -infinity.
    TILE_UNROLL
    for (int i = 0; i < ROWS / 8; i++) {
        const int r = 8 * i + lane_id() / 4;
        if (r >= rows) continue;
        const float by = l.x[i] > 0 ? unit / l.x[i] : 0;
        TILE_UNROLL
        for (int n = 0; n < MINE; n++)
            if (is_mine(i, n)) put(r, warp_id() + n * WARPS, &sum[i / 2][n][i % 2 * 2], by);
    }
}

// How many blocks, a cluster, share the keys of a head of a sequence: as many as all run at a time, and find `least`
// keys or more each (150 shapes on an H200, clusters of up to four and eight, 192 and 384 keys, in turns, 2026-12-01).
// With short rows, or blocks of four warps, fewer do not pay. 0: there are too many keys.
static int cluster_of(double heads, const decode_shape *shape, int processors)
{
    const double keys = (double)shape->max_pages * shape->page_size;
    const double least = shape->head_dim < 64 || 2 * heads > processors ? 384 : 192;
    int cluster = 1;
    while (cluster < 8 && keys >= 2 * least * cluster && heads * cluster * (cluster > 1 ? 2 : 1) <= processors - 20)
        cluster *= 2;
    return keys > (cluster > 1 ? 1400 * cluster : 2048) ? 0 : cluster;
}

// Calls f with rows, D, warps, stages, and the blocks, a cluster in y, the sequences in z: of four warps where they are
// more than multiprocessors, which take up to four (D 64), else of eight. False where neither suits.
template <int D, int STAGES, class F> static bool with_one_block(const decode_shape *shape, F f)
{
    int device, processors;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return false;
    const bool few_rows = packed_rows(*shape) <= 16;
    const long long blocks = (long long)shape->batch * (few_rows ? members<16>(*shape) : members<32>(*shape));
    const int cluster = cluster_of(blocks, shape, processors);
    if (!cluster || blocks > INT_MAX || shape->batch > 65535 || !fits<block_tiles<32, D, 8, STAGES>>()) return false;
    const dim3 grid((int)(blocks / shape->batch), cluster, shape->batch);  // a block divides nothing to know its own
    if (blocks * cluster > processors)
        return few_rows ? f(sizes<16, D, 4, STAGES>(), grid) : f(sizes<32, D, 4, STAGES>(), grid);
    return few_rows ? f(sizes<16, D, 8, STAGES>(), grid) : f(sizes<32, D, 8, STAGES>(), grid);
}
template <class F> static bool with_one_block(const decode_shape *shape, F f)
{
    switch (shape->head_dim) {
    case 16: return with_one_block<16, 3>(shape, f);
    case 32: return with_one_block<32, 3>(shape, f);
    case 64: return with_one_block<64, 3>(shape, f);
    default: return with_one_block<128, 3>(shape, f);
    }
}

// A block walks over all keys of a head of a sequence, or its share of them, so many a step in each of eight warps or,
// where blocks are many, four; a number of K or V has so many bytes. `more`: microseconds for a cluster to merge.
static double one_block_microseconds(const decode_shape *shape, const wb_device *device, int keys_of_warp, double bytes)
{
    const wb_costs *c = device->costs;
    const double keys = (double)shape->max_pages * shape->page_size, heads = shape->batch * wb_members(shape);
    const int cluster = device->capability == 9 ? cluster_of(heads, shape, device->processors) : 0;
    if (!cluster) return INFINITY;
    const bool many = heads * cluster > device->processors;
    const double length = ceil(keys / (keys_of_warp * (many ? 4 : 8) * cluster));
    const wb_walks w = {heads * cluster, length, length, length, many ? 2 : 1, 0};
    return c->launch + (cluster > 1 ? c->more : 0) +
           wb_both(wb_walking(&w, c, device), c->megabyte * 2e-6 * bytes * heads * keys * shape->head_dim);
}
