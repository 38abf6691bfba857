// SPDX-License-Identifier: MIT
// paged.cuh - the words of problem 13 beside those of tile.cuh: rows of a paged cache, the keys of all sequences as one
// row of tiles, which teams of blocks share, and the parts of a sequence that was cut.
#pragma once
#include "early.cuh"
#include "tile.cuh"

#include <type_traits>

#define TILE_BOTH __host__ __device__ inline
#ifdef __CUDACC__
#define TILE_ROLLED _Pragma("unroll 1")  // a loop that stays one: its instructions have to be fetched, too
#else
#define TILE_ROLLED
#endif

// ------------------------ a cache

// Rows of a cache in shared memory, in chunks of 16 bytes. With room at their ends, as in a smem_tile, every other row
// would begin in the middle of a sector of 32 bytes, and its copies would ask for each sector twice. Chunks change
// places instead, so that one chunk of eight rows lies in eight groups of banks.
template <class Element, int Rows, int Cols> struct alignas(128) cache_tile {
    static constexpr int elements = 16 / (int)sizeof(Element), chunks = Cols / elements;  // of a chunk; of a row
    static constexpr int turns = chunks < 8 ? chunks : 8;
    uint4 at[Rows][chunks];
    TILE_FN uint4 *chunk(int row, int n) { return &at[row][n ^ row * turns / 8 % turns]; }
    TILE_FN const uint4 *chunk(int row, int n) const { return &at[row][n ^ row * turns / 8 % turns]; }
};

// __pipeline_memcpy_async of 16 bytes that nobody wants again: L2 gives them up before parts, which are read again. It
// fetches the 128 bytes around them, which other heads' blocks want at about this time where a row has fewer.
TILE_FN void copy_once_async(void *to, const void *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "l"(policy)
                 : "memory");
#else
    __pipeline_memcpy_async(to, from, 16);
#endif
}

// A warp loads a tile, 512 / Rows lanes 16 rows of it: these lie in one page, `stride` elements apart, from src on,
// which such lanes have in common. `rows` of them exist; the others become zeros, and with rows <= 0 src may be
// anywhere. The warp may read the tile after loads_issued(), loads_arrived<...>() and __syncwarp().
template <class Element, int Rows, int Cols>
TILE_FN void load_rows_async(cache_tile<Element, Rows, Cols> &tile, const Element *src, unsigned stride, int rows)
{
    constexpr int lanes = 512 / Rows, chunks = cache_tile<Element, Rows, Cols>::chunks,
                  step = lanes / chunks;  // rows that these copy at a time
    static_assert(step >= 1 && 16 % step == 0, "a warp must copy whole rows, the same number in each step");
    const int lane = lane_id() % lanes, row0 = lane_id() / lanes * 16 + lane / chunks, n = lane % chunks;
    src += (size_t)(lane / chunks) * stride + n * tile.elements;
    if (rows >= 16) {
        TILE_UNROLL
        for (int r = 0; r < 16; r += step) copy_once_async(tile.chunk(row0 + r, n), src + (size_t)r * stride);
    } else {
        TILE_ROLLED
        for (int r = 0; r < 16; r += step)
            __pipeline_memcpy_async(tile.chunk(row0 + r, n), src + (size_t)r * stride, 16,
                                    lane / chunks + r < rows ? 0 : 16);
    }
}

namespace tile_machine
{
template <block_order order, bool transposed, int Rows, int Cols>
TILE_FN void load_16x16(uint32_t f[4], const cache_tile<bf16, Rows, Cols> &tile, int row0, int col0)
{
    const auto at = [&](int row, int col) {
        return reinterpret_cast<const bf16 *>(tile.chunk(row, col / 8)) + col % 8;
    };
    load_16x16_by<order, transposed>(f, at, row0, col0);
}
}  // namespace tile_machine

// The two products of tile.cuh with rows of a cache as the right factor.
template <int Rows, int Cols, int Depth>
TILE_FN void mma_ABt(reg_tile<Rows, Cols> &c, const operand<Rows, Depth> &a, const cache_tile<bf16, Cols, Depth> &b)
{
    using namespace tile_machine;
    multiply<Depth>(
        c, [&](uint32_t(*f)[4], int k) { a.columns(f, k); },
        [&](uint32_t *f, int k, int n) { load_16x16<across, false>(f, b, 16 * n, 16 * k); });
}
template <int Rows, int Cols, int Depth>
TILE_FN void mma_AB(reg_tile<Rows, Cols> &c, const reg_tile<Rows, Depth> &a, const cache_tile<bf16, Depth, Cols> &b)
{
    using namespace tile_machine;
    multiply<Depth>(
        c, [&](uint32_t(*f)[4], int k) { left_columns(f, a, k); },
        [&](uint32_t *f, int k, int n) { load_16x16<down, true>(f, b, 16 * k, 16 * n); });
}

// The first `rows` rows of src, [rows, Cols] in global memory, as a left factor; the others become zeros. All `Threads`
// threads of the block call, when nobody uses the room. What they have sent for before has then arrived, too.
template <int Threads, int Rows, int Cols>
TILE_FN void load(operand<Rows, Cols> &a, smem_tile<Rows, Cols> &room, const bf16 *src, int rows)
{
    load_async<Threads>(room, src, rows);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // every thread's part has arrived
    load(a, room, 0);
}

// What no host has looked at: the page of a key is one of `pages`; a sequence has from 0 to `most` keys; a tile is
// sought in one of the sequences. The CPU layer ends with a sentence if not; a GPU does not ask.
#ifndef __CUDACPU__
TILE_FN void expect_page(int page, int pages, int sequence, int key) {}
TILE_FN void expect_keys(int keys, int most, int sequence) {}
TILE_FN void expect_tile(int sequence, int sequences) {}
#endif

// ------------------------ who am I

// The packed rows of a key head are its query heads' tokens, as they lie in Q and O. A team has a block for each key
// head and each tile of its packed rows, the members, which take the same keys of the same sequences. Neighbouring
// heads lie side by side in memory, so the blocks are numbered team by team.
TILE_BOTH int packed_rows(const decode_shape &s) { return s.q_heads / s.kv_heads * s.q_len; }
template <int Rows> TILE_BOTH int row_tiles(const decode_shape &s) { return (packed_rows(s) - 1) / Rows + 1; }
template <int Rows> TILE_BOTH int members(const decode_shape &s) { return s.kv_heads * row_tiles<Rows>(s); }

// The blocks to launch, of the `most` that run at a time: a team's in x, the teams in y, so that a block divides
// nothing to know its own; at least one team. As many as sequences, or a multiple or a divisor of that, cut none of
// them, or all alike, if they are of one length: taken where it costs one team in sixteen at most.
template <int Rows> static dim3 teams_of(const decode_shape &s, int most)
{
    const int team = members<Rows>(s), all = most / team > 1 ? most / team : 1;
    for (int teams = all; teams >= all - all / 16; teams--)
        if (teams % s.batch == 0 || s.batch % teams == 0) return dim3(team, teams);
    return dim3(team, all);
}

template <int Rows> struct member {
    int team, teams, block;     // whose block this is, and of how many; its number of all
    int head, first_row, rows;  // its key head, the first of its packed rows, and how many there are from there on
    size_t heads, packed;

    TILE_FN member(const decode_shape &s) : member(s, blockIdx.y, gridDim.y, blockIdx.x) {}
    TILE_FN member(const decode_shape &s, int of, int of_all, int n)  // the n-th of a team
        : team(of), teams(of_all), block(of * (int)gridDim.x + n), head(n / row_tiles<Rows>(s)),
          first_row(n % row_tiles<Rows>(s) * Rows), rows(packed_rows(s) - first_row), heads(s.kv_heads),
          packed(packed_rows(s))
    {
    }
    TILE_FN size_t row(int b) const { return (b * heads + head) * packed + first_row; }  // first_row, of sequence b
};

// ------------------------ tiles in a row

// The keys of a sequence are cut into tiles of BC. The tiles of all sequences stand in a row, sequence by sequence, key
// by key, and behind those before it each sequence has some empty places more: for its queries, which have to be
// loaded, and its O, which is stored. Teams share the places.
struct place {
    int b, t, end,
        keys;  // of which sequence, which of its tiles, behind the last of the team's, and how many keys it has
    int left;  // places of the share behind these tiles
    TILE_FN bool is_mine() const { return t < end; }
};

// x of this lane and of those before it, added up. All lanes of a warp call.
TILE_FN int sum_up_to_lane(int x)
{
    for (int d = 1; d < 32; d *= 2) {
        const int before = __shfl_up_sync(0xffffffffu, x, d);
        if (lane_id() >= d) x += before;
    }
    return x;
}

// The first place of team k's share, when `teams` teams share `total` places as evenly as can be. Problem 13 makes it.
TILE_FN long long first_of(long long total, int k, int teams);

template <int BC> struct tile_row {
    const int *kv_len;
    int batch, most;           // keys that a sequence may have
    int empty = 0, teams = 0;  // places before a sequence's tiles; teams that share
    long long total = 0;       // places
    // Of the first 32 sequences this lane's: its keys, which are on their way before who am I is known; and the tiles
    // up to its last.
    int its_keys, its_end = 0;

    TILE_FN tile_row(const int *lengths, const decode_shape &s)
        : kv_len(lengths), batch(s.batch), most(s.max_pages * s.page_size), its_keys(keys_of_lane(0))
    {
    }
    // Of sequence b0 + lane; 0 where there is none.
    TILE_FN int keys_of_lane(int b0) const { return b0 + lane_id() < batch ? keys_of(b0 + lane_id()) : 0; }
    TILE_FN int keys_of(int b) const
    {
        expect_keys(kv_len[b], most, b);
        return kv_len[b];
    }
    // A sequence without keys has one tile, of which nothing is seen: so its O and L are written. ((0 - 1) / BC is 0.)
    TILE_FN int tiles_of(int keys) const { return (keys - 1) / BC + 1; }

    // All 32 lanes of a warp call this, and what follows. No team of at most so many has less than a place. Where
    // lengths differ, some teams have more sequences than others, and each takes as long as 256 keys more; fewer count
    // where shares are short. So many teams as are `enough` take as long as all: where the longest sequence is done as
    // soon, with the merge, which takes as long as 448 keys, no team shares (teams = 0): each sequence has one.
    TILE_FN void share(int most_teams, float enough = INFINITY)
    {
        int longest = lane_id() < batch ? tiles_of(its_keys) : 0;
        its_end = sum_up_to_lane(longest), total = __shfl_sync(0xffffffffu, its_end, 31);
        TILE_ROLLED
        for (int b0 = 32; b0 < batch; b0 += 32) {
            const int tiles = b0 + lane_id() < batch ? tiles_of(keys_of_lane(b0)) : 0;
            total += __shfl_sync(0xffffffffu, sum_up_to_lane(tiles), 31), longest = max(longest, tiles);
        }
        if (enough < INFINITY && batch <= most_teams && !__any_sync(0xffffffffu, (longest - 448 / BC) * enough > total))
            return;
        const long long few = 256ll / BC * most_teams;
        if (total >= few && __any_sync(0xffffffffu, longest > 0 && (long long)longest * batch != total))
            empty = total >= 2 * few ? 256 / BC : 128 / BC;
        total += (long long)empty * batch;
        teams = (int)min((long long)most_teams, total);
    }
    // What is in place n of all, or the first tile behind it. The share ends before place `to`. Looks at 32 sequences
    // at a time, one a lane.
    TILE_FN place find(long long n, long long to) const
    {
        const int share = (int)(to - n);
        int keys = its_keys;
        int end = its_end + empty * min(lane_id() + 1, batch);  // of a lane's places, from b0's first on
        for (int b0 = 0;;) {
            expect_tile(b0, batch);
            const unsigned behind = __ballot_sync(0xffffffffu, end > n);  // lanes whose places end behind place n
            if (behind) {
                const int lane = __ffs((int)behind) - 1;
                const int t = (int)n - __shfl_sync(0xffffffffu, end - tiles_of(keys), lane);
                place p = {b0 + lane, max(t, 0), 0, __shfl_sync(0xffffffffu, keys, lane), share - max(-t, 0)};
                take(p);
                return p;
            }
            n -= __shfl_sync(0xffffffffu, end, 31);
            b0 += 32;
            keys = keys_of_lane(b0);
            end = sum_up_to_lane(b0 + lane_id() < batch ? empty + tiles_of(keys) : 0);
        }
    }
    // Of those that are left the tiles of this sequence.
    TILE_FN void take(place &p) const
    {
        p.end = min(tiles_of(p.keys), p.t + p.left);
        p.left -= p.end - p.t;
    }
    TILE_FN void step(place &p) const
    {
        if (++p.t < p.end) return;
        p.left -= empty;
        if (p.left <= 0 || ++p.b >= batch) return;
        p.t = 0, p.keys = keys_of(p.b);
        take(p);
    }
    TILE_FN bool ends(const place &p) const { return p.end == tiles_of(p.keys); }  // the team has the sequence's last
    // Team k's first tile; 0 is enough: each sequence has a team, and nobody looks at the others' lengths.
    TILE_FN place first_tile(int k, int most_teams, float enough = INFINITY)
    {
        if (enough > 0) share(most_teams, enough);
        if (enough == INFINITY || teams > 0) {
            if (k >= teams) return {};
            const long long at = first_of(total, k + lane_id() % 2, teams);
            return find(__shfl_sync(0xffffffffu, at, 0), __shfl_sync(0xffffffffu, at, 1));
        }
        if (k >= batch) return {};
        const int keys = keys_of(k);
        return {k, 0, tiles_of(keys), keys, 0};
    }
};

// ------------------------ warps merge

// Where the warps of a block meet: each warp's m; and eight rows of the O and l of the warps but the last.
template <int Warps, int Rows> struct row_room {
    float at[Warps][Rows];
};
template <int Cols> struct sum_room {
    float2 O[3][Cols / 8][32];
    float l[3][32];
};

// Each warp has seen other keys: their O and l become one, under one maximum, in the registers of the last warp, for as
// many rows as exist. Added in a fixed order. All threads of the block call. `sums` is written when all of them have
// called, and both rooms are free again when they return.
template <int Warps, int Rows, int Cols> TILE_FN void merge_warps(row_room<Warps, Rows> &maxima, sum_room<Cols> &sums,
                                                                  reg_tile<Rows, Cols> &O, row_vec<Rows> &m,
                                                                  row_vec<Rows> &l, int rows = Rows)
{
    static_assert(Warps <= 4, "the sums have room for three");
    for (int i = 0; i < Rows / 8 && lane_id() % 4 == 0; i++) maxima.at[warp_id()][8 * i + lane_id() / 4] = m.x[i];
    __syncthreads();  // each warp's m is there, and all have called
    row_vec<Rows> m_all = m;
    for (int w = 0; w < Warps; w++)
        for (int i = 0; i < Rows / 8; i++) m_all.x[i] = fmaxf(m_all.x[i], maxima.at[w][8 * i + lane_id() / 4]);
    const row_vec<Rows> alpha = exp2(m - m_all);
    m = m_all;
    l = l * alpha;
    scale_rows(O, alpha);
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) {
        if (8 * i >= rows) break;
        const auto pair = [&](int c) { return &O.x[i / 2][c][i % 2 * 2]; };  // this lane's two of eight columns
        if (warp_id() < Warps - 1) {
            TILE_UNROLL
            for (int c = 0; c < Cols / 8; c++) sums.O[warp_id()][c][lane_id()] = {pair(c)[0], pair(c)[1]};
            sums.l[warp_id()][lane_id()] = l.x[i];
        }
        __syncthreads();  // the other warps' parts are there
        for (int w = 0; w < Warps - 1 && warp_id() == Warps - 1; w++) {
            TILE_UNROLL
            for (int c = 0; c < Cols / 8; c++) {
                const float2 x = sums.O[w][c][lane_id()];
                pair(c)[0] += x.x, pair(c)[1] += x.y;
            }
            l.x[i] += sums.l[w][lane_id()];
        }
        __syncthreads();  // and have been read
    }
}

// ------------------------ shares and their parts

// What a block has of a sequence that its team did not do alone.
template <int Rows, int Cols> struct alignas(16) part {
    float O[Rows][Cols], L[Rows];
};

constexpr int at_once = 8;  // warps of a block of merge_kernel, and parts of a row that a lane has under way at most

// m, l and O of these parts of a row, too: their L, and a lane's columns of their O. Problem 13 makes it.
template <int count, int mine> TILE_FN void merge(float &m, float &l, float (&O_row)[mine],
                                                  const float (&L_part)[count], const float (&O_part)[count][mine]);

// Of a sequence that was cut team k is the n-th behind the one that has begun it, of `behind`; or k begins its own, and
// all are 0. All lanes of a warp call.
struct cut {
    int b, n, behind;
};
// A block's, for all of its warps; one for all kernels, since on the CPU layer each would have its own of each thread.
TILE_FN cut &cut_of_block()
{
    __shared__ cut found;
    return found;
}
template <int BC> TILE_FN cut cut_of(const tile_row<BC> &all, int k)
{
    const long long from = k > 0 && k < all.teams ? first_of(all.total, k, all.teams) : 0;
    const place p = from > 0 ? all.find(from, from) : place{};
    int n = 0, behind = 0;
    if (p.t > 0) {
        const long long begin = from - p.t, end = begin + all.tiles_of(p.keys);
        for (int more = 32; more == 32; n += more)  // a team a lane
            more =
                __popc(__ballot_sync(0xffffffffu, first_of(all.total, max(0, k - n - lane_id()), all.teams) > begin));
        behind = n;
        for (int more = 32; more == 32; behind += more)
            more = __popc(
                __ballot_sync(0xffffffffu, first_of(all.total, k - n + 1 + behind + lane_id(), all.teams) < end));
    }
    return {p.b, n, behind};
}

// The teams behind the one that has begun a sequence share the rows to merge. With more warps than rows a row has
// several: each has some of its columns, and so fewer lanes a part, and more parts under way.
template <int Rows, int Cols, int BC>
__global__ __launch_bounds__(32 * at_once) void merge_kernel(bf16 *O, float *L, const part<Rows, Cols> *parts,
                                                             const int *kv_len, decode_shape shape, float enough)
{
    cut &found = cut_of_block();
    const member<Rows> me(shape);
    if (warp_id() == 0) {  // while the parts are still being written; eight warps would take longer
        tile_row<BC> all(kv_len, shape);
        all.share(me.teams, enough);
        const cut mine = cut_of(all, me.team);
        if (lane_id() == 0) found = mine;
    }
    __syncthreads();
    const int n = found.n, behind = found.behind;
    const int rows = min(Rows, me.rows), most = behind * gridDim.z * at_once;  // warps
    int warps = 0;                                                             // of a row, as a power of two
    while (max(1, 128 / Cols) * at_once << warps <= behind && 4 << warps < Cols && 2 * rows << warps <= most) warps++;
    const int lanes = Cols / 4 >> warps, step = 32 / lanes;  // that have a part, four columns each; parts of a warp
    const auto *const its = parts + 2 * (me.block - n * (int)gridDim.x);
    before_is_done();
    TILE_ROLLED
    for (int i = ((n - 1) * gridDim.z + blockIdx.z) * at_once + warp_id(); i < rows << warps && behind > 0; i += most) {
        const int r = i >> warps, col = 4 * ((i - (r << warps)) * lanes + lane_id() % lanes);
        float m = -FLT_MAX, l = 0, O_row[4] = {};
        const auto take = [&](auto so_many, int part0) {
            constexpr int count = decltype(so_many)::value;
            float L_part[count], O_part[count][4];  // all under way before one is used
            TILE_UNROLL
            for (int j = 0; j < count; j++) {  // the second of the block that begins it, the first of those behind
                const int which = part0 + lane_id() / lanes + j * step;
                const auto &from = its[2 * which * gridDim.x + (which == 0)];
                L_part[j] = which <= behind ? from.L[r] : -INFINITY;
                const float4 x = which <= behind ? *reinterpret_cast<const float4 *>(&from.O[r][col]) : float4{};
                O_part[j][0] = x.x, O_part[j][1] = x.y, O_part[j][2] = x.z, O_part[j][3] = x.w;
            }
            if (part0 == 0 && L_part[0] > m) {  // the first is all that there is so far
                m = L_part[0], l = 1, L_part[0] = -INFINITY;
                for (int c = 0; c < 4; c++) O_row[c] = O_part[0][c];
            }
            merge(m, l, O_row, L_part, O_part);
        };
        if (behind < 2 * step) {  // no lane has more than two
            take(std::integral_constant<int, 2>(), 0);
        } else {
            TILE_ROLLED
            for (int part0 = 0; part0 <= behind; part0 += step * at_once)
                take(std::integral_constant<int, at_once>(), part0);
        }
        TILE_ROLLED
        for (int d = lanes; d < 32; d *= 2) {  // with the lanes that have other parts
            const float m_new = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d)), alpha = expf(m - m_new);
            m = m_new, l *= alpha, l += __shfl_xor_sync(0xffffffffu, l, d);
            for (float &x : O_row) x *= alpha, x += __shfl_xor_sync(0xffffffffu, x, d);
        }
        if (lane_id() >= lanes) continue;
        const size_t row = me.row(found.b) + r;
        const float by = l > 0 ? 1 / l : 0;
        auto *const to = reinterpret_cast<__nv_bfloat162 *>(O + row * Cols + col);
        to[0] = __floats2bfloat162_rn(O_row[0] * by, O_row[1] * by);
        to[1] = __floats2bfloat162_rn(O_row[2] * by, O_row[3] * by);
        if (col == 0) L[row] = m + logf(l);
    }
}

// ------------------------ the host

// How many blocks of this kernel the device runs at a time, at most so many a multiprocessor; 0 if it does not say.
// Asks for their shared memory, too.
template <class Kernel> static int blocks_at_a_time(Kernel *kernel, int threads, size_t bytes, int most = 32)
{
    int device, multiprocessors, together;
    const bool told =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, kernel, threads, bytes) == cudaSuccess;
    return told ? multiprocessors * (together < most ? together : most) : 0;
}
