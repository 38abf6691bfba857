// SPDX-License-Identifier: MIT
// e4m3.cuh - the words of problem 16 beside those of hopper.cuh: tiles and weights of eight-bit floats, their
// products, and how scores become weights of eight bits.
//
// An e4m3 has 1 sign, 4 exponent and 3 fraction bits: steps of 1/8 to 1/16 of its size from 2^-6 to 448, the largest;
// below, steps of 2^-9. It has no infinity; 0x7f and 0xff are NaN. A product of bytes knows one form, C = A B^T: both
// factors have what is summed over side by side.
#pragma once
#include "hopper.cuh"

struct e4m3 {
    uint8_t bits;
};

// e4m3 in shared memory, as the copy engine writes and the tensor cores read it: in panels of 128, 64 or 32 columns.
// The pieces of 16 bytes are exchanged by the bits of the address above a line of 128 bytes.
template <int Rows, int Cols> struct alignas(1024) e4m3_tile {
    static_assert(Rows % 8 == 0 && Rows <= 256 && Cols % 32 == 0,
                  "Rows must be a multiple of 8 and at most 256 (the copy engine's limit), Cols a multiple of 32");
    static_assert(Rows * Cols % 1024 == 0, "the size of a tile must be a multiple of 1024 bytes");
    static constexpr int rows = Rows, cols = Cols, panel = Cols % 128 == 0 ? 128 : Cols % 64 == 0 ? 64 : 32;
    e4m3 at[Cols / panel][Rows][panel];
};

// e4m3 in registers: 16 x Depth a warp, the left factor of a product. Lane 4 g + t has of each 16 columns 4 t ... 4 t
// + 3, in rows g and g + 8.
template <int Depth> struct e4m3_weights {
    static_assert(Depth % 32 == 0, "a product of bytes processes 32 columns at a time");
    uint32_t x[Depth / 32][4];
};

// (host) A tensor [heads, N, cols] of e4m3, cut into tiles of `rows` rows and all columns.
static inline wb_status describe(tensor_map &map, const uint8_t *tensor, int heads, int N, int cols, int rows)
{
    const int panel = cols % 128 == 0 ? 128 : cols % 64 == 0 ? 64 : 32;
    return hopper_machine::describe(map, tensor, 1, panel, heads, N, cols, rows, 1);
}

// As for a tma_tile; so rings of these tiles have senders and receivers, too.
template <int Rows, int Cols> TILE_FN void load_async(e4m3_tile<Rows, Cols> &tile, const tensor_map &map, int row,
                                                      int head, signal &arrived, call_site from = here())
{
    arrived.arrive_and_expect(sizeof tile, from);
    hopper_machine::copy_in(&tile, sizeof tile, map, row, head, &arrived.state, from);
}

// ------------------------ products

namespace hopper_machine
{
template <int Rows, int Cols> TILE_FN tile_rows rows_of(const e4m3_tile<Rows, Cols> &t)
{
    return {&t, Cols / t.panel, (int)sizeof t.at[0], 0, Rows, t.panel};
}
}  // namespace hopper_machine

// Begin C = A B^T: C [64, Cols], A [64, Depth], B [Cols, Depth]. The scores Q K^T.
template <int Cols, int Depth> TILE_FN void mma_ABt_async(reg_tile<16, Cols> &c, const e4m3_tile<64, Depth> &a,
                                                          const e4m3_tile<Cols, Depth> &b, call_site from = here())
{
    using namespace hopper_machine;
    product<form::bytes, Depth>(c, rows_of(a), rows_of(b), false, from);
}
// Begin C += A B^T. The outputs, with B the transposed V.
template <int Cols, int Depth> TILE_FN void mma_ABt_more_async(reg_tile<16, Cols> &c, const e4m3_weights<Depth> &a,
                                                               const e4m3_tile<Cols, Depth> &b, call_site from = here())
{
    using namespace hopper_machine;
    product<form::bytes, Depth>(c, a.x, rows_of(b), true, from);
}

// ------------------------ weights

namespace e4m3_machine
{
// Rounded to e4m3, nearest, ties to even, beyond 448 to 448; x0 lowest.
TILE_FN uint32_t pack(float x0, float x1, float x2, float x3)
{
#if defined(__CUDACPU__)
    const uint32_t high = cudacpu::to_e4m3(x3);
    return cudacpu::to_e4m3(x0) | cudacpu::to_e4m3(x1) << 8 | cudacpu::to_e4m3(x2) << 16 | high << 24;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint32_t four;
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}"
        : "=r"(four)
        : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
    return four;
#else
    return (uint32_t)(x0 + x1 + x2 + x3);  // check_hopper() keeps callers from here
#endif
}

// The four numbers that lane t has in 16 columns of an accumulator's row: columns 2 t, 2 t + 1, 8 + 2 t, 9 + 2 t. As a
// left factor the four bytes of its register count as columns 4 t ... 4 t + 3. So weights have their columns in
// another order, and so has their product's other factor: column 4 t + j of the product is column 8 (j / 2) + 2 t + j
// % 2 of the tile, 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15.
template <class F> TILE_FN void four_of(float x[4], int k, int i, F at)
{
    TILE_UNROLL
    for (int j = 0; j < 4; j++) x[j] = at(4 * k + i / 2 * 2 + j / 2, i % 2 * 2 + j % 2);
}
}  // namespace e4m3_machine

// Weights of a tile's numbers as they are.
template <int Depth> TILE_FN void round_to(e4m3_weights<Depth> &w, reg_tile<16, Depth> &p, call_site from = here())
{
    (void)from;
#ifdef __CUDACPU__
    cudacpu::scores_weighed(p.x[0][0], from);
#endif
    hopper_machine::pin(p);
    TILE_UNROLL
    for (int n = 0; n < Depth / 8; n++) {
        float x[4];
        e4m3_machine::four_of(x, n / 4, n % 4, [&](int c, int i) { return p.x[0][c][i]; });
        w.x[n / 4][n % 4] = e4m3_machine::pack(x[0], x[1], x[2], x[3]);
    }
}

// P = 2^(S factor - shift), rounded to e4m3; returns this lane's part of the sums of P's rows, before they are
// rounded. S stays as it is.
template <int Depth> TILE_FN row_vec<16> exponentials(e4m3_weights<Depth> &P, const reg_tile<16, Depth> &S,
                                                      const row_vec<16> &factor, const row_vec<16> &shift,
                                                      call_site from = here())
{
    (void)from;
#ifdef __CUDACPU__
    cudacpu::scores_weighed(S.x[0][0], from);
#endif
    row_vec<16> sums = {};
    TILE_UNROLL
    for (int r = 0; r < 2; r++) {
        TILE_UNROLL
        for (int n = 0; n < Depth / 16; n++) {  // register 2 n + r: row 8 r, half n
            float x[4];
            e4m3_machine::four_of(x, n / 2, n % 2 * 2 + r, [&](int c, int i) {
                return exp2_fast(fmaf(S.x[0][c][i], factor.x[r], -shift.x[r]));
            });
            P.x[n / 2][n % 2 * 2 + r] = e4m3_machine::pack(x[0], x[1], x[2], x[3]);
            sums.x[r] += (x[0] + x[1]) + (x[2] + x[3]);
        }
    }
    return sums;
}

// to = from, by an instruction that stands here: no product may still read `to`. A plain assignment the compiler
// leaves out, and writes `from`'s registers over those that a product reads; then it does all products one by one, and
// says so in a warning.
template <int Depth> TILE_FN void take_over(e4m3_weights<Depth> &to, const e4m3_weights<Depth> &from)
{
    uint32_t zero = 0;
#ifdef __CUDA_ARCH__
    asm("mov.u32 %0, %%nsmid;\nshr.u32 %0, %0, 31;" : "=r"(zero));  // which the compiler does not know to be 0
#endif
    TILE_UNROLL
    for (int k = 0; k < Depth / 32; k++) {
        TILE_UNROLL
        for (int i = 0; i < 4; i++) {
#ifdef __CUDA_ARCH__
            asm volatile("xor.b32 %0, %1, %2;" : "=r"(to.x[k][i]) : "r"(from.x[k][i]), "r"(zero));
#else
            to.x[k][i] = from.x[k][i] ^ zero;
#endif
        }
    }
}

// ------------------------ in float32

TILE_FN float power_of_two(int e)  // exactly; e from -126 to 127
{
    return __int_as_float((e + 127) << 23);
}

// C += factor sum, of what this warpgroup has stored in shared memory: each thread what it stored itself.
template <int Cols> TILE_FN void add(reg_tile<16, Cols> &c, const fragments<Cols> &sum, const row_vec<16> &factor)
{
    TILE_UNROLL
    for (int n = 0; n < Cols / 8; n++) {
        const float4 x = sum.at[n][threadIdx.x % warpgroup_threads];
        const float of[4] = {x.x, x.y, x.z, x.w};
        TILE_UNROLL
        for (int i = 0; i < 4; i++) c.x[0][n][i] = fmaf(of[i], factor.x[i / 2], c.x[0][n][i]);
    }
}
