// 14_flash_decode_int8.c - flash_decode_int8: 13 from a cache of int8, with a scale a row of K and of V (decode.h).
#include "contract.h"

TEST_PROBLEM(flash_decode_int8)

static wb_case of(int B, int Hq, int Hkv, int Nq, int Nk, int D, int page, wb_lens lens)
{
    return (wb_case){.shape = {B, Hq, Hkv, Nq, Nk, .head_dim = D}, .page = page, .lens = lens};
}

// The lesson's six keys, and its two new tokens.
Test(flash_decode_int8, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 1, 1, 6, 16, 16, WB_LENS_SAME));
    check_worked(c, "O", (double[]){0.5078, 0.4921}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.1952}, 1, 4e-3);
    c.shape.q_len = 2;
    check_worked(c, "O", (double[]){0.4912, 0.5085}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.0290, 2.0039}, 2, 4e-3);
}

#define SUITE flash_decode_int8
#include "decode.h"

// Rows of zeros, whose scale is 0; rows so small that it would be denormal, and is 0.
Test(flash_decode_int8, zero_rows) { EACH_D(check_input(of(2, 4, 2, 2, 300, D, 16, WB_LENS_MIXED), WB_ZERO_ROWS)); }

// An element of a row is so large that the others are -1, 0 or 1, or a few more.
Test(flash_decode_int8, outliers) { EACH_D(check_input(of(2, 4, 2, 2, 300, D, 16, WB_LENS_MIXED), WB_OUTLIERS)); }

// Rows up to 2^100 times as large or as small, under queries that make up for those of K.
// And any bytes under any scales: -128, scales below 0, and 0 over bytes that are not.
Test(flash_decode_int8, wide_scales)
{
    EACH_D(check_input(of(2, 4, 2, 2, 300, D, 16, WB_LENS_MIXED), WB_WIDE_SCALES));
    EACH_D(check_input(of(2, 4, 2, 2, 300, D, 16, WB_LENS_MIXED), WB_ANY_BYTES));
}
