// SPDX-License-Identifier: MIT
// tile.cuh - the few words in which a warp speaks about tiles. Problems from 03 on are written in them.
//
// Who holds what:
//   smem_tile<Rows, Cols>   bf16 in shared memory; belongs to the block
//   operand<Rows, Cols>     bf16, the left factor of a product; belongs to a warp
//   reg_tile<Rows, Cols>    float in registers, spread over the 32 lanes of a warp: scores S, weights P, outputs O
//   row_vec<Rows>           float, one value per row of a reg_tile, such as m and l; belongs to a warp
//   col_vec<Cols>           float, one value per column of a reg_tile; belongs to a warp
// What can be done:
//   load_async, loads_issued, loads_arrived   global memory -> smem_tile, while the warps go on computing
//   load, store                               smem_tile -> operand, global -> row_vec and col_vec; registers ->
//                                             global, smem_tile
//   mma_ABt, mma_AB                           C += A B^T, C += A B
//   each                                      f(x, e) for every element x of a reg_tile; e says where x is
//   row_max, row_sum, scale_rows, divide_rows, any_above, fill, rowwise, + - * max exp2 log2      the algebra of rows
// What the host can ask: fits<tiles>(), whether the device allows a block that much shared memory
//
// All 32 lanes of a warp call together (load_async: all threads of the block). Rows and Cols are multiples of 16.
// Blocks are one-dimensional. No name here is all capitals, so macros of yours, such as D or ROWS, do no harm.
//
// Reading order: types; rows; products; loads and stores; and last the only section that knows the machine: tensor
// cores from sm_80 on, shuffles and ordinary arithmetic before, one lane working for all 32 on the CPU.
#pragma once
#include "fragments.cuh"

// ------------------------ types

// Eight unused columns make each row 16 bytes longer. The tensor cores fetch a block of eight rows at a time, 16 bytes
// from each. Thanks to the extra bytes these lie in eight different groups of banks; without them they can all lie in
// one, and the fetch takes eight times as long.
template <int Rows, int Cols> struct alignas(16) smem_tile {
    static_assert(Rows % 16 == 0 && Cols % 16 == 0, "the sides of a tile are multiples of 16");
    bf16 at[Rows][Cols + 8];
};

// Where an element is: its row and column in the warp's tile; and which of this lane's rows and columns these are.
struct element {
    int row, col, row_slot, col_slot;
};

// A register tile is made of 16 x 8 blocks, each spread over the warp as the tensor cores want it: lane 4 g + t holds
// columns 2 t and 2 t + 1 of row g (x[0], x[1]) and of row g + 8 (x[2], x[3]).
//
//            col 0 1   2 3   4 5   6 7
//   row 0       lane 0 lane 1 lane 2 lane 3      The four lanes of a row are a quad. Sums and maxima over a row need
//   row 1       lane 4 lane 5 lane 6 lane 7      two exchanges, both inside the quad; all else about rows needs none.
//   ...
//   row 7       lane 28 ...          lane 31
//   row 8       lane 0 lane 1 lane 2 lane 3
template <int Rows, int Cols> struct reg_tile {
    static_assert(Rows % 16 == 0 && Cols % 16 == 0, "the sides of a tile are multiples of 16");
    float x[Rows / 16][Cols / 8][4];
    TILE_FN float operator[](element e) const
    {
        return x[e.row_slot / 2][e.col_slot / 2][e.row_slot % 2 * 2 + e.col_slot % 2];
    }
};

template <int Rows> struct row_vec {  // the four lanes of a quad hold the same values: those of their Rows / 8 rows
    float x[Rows / 8];
    TILE_FN float operator[](element e) const { return x[e.row_slot]; }
};

template <int Cols> struct col_vec {  // lanes with equal t hold the same values: those of their Cols / 4 columns
    float x[Cols / 4];
    TILE_FN float operator[](element e) const { return x[e.col_slot]; }
};

// What the machine must provide; written in the last section.
namespace tile_machine
{
// In which order the four 8 x 8 blocks of a 16 x 16 block come: after the first the one below it, or the one beside it.
enum block_order { down, across };

template <block_order order, bool transposed, int stride>
TILE_FN void load_16x16(uint32_t f[4], const bf16 (*at)[stride], int row0, int col0);
// The same, from where at(row, col) says an element lies; eight, from a multiple of 8 on, side by side.
template <block_order order, bool transposed, class At>
TILE_FN void load_16x16_by(uint32_t f[4], At at, int row0, int col0);
// The k-th 16 columns of a register tile as a left factor, for it already lies as one must; rounded to bf16.
template <int Rows, int Cols> TILE_FN void left_columns(uint32_t (*f)[4], const reg_tile<Rows, Cols> &a, int k);
// c += left * right: left(a, k) fetches the k-th 16 columns of the left factor, right(b, k, n) a 16 x 16 block of the
// right one.
template <int Depth, int Rows, int Cols, class Left, class Right>
TILE_FN void multiply(reg_tile<Rows, Cols> &c, Left left, Right right);
}  // namespace tile_machine

// ------------------------ elements and rows

// f(float &x, element e) for every element of the tile, each by the lane that holds it.
template <int Rows, int Cols, class F> TILE_FN void each(reg_tile<Rows, Cols> &tile, F f)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    TILE_UNROLL
    for (int r = 0; r < Rows / 16; r++) {
        TILE_UNROLL
        for (int c = 0; c < Cols / 8; c++) {
            TILE_UNROLL
            for (int i = 0; i < 4; i++) {
                const element e = {16 * r + 8 * (i / 2) + g, 8 * c + 2 * t + i % 2, 2 * r + i / 2, 2 * c + i % 2};
                f(tile.x[r][c][i], e);
            }
        }
    }
}

template <int Rows> TILE_FN void fill(row_vec<Rows> &v, float value)
{
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) v.x[i] = value;
}

// f of one or two values of each row.
template <int Rows, class F> TILE_FN row_vec<Rows> rowwise(const row_vec<Rows> &a, const row_vec<Rows> &b, F f)
{
    row_vec<Rows> y;
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) y.x[i] = f(a.x[i], b.x[i]);
    return y;
}

template <int Rows, class F> TILE_FN row_vec<Rows> rowwise(const row_vec<Rows> &a, F f)
{
    return rowwise(a, a, [=](float p, float) { return f(p); });
}

template <int Rows> TILE_FN row_vec<Rows> operator+(const row_vec<Rows> &a, const row_vec<Rows> &b)
{
    return rowwise(a, b, [](float p, float q) { return p + q; });
}
template <int Rows> TILE_FN row_vec<Rows> operator-(const row_vec<Rows> &a, const row_vec<Rows> &b)
{
    return rowwise(a, b, [](float p, float q) { return p - q; });
}
template <int Rows> TILE_FN row_vec<Rows> operator*(const row_vec<Rows> &a, const row_vec<Rows> &b)
{
    return rowwise(a, b, [](float p, float q) { return p * q; });
}
template <int Rows> TILE_FN row_vec<Rows> operator*(const row_vec<Rows> &a, float factor)
{
    return rowwise(a, [=](float p) { return p * factor; });
}
template <int Rows> TILE_FN row_vec<Rows> operator+(const row_vec<Rows> &a, float term)
{
    return rowwise(a, [=](float p) { return p + term; });
}
template <int Rows> TILE_FN row_vec<Rows> max(const row_vec<Rows> &a, const row_vec<Rows> &b)
{
    return rowwise(a, b, [](float p, float q) { return fmaxf(p, q); });
}
template <int Rows> TILE_FN row_vec<Rows> exp2(const row_vec<Rows> &a)
{
    return rowwise(a, [](float p) { return exp2_fast(p); });
}
template <int Rows> TILE_FN row_vec<Rows> log2(const row_vec<Rows> &a)
{
    return rowwise(a, [](float p) { return log2f(p); });
}

// Multiplies each row by its factor.
template <int Rows, int Cols> TILE_FN void scale_rows(reg_tile<Rows, Cols> &tile, const row_vec<Rows> &factor)
{
    each(tile, [&](float &x, element e) { x *= factor[e]; });
}

// Divides each row by its number: one division a row, and a product for each element.
template <int Rows, int Cols> TILE_FN void divide_rows(reg_tile<Rows, Cols> &tile, const row_vec<Rows> &divisor)
{
    scale_rows(tile, rowwise(divisor, [](float d) { return 1 / d; }));
}

// Whether a > b in any row of the warp. All 32 lanes get the same answer.
template <int Rows> TILE_FN bool any_above(const row_vec<Rows> &a, const row_vec<Rows> &b)
{
    bool above = false;
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) above |= a.x[i] > b.x[i];
    return __any_sync(0xffffffffu, above);
}

// The largest element of each row, in two steps: row_max_part looks at the columns that this lane holds, row_max_whole
// completes that over the quad.
template <int Rows, int Cols> TILE_FN row_vec<Rows> row_max_part(const reg_tile<Rows, Cols> &tile)
{
    row_vec<Rows> v;
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) {
        const int k = i % 2 * 2;  // x[0], x[1] are of the upper row, x[2], x[3] of the lower
        v.x[i] = fmaxf(tile.x[i / 2][0][k], tile.x[i / 2][0][k + 1]);
        TILE_UNROLL
        for (int c = 1; c < Cols / 8; c++) v.x[i] = fmaxf(v.x[i], fmaxf(tile.x[i / 2][c][k], tile.x[i / 2][c][k + 1]));
    }
    return v;
}

template <int Rows> TILE_FN row_vec<Rows> row_max_whole(const row_vec<Rows> &part)
{
    return rowwise(part, [](float p) {
        p = fmaxf(p, __shfl_xor_sync(0xffffffffu, p, 1));
        return fmaxf(p, __shfl_xor_sync(0xffffffffu, p, 2));
    });
}

// The sum of each row, in the same two steps. A sum of parts over many tiles is completed once, after the last.
template <int Rows, int Cols> TILE_FN row_vec<Rows> row_sum_part(const reg_tile<Rows, Cols> &tile)
{
    row_vec<Rows> v;
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) {
        const int k = i % 2 * 2;
        v.x[i] = tile.x[i / 2][0][k] + tile.x[i / 2][0][k + 1];
        TILE_UNROLL
        for (int c = 1; c < Cols / 8; c++) v.x[i] += tile.x[i / 2][c][k] + tile.x[i / 2][c][k + 1];
    }
    return v;
}

template <int Rows> TILE_FN row_vec<Rows> row_sum_whole(const row_vec<Rows> &part)
{
    return rowwise(part, [](float p) {
        p += __shfl_xor_sync(0xffffffffu, p, 1);
        return p + __shfl_xor_sync(0xffffffffu, p, 2);
    });
}

template <int Rows, int Cols> TILE_FN row_vec<Rows> row_max(const reg_tile<Rows, Cols> &tile)
{
    return row_max_whole(row_max_part(tile));
}
template <int Rows, int Cols> TILE_FN row_vec<Rows> row_sum(const reg_tile<Rows, Cols> &tile)
{
    return row_sum_whole(row_sum_part(tile));
}

// ------------------------ products

// The left factor of a product. A small one stays in registers for the whole kernel. A large one (32 x 128 would take
// 64 of a thread's 255 registers) is read from shared memory again for every product.
template <int Rows, int Cols> struct operand {
    static constexpr bool in_registers = Rows * Cols <= 2048;
    uint32_t x[in_registers ? Rows / 16 : 1][in_registers ? Cols / 16 : 1][4];
    const bf16 (*home)[Cols + 8];  // its first row in shared memory

    TILE_FN void columns(uint32_t a[Rows / 16][4], int k) const  // 16 k ... 16 k + 15
    {
        TILE_UNROLL
        for (int r = 0; r < Rows / 16; r++) {
            if constexpr (in_registers) {
                TILE_UNROLL
                for (int i = 0; i < 4; i++) a[r][i] = x[r][k][i];
            } else {
                tile_machine::load_16x16<tile_machine::down, false>(a[r], home, 16 * r, 16 * k);
            }
        }
    }
};

// Rows row0 ... row0 + Rows - 1 of a shared tile, which must not change while the operand is in use.
template <int Rows, int Cols, int TileRows>
TILE_FN void load(operand<Rows, Cols> &a, const smem_tile<TileRows, Cols> &tile, int row0)
{
    a.home = tile.at + row0;
    if constexpr (operand<Rows, Cols>::in_registers) {
        TILE_UNROLL
        for (int r = 0; r < Rows / 16; r++) {
            TILE_UNROLL
            for (int k = 0; k < Cols / 16; k++)
                tile_machine::load_16x16<tile_machine::down, false>(a.x[r][k], a.home, 16 * r, 16 * k);
        }
    }
}

// C += A B^T: C [Rows, Cols], A [Rows, Depth], B [Cols, Depth]. The scores Q K^T.
template <int Rows, int Cols, int Depth>
TILE_FN void mma_ABt(reg_tile<Rows, Cols> &c, const operand<Rows, Depth> &a, const smem_tile<Cols, Depth> &b)
{
    using namespace tile_machine;
    multiply<Depth>(
        c, [&](uint32_t(*f)[4], int k) { a.columns(f, k); },
        [&](uint32_t *f, int k, int n) { load_16x16<across, false>(f, b.at, 16 * n, 16 * k); });
}

// C += A B: C [Rows, Cols], A [Rows, Depth], B [Depth, Cols]. The outputs P V.
template <int Rows, int Cols, int Depth>
TILE_FN void mma_AB(reg_tile<Rows, Cols> &c, const reg_tile<Rows, Depth> &a, const smem_tile<Depth, Cols> &b)
{
    using namespace tile_machine;
    multiply<Depth>(
        c, [&](uint32_t(*f)[4], int k) { left_columns(f, a, k); },
        [&](uint32_t *f, int k, int n) { load_16x16<down, true>(f, b.at, 16 * k, 16 * n); });
}

// The same with A in shared memory or kept as an operand.
template <int Rows, int Cols, int Depth>
TILE_FN void mma_AB(reg_tile<Rows, Cols> &c, const operand<Rows, Depth> &a, const smem_tile<Depth, Cols> &b)
{
    using namespace tile_machine;
    multiply<Depth>(
        c, [&](uint32_t(*f)[4], int k) { a.columns(f, k); },
        [&](uint32_t *f, int k, int n) { load_16x16<down, true>(f, b.at, 16 * k, 16 * n); });
}

// ------------------------ loads and stores

// The block's Threads threads begin to copy the first `rows` rows of src, [rows, Cols] in global memory, into the
// tile, and fill its other rows with zeros. (With zeros, not with whatever was there: the products see those rows too,
// and 0 * NaN is NaN.) The tile may be read after loads_issued(), loads_arrived<...>() and __syncthreads().
template <int Threads, int Rows, int Cols>
TILE_FN void load_async(smem_tile<Rows, Cols> &tile, const bf16 *src, int rows)
{
    constexpr int step = Threads * 8 / Cols;  // rows that the block copies at a time, 16 bytes a thread
    static_assert(step >= 1 && Threads * 8 % Cols == 0, "the block must copy whole rows");
    const int row0 = threadIdx.x / (Cols / 8), col0 = threadIdx.x % (Cols / 8) * 8;
    if (rows >= Rows) {  // a whole tile: nothing but copies at constant distances
        TILE_UNROLL
        for (int r = 0; r < Rows; r += step)
            if (Rows % step == 0 || row0 + r < Rows)
                __pipeline_memcpy_async(&tile.at[row0 + r][col0], src + threadIdx.x * 8 + r * Cols, 16);
    } else {  // at an end of the sequence; rare, so it may be slow
        for (int r = row0; r < Rows; r += step)
            if (r < rows)
                __pipeline_memcpy_async(&tile.at[r][col0], src + r * Cols + col0, 16);
            else
                for (int i = 0; i < 8; i++) tile.at[r][col0 + i] = __float2bfloat16(0.0f);
    }
}

// Closes a group of loads.
TILE_FN void loads_issued() { __pipeline_commit(); }

// Waits until this thread's loads are there, but for the last `Pending` groups. Other threads' parts: after
// __syncthreads().
template <int Pending> TILE_FN void loads_arrived() { __pipeline_wait_prior(Pending); }

// The first `count` values of src, one for each row or column; the others become `beyond`.
template <int Rows> TILE_FN void load(row_vec<Rows> &v, const float *src, int count, float beyond)
{
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) {
        const int row = 8 * i + lane_id() / 4;
        v.x[i] = row < count ? src[row] : beyond;
    }
}

template <int Cols> TILE_FN void load(col_vec<Cols> &v, const float *src, int count, float beyond)
{
    TILE_UNROLL
    for (int i = 0; i < Cols / 4; i++) {
        const int col = i / 2 * 8 + lane_id() % 4 * 2 + i % 2;
        v.x[i] = col < count ? src[col] : beyond;
    }
}

namespace tile_machine
{
// The pair of columns 8 c + 2 t, 8 c + 2 t + 1 of this lane's i-th row, rounded, to two neighbours in memory.
template <int Rows, int Cols> TILE_FN void store_pair(bf16 *dst, const reg_tile<Rows, Cols> &tile, int i, int c)
{
    const float *pair = &tile.x[i / 2][c][i % 2 * 2];
    *reinterpret_cast<__nv_bfloat162 *>(dst) = __floats2bfloat162_rn(pair[0], pair[1]);
}
}  // namespace tile_machine

// The first `rows` rows (none if rows <= 0), rounded to bf16, to global memory [rows, Cols].
template <int Rows, int Cols> TILE_FN void store(bf16 *dst, const reg_tile<Rows, Cols> &tile, int rows)
{
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) {
        const int row = 8 * i + lane_id() / 4;
        if (row >= rows) continue;
        TILE_UNROLL
        for (int c = 0; c < Cols / 8; c++)
            tile_machine::store_pair(dst + row * Cols + 8 * c + lane_id() % 4 * 2, tile, i, c);
    }
}

// All rows, rounded to bf16, to a shared tile from row0 on.
template <int Rows, int Cols, int TileRows>
TILE_FN void store(smem_tile<TileRows, Cols> &dst, int row0, const reg_tile<Rows, Cols> &tile)
{
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) {
        TILE_UNROLL
        for (int c = 0; c < Cols / 8; c++)
            tile_machine::store_pair(&dst.at[row0 + 8 * i + lane_id() / 4][8 * c + lane_id() % 4 * 2], tile, i, c);
    }
}

// The first `rows` values (none if rows <= 0) to global memory.
template <int Rows> TILE_FN void store(float *dst, const row_vec<Rows> &v, int rows)
{
    TILE_UNROLL
    for (int i = 0; i < Rows / 8; i++) {
        const int row = 8 * i + lane_id() / 4;
        if (lane_id() % 4 == 0 && row < rows) dst[row] = v.x[i];
    }
}

// ------------------------ the machine, and only here

namespace tile_machine
{
// The four 8 x 8 blocks of the 16 x 16 block at (row0, col0), one register each: lane 4 g + t receives columns 2 t and
// 2 t + 1 of row g; transposed, rows 2 t and 2 t + 1 of column g.
template <block_order order, bool transposed, class At>
TILE_FN void load_16x16_by(uint32_t f[4], At at, int row0, int col0)
{
#if defined(TILE_TENSOR_CORES) || defined(CUDACPU_SEES_LOADS)
    // ldmatrix: lane 8 b + j hands in the address of row j of block b
    const int block = lane_id() / 8;
    const int below = order == down ? block % 2 : block / 2, beside = order == down ? block / 2 : block % 2;
    const bf16 *row_of_lane = at(row0 + 8 * below + lane_id() % 8, col0 + 8 * beside);
#endif
#ifdef TILE_TENSOR_CORES
    if (transposed)
        ldmatrix_x4_trans(f, row_of_lane);
    else
        ldmatrix_x4(f, row_of_lane);
#else  // each lane reads its own elements
#ifdef CUDACPU_SEES_LOADS
    cudacpu::matrix_load(row_of_lane);
#endif
    const int g = lane_id() / 4, t = lane_id() % 4;
    for (int i = 0; i < 4; i++) {
        const int row = row0 + 8 * (order == down ? i % 2 : i / 2), col = col0 + 8 * (order == down ? i / 2 : i % 2);
        if (transposed)
            f[i] = pack(*at(row + 2 * t, col + g), *at(row + 2 * t + 1, col + g));
        else
            memcpy(&f[i], at(row + g, col + 2 * t), 4);
    }
#ifdef CUDACPU_SEES_LOADS
    cudacpu::matrix_load(nullptr);
#endif
#endif
}

template <block_order order, bool transposed, int stride>
TILE_FN void load_16x16(uint32_t f[4], const bf16 (*at)[stride], int row0, int col0)
{
    load_16x16_by<order, transposed>(
        f, [=](int row, int col) { return &at[row][col]; }, row0, col0);
}

template <int Rows, int Cols> TILE_FN void left_columns(uint32_t (*f)[4], const reg_tile<Rows, Cols> &a, int k)
{
    TILE_UNROLL
    for (int r = 0; r < Rows / 16; r++) {
        TILE_UNROLL
        for (int i = 0; i < 4; i++) {
            const float *pair = &a.x[r][2 * k + i / 2][i % 2 * 2];
            f[r][i] = pack(pair[0], pair[1]);
        }
    }
}

#ifdef __CUDACPU__

// Each lane fetches its parts of both factors, and the last one to arrive multiplies for all 32.
template <int Depth, int Rows, int Cols, class Left, class Right>
TILE_FN void multiply(reg_tile<Rows, Cols> &c, Left left, Right right)
{
    uint32_t a[Depth / 16][Rows / 16][4], b[Depth / 16][Cols / 16][4];
    for (int k = 0; k < Depth / 16; k++) {
        left(a[k], k);
        for (int n = 0; n < Cols / 16; n++) right(b[k][n], k, n);
    }
    cudacpu::warp_product mine = {Rows / 16, Cols / 8, Depth / 16, &c.x[0][0][0], &a[0][0][0], &b[0][0][0]};
    cudacpu::warp_call(cudacpu::multiply, &mine);
}

#else

template <int Depth, int Rows, int Cols, class Left, class Right>
TILE_FN void multiply(reg_tile<Rows, Cols> &c, Left left, Right right)
{
    TILE_UNROLL
    for (int k = 0; k < Depth / 16; k++) {
        uint32_t a[Rows / 16][4];
        left(a, k);
        TILE_UNROLL
        for (int n = 0; n < Cols / 16; n++) {
            uint32_t b[4];  // B's blocks, down, transposed: b[0], b[1] are its left half
            right(b, k, n);
            TILE_UNROLL  // one fetch of b serves all rows
                for (int r = 0; r < Rows / 16; r++)
            {
                mma_m16n8k16(c.x[r][2 * n], a[r], b);
                mma_m16n8k16(c.x[r][2 * n + 1], a[r], b + 2);
            }
        }
    }
}

#endif
}  // namespace tile_machine
