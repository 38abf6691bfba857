// one_block.cuh - what 13's and 14's one_block.cu share: how a block's warps and a cluster's blocks merge what they
// have seen, and for which shapes. It wants before it the key, and queries_room, where a block has its queries.
#pragma once

// A cluster is up to four blocks, side by side in y, that read each other's shared memory (CUDA C++ Programming Guide).
// All their threads meet; `mine`, in shared memory, as block `rank` has it. The CPU layer has clusters of one block.
#ifdef __CUDACPU__
TILE_FN void cluster_meets() {}
template <class T> TILE_FN const T &in_block(const T &mine, int) { return mine; }
#else
TILE_FN void cluster_meets()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
template <class T> TILE_FN const T &in_block(const T &mine, int rank)
{
    const T *there = &mine;
#if __CUDA_ARCH__ >= 900
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&mine), "r"(rank));
#endif
    return *there;
}
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
template <int ROWS, int D, int WARPS, int STAGES> struct block_tiles {
    warp_room<ROWS, D, STAGES> warps[WARPS];
    queries_room<ROWS, D> Q_smem;
};

// The warps have seen other keys. Each adds up in `sum`, in their order, what all have of every WARPS-th block of eight
// columns; then those of all blocks of the cluster, in their order, what all have of it. By turns the blocks call
// put(row, block of columns, this lane's two numbers, by what to multiply them) for O. m and l become those of all
// keys. Of what O_reg counts in, `unit` make one.
template <int ROWS, int D, int WARPS, int STAGES, int MINE, class Put> TILE_FN void merge_and_put(
    float (&sum)[ROWS / 16][MINE][4], row_vec<ROWS> &m, row_vec<ROWS> &l, reg_tile<ROWS, D> &O_reg,
    warp_room<ROWS, D, STAGES> &room, const warp_room<ROWS, D, STAGES> (&warps)[WARPS], int rows, float unit, Put put)
{
    __syncwarp();  // no lane reads keys any more
    each(O_reg, [&](float &x, element e) {
        room.seen.O[e.row_slot / 2][e.col_slot / 2][e.row_slot % 2 * 2 + e.col_slot % 2][lane_id()] = x;
    });
    for (int i = 0; i < ROWS / 8; i++) room.seen.m[i][lane_id()] = m.x[i], room.seen.l[i][lane_id()] = l.x[i];
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
    const int blocks = gridDim.y;
    const auto is_mine = [&](int i, int n) {
        return warp_id() + n * WARPS < D / 8 && (n * ROWS / 8 + i) % blocks == (int)blockIdx.y;
    };
    if (blocks > 1) {
        __syncthreads();  // no warp reads what the others have seen any more
        for (int i = 0; i < ROWS / 8; i++) {
            room.seen.m[i][lane_id()] = m.x[i], room.seen.l[i][lane_id()] = l.x[i];
            for (int n = 0; n < MINE; n++)
                for (int j = 0; j < 2; j++)
                    room.seen.O[i / 2][n][i % 2 * 2 + j][lane_id()] = sum[i / 2][n][i % 2 * 2 + j];
        }
        cluster_meets();  // all have done so
        TILE_ROLLED
        for (int b = 0; b < blocks; b++)
            for (int i = 0; i < ROWS / 8; i++) m.x[i] = fmaxf(m.x[i], in_block(room, b).seen.m[i][lane_id()]);
        l = {};
        TILE_ROLLED
        for (int b = 0; b < blocks; b++) {
            const auto &seen = in_block(room, b).seen;
            TILE_UNROLL
            for (int i = 0; i < ROWS / 8; i++) {
                const float alpha = exp2f(seen.m[i][lane_id()] - m.x[i]);
                l.x[i] += alpha * seen.l[i][lane_id()];
                TILE_UNROLL
                for (int n = 0; n < MINE; n++)
                    for (int j = 0; j < 2 && is_mine(i, n); j++) {
                        float &x = sum[i / 2][n][i % 2 * 2 + j];
                        x = (b > 0 ? x : 0) + alpha * seen.O[i / 2][n][i % 2 * 2 + j][lane_id()];
                    }
            }
        }
        cluster_meets();  // nobody reads here any more: the block may end
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

// How many blocks, a cluster, share the keys of a head of a sequence: as many as all run at a time (793 shapes on an
// H200: with more, clusters of four wait for each other), and find 384 keys or more each. 0: there are too many keys.
static int cluster_of(double heads, double keys, int processors)
{
    int cluster = 1;
    while (cluster < 4 && keys >= 768 * cluster && heads * cluster * cluster <= processors - 20) cluster *= 2;
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
    const int cluster = cluster_of(blocks, (double)shape->max_pages * shape->page_size, processors);
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
    const int cluster = device->capability == 9 ? cluster_of(heads, keys, device->processors) : 0;
    if (!cluster) return INFINITY;
    const bool many = heads * cluster > device->processors;
    const double length = ceil(keys / (keys_of_warp * (many ? 4 : 8) * cluster));
    const wb_walks w = {heads * cluster, length, length, length, many ? 2 : 1, 0};
    return c->launch + (cluster > 1 ? c->more : 0) +
           wb_both(wb_walking(&w, c, device), c->megabyte * 2e-6 * bytes * heads * keys * shape->head_dim);
}
