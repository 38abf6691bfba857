// paged.cuh - the words of problem 13 beside those of tile.cuh: rows of a paged cache, and all keys of all sequences as one row of tiles,
// which blocks share.
#pragma once
#include "tile.cuh"

// ------------------------------------------------------------------------------------------------------------------ a cache

// load_async by one warp, from rows that lie `stride` elements apart; rows <= 0: all become zeros, and src may be anywhere. The warp may read
// the tile after loads_issued(), loads_arrived<...>() and __syncwarp().
template <int Rows, int Cols>
TILE_FN void load_rows_async(smem_tile<Rows, Cols> &tile, const bf16 *src, size_t stride, int rows)
{
    constexpr int step = 32 * 8 / Cols;  // rows that the warp copies at a time, 16 bytes a lane
    static_assert(step >= 1 && Rows % step == 0, "a warp copies whole rows, and as many each time");
    const int row0 = lane_id() / (Cols / 8), col0 = lane_id() % (Cols / 8) * 8;
    src += row0 * stride + col0;
    if (rows >= Rows) {  // a whole tile: an addition a copy
        TILE_UNROLL
        for (int r = 0; r < Rows; r += step, src += step * stride)
            __pipeline_memcpy_async(&tile.at[row0 + r][col0], src, 16);
    } else {
        for (int r = 0; r < Rows; r += step, src += step * stride)
            __pipeline_memcpy_async(&tile.at[row0 + r][col0], src, 16, row0 + r < rows ? 0 : 16);
    }
}

// What a kernel of a paged cache relies on and no host has looked at: that `page`, which the table has for key `key` of a sequence, is one
// of `pages`; that a sequence has from 0 to `most` keys. The CPU layer ends with a sentence if not; a GPU does not ask.
#ifndef __CUDACPU__
TILE_FN void expect_page(int page, int pages, int sequence, int key) {}
TILE_FN void expect_keys(int keys, int most, int sequence) {}
#endif

// ------------------------------------------------------------------------------------------------------- tiles in a row

// A job is a tile of packed rows of one key head of one sequence, against all keys of that sequence, BC of them at a time. The tiles of keys
// of all jobs are numbered: sequence by sequence, job by job, from the first key to the last.
struct place {
    int b, head, row_tile;  // a job: of which sequence, which key head, which of its tiles of packed rows
    int t, keys;            // which tile of the sequence's keys, and how many of those there are
};

template <int Rows, int BC> struct tile_row {
    const int *kv_len;
    int batch, most;  // keys that a sequence may have
    int heads,
        packed;  // packed rows of a key head: its query heads' tokens, one after the other, as they lie in Q and O
    int row_tiles, jobs;  // tiles of these; jobs of a sequence

    TILE_FN tile_row(const int *kv_len, const decode_shape &s)
        : kv_len(kv_len), batch(s.batch), most(s.max_pages * s.page_size), heads(s.kv_heads),
          packed(s.q_heads / s.kv_heads * s.q_len), row_tiles((packed - 1) / Rows + 1), jobs(heads * row_tiles)
    {
    }
    // A job's first packed row, counted through all heads of all sequences.
    TILE_FN size_t row(const place &p) const { return ((size_t)p.b * heads + p.head) * packed + p.row_tile * Rows; }

    TILE_FN int keys_of(int b) const
    {
        expect_keys(kv_len[b], most, b);
        return kv_len[b];
    }
    // A sequence without keys has one tile, of which nothing is seen: so its O and L are written like all others. ((0 - 1) / BC is 0.)
    TILE_FN int tiles_of(int keys) const { return (keys - 1) / BC + 1; }

    TILE_FN long long total() const  // by all 32 lanes of a warp, as find()
    {
        long long sum = 0;
        for (int b = lane_id(); b < batch; b += 32) sum += (long long)jobs * tiles_of(keys_of(b));
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        return sum;
    }
    // Where tile n is. Looks at 32 sequences at a time, one a lane.
    TILE_FN place find(long long n) const
    {
        for (int b0 = 0;; b0 += 32) {
            const int keys = b0 + lane_id() < batch ? keys_of(b0 + lane_id()) : 0;
            const long long mine = b0 + lane_id() < batch ? (long long)jobs * tiles_of(keys) : 0;
            long long end = mine;  // of this lane's tiles, after b0's first
            for (int d = 1; d < 32; d *= 2) {
                const long long before = __shfl_up_sync(0xffffffffu, end, d);
                if (lane_id() >= d) end += before;
            }
            const unsigned behind = __ballot_sync(0xffffffffu, end > n);  // lanes whose tiles end behind tile n
            if (behind) {
                const int lane = __ffs((int)behind) - 1;
                const int k = __shfl_sync(0xffffffffu, keys, lane);
                n -= __shfl_sync(0xffffffffu, end - mine, lane);
                const int job = (int)(n / tiles_of(k));
                return {b0 + lane, job / row_tiles, job % row_tiles, (int)(n % tiles_of(k)), k};
            }
            n -= __shfl_sync(0xffffffffu, end, 31);
        }
    }
    TILE_FN void step(place &p) const
    {
        if (++p.t < tiles_of(p.keys)) return;
        p.t = 0;
        if (++p.row_tile < row_tiles) return;
        p.row_tile = 0;
        if (++p.head < heads) return;
        p.head = 0;
        if (++p.b < batch) p.keys = keys_of(p.b);
    }
};

// ------------------------------------------------------------------------------------------------------- warps that merge

// Where the warps of a block meet: each warp's m; and a sum of its lanes' elements of O and l, lane by lane.
template <int Warps, int Rows> struct row_room {
    float at[Warps][Rows / 8][32];
};
template <int Rows, int Cols> struct sum_room {
    float at[Rows * Cols / 32 + Rows / 8][32];
};

// Each warp has seen other keys: their O and l become one, under one maximum, in the registers of the last warp. Added in a fixed order. All
// threads of the block call. `sums` is written when all of them have called, and both rooms are free again when they return.
template <int Warps, int Rows, int Cols> TILE_FN void merge_warps(row_room<Warps, Rows> &maxima,
                                                                  sum_room<Rows, Cols> &sums, reg_tile<Rows, Cols> &O,
                                                                  row_vec<Rows> &m, row_vec<Rows> &l)
{
    for (int i = 0; i < Rows / 8; i++) maxima.at[warp_id()][i][lane_id()] = m.x[i];
    __syncthreads();  // each warp's m is there, and all have called
    row_vec<Rows> m_all = m;
    for (int w = 0; w < Warps; w++)
        for (int i = 0; i < Rows / 8; i++) m_all.x[i] = fmaxf(m_all.x[i], maxima.at[w][i][lane_id()]);
    const row_vec<Rows> alpha = exp2(m - m_all);
    m = m_all;
    l = l * alpha;
    scale_rows(O, alpha);
    for (int w = 0; w < Warps; w++) {
        if (warp_id() == w) {
            int n = 0;
            const auto add = [&](float &x) {
                float &sum = sums.at[n++][lane_id()];
                sum = x = w > 0 ? sum + x : x;
            };
            each(O, [&](float &x, element) { add(x); });
            for (int i = 0; i < Rows / 8; i++) add(l.x[i]);
        }
        __syncthreads();  // this warp's part is in the sum
    }
}

// --------------------------------------------------------------------------------------------------------------- the host

// How many blocks of this kernel the device runs at a time; 0 if it does not say. Asks for their shared memory on the way.
template <class Kernel> static int blocks_at_a_time(Kernel *kernel, int threads, size_t bytes)
{
    int device, multiprocessors, together;
    const bool told =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, kernel, threads, bytes) == cudaSuccess;
    return told ? multiprocessors * together : 0;
}
