// SPDX-License-Identifier: MIT
// int8.cuh - the words of problem 14 beside those of paged.cuh: tiles of bytes and the two products with a right
// factor of bytes.
//
// A byte counts as a 64th of what it says: UNIT of them are one (see bytes_to_bf16). Whoever multiplies with bytes
// sets that right.
#pragma once
#include "paged.cuh"

// What a byte says, and how it becomes a bf16: a file may have another STORED before it includes this one.
#ifndef STORED
#define STORED int8_bytes
struct int8_bytes {
    static constexpr float unit = 64;
    static constexpr uint32_t turned = 0x80808080u;  // the bits of four bytes that are turned when they are read

    // Of four int8 with their sign bits turned, the first and the third, or the second and the fourth, in 64ths.
    static TILE_FN uint32_t bytes_to_bf16(uint32_t four, int odd)
    {
        return two_to_bf16(__byte_perm(four, 0, odd ? 0x4341 : 0x4240));
    }
    // Two bytes, each with a byte of zeros above it: u = 128 + what it says, from 0 to 255. The bf16 with the bits
    // 00000000 uuuuuuuu is u * 2^-133, whether u's first bit counts as one of its fraction or, from 2^-126 on, of its
    // exponent. So (u * 2^-133) * 2^127 - 2 = (u - 128) / 64, and nothing is rounded.
    static TILE_FN uint32_t two_to_bf16(uint32_t two)
    {
        using namespace tile_machine;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800  // has no arithmetic in bf16
        return pack((two & 255) / unit - 2, (two >> 16) / unit - 2);
#else
        __nv_bfloat162 u;
        memcpy(&u, &two, 4);
        return bits(__hfma2(u, __float2bfloat162_rn(0x1p127f), __float2bfloat162_rn(-2.0f)));
#endif
    }
};
#endif
constexpr float UNIT = STORED::unit;

// ------------------------ a tile of bytes

template <int Rows, int Cols> using byte_tile = cache_tile<int8_t, Rows, Cols>;

// load_rows_async for the scales of 32 rows, which lie side by side, each 16 of them.
TILE_FN void load_scales_async(float (&to)[32], const float *src, int rows)
{
    const int first = lane_id() % 16 * 4;
    if (first >= 16) return;
    float *const four = &to[lane_id() / 16 * 16 + first];
    if (rows >= 16)
        __pipeline_memcpy_async(four, src + first, 16);
    else
        __pipeline_memcpy_async(four, src + first, 16, 16 - 4 * min(max(rows - first, 0), 4));
}

// ------------------------ products

// The left factor of a product with bytes. Lane 4 g + t has the t-th quarter of row g and of row g + 8, for that is
// what it reads of a row of bytes, in one piece. In which order the terms of a sum come is all the same, as long as
// both factors have the same. As an operand, it is in registers if it is small; if not, the block has it in shared
// memory, once for all its warps, lane by lane.
template <int Rows, int Cols> struct quarters {
    static constexpr bool in_registers = Rows * Cols <= 2048;
    static constexpr int steps = Cols / 16, blocks = Rows / 16 * steps;
    uint32_t x[in_registers ? blocks : 1][4];
    const uint4 (*home)[32];

    TILE_FN void columns(uint32_t a[Rows / 16][4], int k) const
    {
        TILE_UNROLL
        for (int r = 0; r < Rows / 16; r++) {
            const uint4 four = in_registers ? uint4{} : home[r * steps + k][lane_id()];
            const uint32_t there[4] = {four.x, four.y, four.z, four.w};
            TILE_UNROLL
            for (int i = 0; i < 4; i++) a[r][i] = in_registers ? x[r * steps + k][i] : there[i];
        }
    }
};
template <int Rows, int Cols> struct quarter_room {
    uint4 at[quarters<Rows, Cols>::in_registers ? 1 : quarters<Rows, Cols>::blocks][32];
};

// The first `rows` rows of src, [rows, Cols] in global memory; the others become zeros. All threads of the block call,
// when nobody uses the room.
template <int Threads = 0, int Rows, int Cols>
TILE_FN void load(quarters<Rows, Cols> &a, quarter_room<Rows, Cols> &room, const bf16 *src, int rows)
{
    const auto fetch = [&](uint32_t f[4], int n) {
        TILE_UNROLL
        for (int i = 0; i < 2; i++) {
            const int row = n / a.steps * 16 + 8 * i + lane_id() / 4;
            const uint2 *quarter = reinterpret_cast<const uint2 *>(src + row * Cols + lane_id() % 4 * (Cols / 4));
            const uint2 four = row < rows ? quarter[n % a.steps] : make_uint2(0, 0);
            f[i] = (four.x & 0xffff) | four.y << 16;           // elements 0 and 2
            f[2 + i] = four.x >> 16 | (four.y & 0xffff0000u);  // 1 and 3
        }
    };
    if constexpr (quarters<Rows, Cols>::in_registers) {
        TILE_UNROLL
        for (int n = 0; n < a.blocks; n++) fetch(a.x[n], n);
    } else {
        a.home = room.at;
        for (int n = warp_id(); n < a.blocks; n += (Threads ? Threads : blockDim.x) / 32) {
            uint32_t f[4];
            fetch(f, n);
            room.at[n][lane_id()] = make_uint4(f[0], f[1], f[2], f[3]);
        }
        __syncthreads();  // each warp's blocks are there
    }
}

namespace tile_machine
{
template <int Bytes> struct alignas(Bytes) piece {
    uint32_t word[Bytes / 4];
};

// Lane l's part of chunk n of 32 rows: for each 8 rows, with l = 4 g + t, bytes 2 g and 2 g + 1 of row 2 t, and of row
// 2 t + 1.
template <int Cols> TILE_FN void load_chunk(uint32_t f[4], const byte_tile<32, Cols> &tile, int n)
{
#ifdef TILE_TENSOR_CORES  // to ldmatrix two bytes are an element
    ldmatrix_x4_trans(f, tile.chunk(lane_id(), n));
#else
    const int g = lane_id() / 4, t = lane_id() % 4;
    for (int i = 0; i < 4; i++) {
        const auto pair = [&](int row) { return (uint32_t) reinterpret_cast<const uint16_t *>(tile.chunk(row, n))[g]; };
        f[i] = pair(8 * i + 2 * t) | pair(8 * i + 2 * t + 1) << 16;
    }
#endif
}
}  // namespace tile_machine

// C += A B^T: C [Rows, 32], A [Rows, Depth], B [32, Depth]. The scores Q K^T.
template <int Rows, int Depth>
TILE_FN void mma_ABt(reg_tile<Rows, 32> &c, const quarters<Rows, Depth> &a, const byte_tile<32, Depth> &b)
{
    using namespace tile_machine;
    constexpr int size = Depth / 4 < 16 ? Depth / 4 : 16;  // of what is read at once
    const int g = lane_id() / 4, first = lane_id() % 4 * (Depth / 4);
    uint32_t w[4][Depth / 16];
    TILE_UNROLL
    for (int n = 0; n < 4; n++) {
        TILE_UNROLL
        for (int i = 0; i < Depth / 4; i += size) {
            const char *chunk = reinterpret_cast<const char *>(b.chunk(8 * n + g, (first + i) / 16));
            const auto &part = *reinterpret_cast<const piece<size> *>(chunk + first % 16);
            TILE_UNROLL
            for (int j = 0; j < size / 4; j++) w[n][i / 4 + j] = part.word[j] ^ STORED::turned;
        }
    }
    multiply<Depth>(
        c, [&](uint32_t(*f)[4], int k) { a.columns(f, k); },
        [&](uint32_t *f, int k, int n) {
            TILE_UNROLL
            for (int i = 0; i < 4; i++) f[i] = STORED::bytes_to_bf16(w[2 * n + i / 2][k], i % 2);
        });
}

// C += A B: C [Rows, Cols], A [Rows, 32], B [32, Cols]. The outputs P V. Of each 16 columns of C the even ones come
// first, then the odd ones: what `each` calls column c is column byte_col(c).
template <int Rows, int Cols>
TILE_FN void mma_AB(reg_tile<Rows, Cols> &c, const reg_tile<Rows, 32> &a, const byte_tile<32, Cols> &b)
{
    using namespace tile_machine;
    uint32_t w[Cols / 16][4];
    TILE_UNROLL
    for (int n = 0; n < Cols / 16; n++) {
        load_chunk(w[n], b, n);
        TILE_UNROLL
        for (int i = 0; i < 4; i++) w[n][i] ^= STORED::turned;
    }
    multiply<32>(
        c, [&](uint32_t(*f)[4], int k) { left_columns(f, a, k); },
        [&](uint32_t *f, int k, int n) {
            TILE_UNROLL
            for (int i = 0; i < 4; i++) f[i] = STORED::bytes_to_bf16(w[n][2 * k + i % 2], i / 2);
        });
}
TILE_FN int byte_col(int col) { return col / 16 * 16 + col % 8 * 2 + col / 8 % 2; }
// The first `rows` rows of such a C, rounded to bf16, to global memory [rows, Cols], each column where it belongs.
template <int Rows, int Cols> TILE_FN void store_in_order(bf16 *dst, reg_tile<Rows, Cols> &tile, int rows)
{
    each(tile, [&](float &x, element e) {
        if (e.row < rows) dst[(size_t)e.row * Cols + byte_col(e.col)] = __float2bfloat16(x);
    });
}
