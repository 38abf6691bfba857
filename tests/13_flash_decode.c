// 13_flash_decode.c - flash_decode: equal shares of all keys, pages, packed rows, the merge (decode.h).
#include "contract.h"

TEST_PROBLEM(flash_decode)

static wb_case of(int B, int Hq, int Hkv, int Nq, int Nk, int D, int page, wb_lens lens)
{
    return (wb_case){.shape = {B, Hq, Hkv, Nq, Nk, .head_dim = D}, .page = page, .lens = lens};
}

// The lesson's six keys, and its two new tokens.
Test(flash_decode, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 1, 1, 6, 16, 16, WB_LENS_SAME));
    check_worked(c, "O", (double[]){0.5084, 0.4916}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.1957}, 1, 4e-3);
    c.shape.q_len = 2;
    check_worked(c, "O", (double[]){0.4919, 0.5081}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.0296, 2.0040}, 2, 4e-3);
}

#define SUITE flash_decode
#include "decode.h"

// As many rows as a tile of 32, 64, 128 and 192 has, and more. In the last case each tile has the largest scores.
Test(flash_decode, many_rows)
{
    const int sizes[][2] = {{11, 3}, {4, 16}, {5, 13}, {8, 12}, {16, 8}, {43, 3}, {12, 16}, {16, 16}, {29, 9}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int group = sizes[i][0], Nq = sizes[i][1], D = i % 2 ? 64 : 128;
        check(1, 2 * group, 2, Nq, 190 + 7 * (int)i, D, 16 << i % 5, WB_LENS_MIXED);
        check_input(of(1, group, 1, Nq, 400, 192 - D, 32, WB_LENS_SAME), WB_RISING);
    }
}
