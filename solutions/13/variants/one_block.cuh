// one_block.cuh - what 13's and 14's one_block.cu share: how a block's warps merge what they have seen, and for which
// shapes. It wants before it the key, and queries_room, where a block has its queries.
#pragma once

constexpr int MOST_KEYS = 2048;  // that a sequence may have here: max_pages pages of them

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
// columns, and calls put(row, block, this lane's two numbers, by what to divide them) for its part of O. m and l become
// those of all keys. Of what O_reg counts in, `unit` make one.
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
    // A row that has seen nothing has l = 0, and gets O = 0 and L = -infinity.
    TILE_UNROLL
    for (int i = 0; i < ROWS / 8; i++) {
        const int r = 8 * i + lane_id() / 4;
        if (r >= rows) continue;
        const float divisor = l.x[i] > 0 ? l.x[i] / unit : 1;
        TILE_UNROLL
        for (int n = 0; n < MINE; n++) {
            const int c = warp_id() + n * WARPS;
            const float *pair = &sum[i / 2][n][i % 2 * 2];
            if (c < D / 8) put(r, c, pair, divisor);
        }
    }
}

// Calls f with rows, D, warps, stages and how many blocks. Two blocks of four warps share a multiprocessor where there
// are more of them than it takes for one of eight each. False where neither suits.
template <int D, int STAGES, class F> static bool with_one_block(const decode_shape *shape, F f)
{
    int device, processors;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return false;
    const bool few_rows = packed_rows(*shape) <= 16;
    const long long blocks = (long long)shape->batch * (few_rows ? members<16>(*shape) : members<32>(*shape));
    const long long keys = (long long)shape->max_pages * shape->page_size;
    if (keys > MOST_KEYS || blocks > INT_MAX || !fits<block_tiles<32, D, 8, STAGES>>()) return false;
    if (blocks > processors)
        return few_rows ? f(sizes<16, D, 4, STAGES>(), (int)blocks) : f(sizes<32, D, 4, STAGES>(), (int)blocks);
    return few_rows ? f(sizes<16, D, 8, STAGES>(), (int)blocks) : f(sizes<32, D, 8, STAGES>(), (int)blocks);
}
template <class F> static bool with_one_block(const decode_shape *shape, F f)
{
    switch (shape->head_dim) {
    case 16: return with_one_block<16, 4>(shape, f);
    case 32: return with_one_block<32, 4>(shape, f);
    case 64: return with_one_block<64, 4>(shape, f);
    default: return with_one_block<128, 3>(shape, f);
    }
}
