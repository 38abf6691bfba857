// 06_flash_window.c - what flash_window must do: query i sees exactly the window of W keys that ends with its own, i -
// W < j <= i, with grouped heads.
#include "contract.h"

TEST_PROBLEM(flash_window)
#define of(B, Hq, Hkv, N, D, W) causal_case(B, Hq, Hkv, N, D, W, 0)

// Six tokens, two columns padded with zeros to 16. W = 1: each sees itself alone, so O is V. W = 2: the third, say,
// sees the second and itself, with logits 0.2121 and 0.4950.
Test(flash_window, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 1, 6, 16, 1));
    const double V[6][16] = {{1, 0}, {0, 1}, {0.5, 0.5}, {0.8, 0.2}, {0.3, 0.7}, {0.6, 0.4}};
    check_worked(c, "O", V[0], 6 * 16, 4e-3);
    c.shape.window = 2;
    const double O[3][16] = {{1, 0}, {0.449, 0.551}, {0.2851, 0.7149}};
    check_worked(c, "O", O[0], 3 * 16, 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211, 1.0567}, 3, 3e-3);
}

Test(flash_window, one_tile)
{
    check(1, 1, 1, 64, 64, 64);
    check(1, 1, 1, 128, 64, 16);
}

Test(flash_window, many_tiles) { EACH_D(check(1, 2, 1, 768, D, 128)); }

// And the sequence itself; and as far as an int goes.
Test(flash_window, every_window)
{
    EACH_N(check(1, 1, 1, 300, D, N));
    for (int W = 298; W <= 302; W++) check(1, 2, 1, 300, dim(W), W);
    check(1, 1, 1, 300, 64, INT_MAX);
}

// All windows over few tokens.
Test(flash_window, every_window_over_a_few_tokens)
{
    for (int W = 1; W <= 20; W++) check(1, 2, 2, 19, dim(W), W);
}

// So wide that a kernel may choose other tiles for them, and yet less than the sequence.
Test(flash_window, wide_windows)
{
    EACH_D(check(1, 1, 1, 700, D, 513));
    check(1, 2, 1, 691, 64, 640);
    check_input(of(1, 1, 1, 600, 16, 520), WB_RISING);
}

// As wide as the sequence: problem 05.
Test(flash_window, no_window_to_speak_of) { EACH_D(check(1, 4, 2, 201, D, 201)); }

// Among them WB_RISING and WB_FALLING: hidden keys, right and left of the window, tower up to 200 above visible ones.
Test(flash_window, every_input)
{
    check_every_input(of(1, 2, 1, 299, 64, 70));
    check_every_input(of(1, 1, 1, 150, 32, 5));
}

Test(flash_window, scales) { check_scales(of(1, 2, 1, 200, ANY_D, 60)); }

Test(flash_window, sinks_are_not_read) { check_unread(of(1, 4, 2, 150, 32, 20)); }

Test(flash_window, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 1, 640, ONE_D, 32), 160);
    check_skips(of(1, 2, 1, 750, 16, 128), 190);
    check_skips(of(1, 1, 1, 1280, 16, 520), 320);
}

Test(flash_window, hidden_tiles_are_not_loaded)
{
    check_reads(of(1, 2, 1, 640, ONE_D, 64));
    check_reads(of(1, 4, 1, 777, 64, 128));
    check_reads(of(1, 1, 1, 1500, 16, 1));
    check_reads(of(1, 1, 1, 1024, ONE_D, 520));
}

Test(flash_window, same_twice) { check_same_twice(of(1, 2, 1, 420, ONE_D, 290)); }

PROMISES_WITH_A_WINDOW(flash_window)
