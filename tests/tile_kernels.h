// tile_kernels.h - each word of tile.cuh in a kernel of its own, called with host memory. Sizes that were not compiled in, and
// errors of the device, end the test with a message and status 1.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The forms of a product. A is [2 rows, depth]; B is [cols, depth] in ABt, else [depth, cols].
typedef enum tile_form {
    TILE_ABt,           // A an operand
    TILE_AB_REGISTERS,  // A a register tile, filled from a_float
    TILE_AB_OPERAND     // A an operand
} tile_form;

// c += A * B with two warps, each with its own half of c [2 rows, cols]. a_float is read by TILE_AB_REGISTERS alone.
void tile_product(tile_form form, int rows, int cols, int depth, const uint16_t *a, const float *a_float,
                  const uint16_t *b, float *c);

// What `each` reports of a tile, one entry per element [rows, cols]: how often it was visited, by which lane, whether
// tile[e] was the element itself, and the values that a row_vec loaded from row_values (rows_there of them) and a col_vec
// loaded from col_values (cols_there) have there. Values beyond are -1.
typedef struct tile_visit {
    int times, lane, self;
    float row_value, col_value;
} tile_visit;
void tile_each(int rows, int cols, const float *row_values, int rows_there, const float *col_values, int cols_there,
               tile_visit *visits);

// load_async of the first rows_there rows of src by `threads` threads into a shared tile full of NaN; the tile comes back in
// dst [rows, cols]. src holds exactly rows_there rows.
void tile_load(int threads, int rows, int cols, const uint16_t *src, int rows_there, uint16_t *dst);

// Stores of a register tile [rows, cols]: its first rows_there rows to dst [rows, cols]; all rows to rows row0 ... of a shared
// tile [2 rows, cols], which comes back in smem. Both start as 0xffff. And of values[rows] as a row_vec, its first rows_there
// to vec, which starts as NaN.
void tile_store(int rows, int cols, const float *tile, const float *values, int rows_there, int row0, uint16_t *dst,
                uint16_t *smem, float *vec);

// Per row of a tile [rows, cols], as each of the 32 lanes knows it, [rows, 32], NaN where a lane does not hold the row; and the
// tile times `factors`, then the tile divided by them [2, rows, cols].
void tile_rows(int rows, int cols, const float *tile, const float *factors, float *max, float *sum, float *parts_max,
               float *parts_sum, float *scaled);

// The algebra of row vectors, [16] each: results of a + b, a - b, a * b, a * 3, a + 3, max(a, b), exp2(a), log2(b), one after
// the other in y [8, 16]; above: any_above(a, b) as each of 32 lanes saw it.
void tile_algebra(const float *a, const float *b, float *y, int *above);

#ifdef __cplusplus
}
#endif
