// 16_flash_fp8.c - what flash_fp8 must do: attention from e4m3 under powers of two, causal or not, with grouped heads,
// D 64, 128 and 256, added up in one level or in two (hopper.h). The oracle has what the bytes stand for. One level is
// asked until all else is right: a mistake in the second loses the checkpoint of the second, and what needs it.
#include "contract.h"

TEST_PROBLEM_FOR(flash_fp8, 9)

static wb_case full_of(int B, int Hq, int Hkv, int Nq, int Nk, int D)
{
    return (wb_case){.shape = {B, Hq, Hkv, .q_len = Nq, .kv_len = Nk, .head_dim = D}, .levels = 1};
}

static wb_case complete_of(wb_case c) { return c.levels = 2, c; }

// Problem 04's numbers, of which some have more than four bits: the lesson has what becomes of them.
Test(flash_fp8, worked_by_hand)
{
    wb_case c = worked(full_of(1, 2, 1, 6, 6, 64));
    c.shape.causal = 1;
    check_worked(c, "O", (double[]){1, 0}, 2, 1e-3);
    check_worked(c, "L", (double[]){0.4640, 0.9362}, 2, 3e-4);
}

#define SUITE flash_fp8
#define TILE  64
#include "hopper.h"

// Rows and tiles of many sizes: each exponent where it belongs, the maximum raised on the way, and O and l with it.
Test(flash_fp8, sizes)
{
    EACH_D(check_input(full_of(1, 2, 2, 40, 300, D), WB_SIZES), check_input(causal_of(1, 2, 1, 200, D), WB_SIZES));
}
Test(flash_fp8, sizes_that_grow)
{
    EACH_D(check_input(of(40, 330, D), WB_LEFTWARD), check_input(causal_of(1, 2, 1, 200, D), WB_LEFTWARD));
    check_input(of(64, 1000, 128), WB_FALLING);
}

// Tiles of zeros, whose exponent is the least; tiles that are nearly as small; rows of K and V with one large element;
// a head of 2^100 beside one of 2^-100; bytes that no quantiser makes.
Test(flash_fp8, special_tiles)
{
    const wb_input inputs[] = {WB_ZERO_ROWS, WB_OUTLIERS, WB_WIDE_SCALES, WB_ANY_BYTES};
    for (size_t n = 0; n < COUNT(inputs); n++) {
        check_input(full_of(1, 4, 2, 40, 200, dim(n)), inputs[n]);
        check_input(causal_of(1, 4, 2, 140, dim(n + 1)), inputs[n]);
    }
}

// V of mean 1 shows what sums lose: with one level a hundredth at 1024 keys, with two never much more. The longest is
// beyond what one may have.
Test(flash_fp8, levels)
{
    EACH_D(check_input(of(20, 500, D), WB_MEAN_ONE), check_input(complete_of(of(20, 1700, D)), WB_MEAN_ONE));
    EACH_D(if (D == 256 || !on_cpu_backend())
               check_input(complete_of(of(16, on_cpu_backend() ? 13000 : 65536, D)), WB_MEAN_ONE));
    check_input(complete_of(causal_of(1, 1, 1, on_cpu_backend() ? 850 : 12000, 256)), WB_MEAN_ONE);
}

// Sums that move to float32 before the maximum is raised and after it; a head's first where another's O has just left;
// rings that are shorter, round and round; all that heads and masks do.
Test(flash_fp8, two_levels)
{
    EACH_D(check_input(complete_of(of(70, 1700, D)), WB_LEFTWARD));
    check_input(complete_of(of(150, 2700, 64)), WB_LEFTWARD);  // O moves twice, and m grows after each
    check_input(complete_of(causal_of(1, 1, 1, 500, 64)), WB_LEFTWARD);
    check_input(complete_of(causal_of(1, 2, 1, 850, 256)), WB_ANY_BYTES);
    check_input(complete_of(full_of(1, 4, 2, 70, 300, 128)), WB_ZERO_ROWS);
    for (int tiles = 1; tiles <= 6; tiles++) check_case(complete_of(of(64, 64 * tiles - 3, 256)));
    check_overlap(complete_of(of(128, 512, 256)));
}

Test(flash_fp8, bad_input_levels)
{
    const int others[] = {0, -1, 3, INT_MAX};
    for (size_t i = 0; i < COUNT(others); i++) REFUSED(levels, others[i], WB_BAD_ARGUMENT, "levels");
}
