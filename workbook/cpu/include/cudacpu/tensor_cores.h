// tensor_cores.h - a product of matrices by a whole warp, its factors and its result spread over the lanes as mma.sync
// wants them.
#pragma once

#include "keywords.h"

namespace cudacpu
{
// What one lane brings to C += A B, in blocks of 16 x 16, or, the last of B and C, of 16 x 8. Lane 4 g + t holds, of
// each block of A, columns 2 t, 2 t + 1 of row g, two bf16 in a register, then of row g + 8, then columns 2 t + 8 and
// 2 t + 9 of both; of B the same with rows and columns exchanged; of C columns 2 t, 2 t + 1 of row g and of row g + 8,
// then of the block's right half.
struct warp_product {
    int rows, cols, depth;  // in 16, 8 and 16
    float *c;               // [rows][cols][4]
    const uint32_t *a;      // [depth][rows][4]
    const uint32_t *b;      // [depth][cols][2]
};

// A lane begins to emulate ldmatrix, to which it would hand in the address of this row, by loads of its own; null: they
// are done. Only a build that sees loads is told.
void matrix_load(const void *row_);

// For warp_call (sync.h), whose lanes each hand in one of these. As on a GPU the sum of 16 products is added to C at a
// time.
void multiply(void **products_, int count_);

// ldmatrix, four blocks of 8 x 8 16-bit elements: lane 8 i + j hands in where row j of block i begins.
void load_matrices(uint32_t *to_, const void *row_, bool transposed_, call_site site_);

// The layer's own: C += A B for A [rows, depth] and B [depth, cols], rows a multiple of 4, cols of 8, depth of 16,
// aligned to 32 bytes. What adds nothing may be left out: parts of 4 x 16 of A and of 16 x 8 of B whose product is 0,
// whatever the other factor has there.
struct matrices {
    float *a, *b, *c;
    int rows, cols, depth;
    const bool *a_idle = nullptr, *b_idle = nullptr;  // [rows / 4][depth / 16], [depth / 16][cols / 8]; or both null
    bool cut = false;  // as the tensor cores do with finite e4m3; depth is a multiple of 32
};
void multiply(const matrices &matrices_);
}
