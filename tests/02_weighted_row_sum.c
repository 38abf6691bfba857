// 02_weighted_row_sum.c - what weighted_row_sum must do. Most shapes are ragged: the assignment's own never are.
#include "harness.h"

TEST_PROBLEM(weighted_row_sum)

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void check(int rows, int cols) { check_case((wb_case){.rows = rows, .cols = cols}); }

// x = [1 2 3; 4 5 6], w = [1, 1/2, 1/4].
Test(weighted_row_sum, worked_by_hand)
{
    const wb_case c = {.rows = 2, .cols = 3, .input = WB_WORKED_1};
    check_worked(c, "y", (double[]){2.75, 8}, 2, 0);  // every number on the way is exact in float32
}

Test(weighted_row_sum, one_warp) { check(1, 32); }

Test(weighted_row_sum, one_element) { check(1, 1); }

Test(weighted_row_sum, many_rows_and_columns) { check(64, 2048); }

// Around the sizes that matter: a load of 8, a warp of 32, a block of 128 or 256, a block's loads of 1024; and primes.
Test(weighted_row_sum, ragged_columns)
{
    const int cols[] = {2,   3,   7,   8,   9,   13,  31,  33,   63,   64,   65,   127,  128,  129,
                        251, 255, 256, 257, 511, 512, 513, 1001, 1023, 1024, 1025, 2049, 4097, 8191};
    for (size_t i = 0; i < COUNT(cols); i++) check(3, cols[i]);
}

// The first row need not start at a multiple of 16 either, nor does w.
Test(weighted_row_sum, unaligned_tensors)
{
    for (int offset = 4; offset < 16; offset += 4) check_case((wb_case){.rows = 5, .cols = 1001, .offset = offset});
}

// Terms of +-1000 cancel, one term towers above the rest, all are tiny, all are equal.
Test(weighted_row_sum, every_input) { check_every_input((wb_case){.rows = 33, .cols = 1001}); }

// On the CPU layer an eighth of the rows.
Test(weighted_row_sum, assignment)
{
    const int shapes[][2] = {{512, 1024}, {1024, 4096}, {2048, 8192}, {4096, 8192}};
    for (size_t i = 0; i < COUNT(shapes); i++) check(on_cpu_backend() ? shapes[i][0] / 8 : shapes[i][0], shapes[i][1]);
}

// On a stream of the caller's, inputs that arrive there late.
Test(weighted_row_sum, own_stream) { check_stream((wb_case){.rows = 40, .cols = 1001}); }

Test(weighted_row_sum, same_twice)
{
    check_same_twice((wb_case){.rows = 100, .cols = 1001});
    check_same_twice((wb_case){.rows = 64, .cols = 8192, .input = WB_HUGE});
}

Test(weighted_row_sum, bad_input)
{
    check_rejected((wb_case){.rows = 0, .cols = 8}, WB_BAD_ARGUMENT, "rows");
    check_rejected((wb_case){.rows = -3, .cols = 8}, WB_BAD_ARGUMENT, "rows");
    check_rejected((wb_case){.rows = 8, .cols = 0}, WB_BAD_ARGUMENT, "cols");
    check_rejected((wb_case){.rows = 8, .cols = -1}, WB_BAD_ARGUMENT, "cols");
    check_rejected((wb_case){.rows = 8, .cols = 8, .null = "y"}, WB_BAD_ARGUMENT, "y is null");
    check_rejected((wb_case){.rows = 8, .cols = 8, .null = "x"}, WB_BAD_ARGUMENT, "x is null");
    check_rejected((wb_case){.rows = 8, .cols = 8, .null = "w"}, WB_BAD_ARGUMENT, "w is null");
    check_rejected((wb_case){.rows = 8, .cols = 8, .offset = 2}, WB_BAD_ARGUMENT, "y is not aligned");
}

// Nothing is stored on the way: no products, no partial sums in global memory.
Test(weighted_row_sum, memory) { check_memory((wb_case){.rows = 256, .cols = 4096}, 0, (size_t)12 << 20); }
