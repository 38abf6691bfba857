// 07_flash_sinks.c - what flash_sinks must do: query i sees key j <= i if it lies in the window, j > i - W, or is one
// of the S sinks, j < S, with grouped heads.
#include "contract.h"

TEST_PROBLEM(flash_sinks)
#define of causal_case

// Six tokens, two columns padded with zeros to 16, W = 1, S = 1: each sees the first key and its own. The first, whose
// own key is the sink, sees it once: counted twice, its L would be larger by log(2). The third has the logits 0.4879
// and 0.4950.
Test(flash_sinks, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 1, 6, 16, 1, 1));
    const double O[3][16] = {{1, 0}, {0.449, 0.551}, {0.7491, 0.2509}};
    check_worked(c, "O", O[0], 3 * 16, 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211, 1.1846}, 3, 3e-3);
}

// No sinks: problem 06.
Test(flash_sinks, no_sinks) { EACH_D(check(1, 4, 2, 201, D, 50, 0), check(1, 2, 1, 300, D, 1, 0)); }

Test(flash_sinks, one_tile)
{
    check(1, 1, 1, 64, 64, 16, 4);
    check(1, 1, 1, 128, 64, 16, 4);
}

Test(flash_sinks, many_tiles) { EACH_D(check(1, 2, 1, 768, D, 128, 4)); }

// Within the window and beyond it; all of the sequence; as far as an int goes.
Test(flash_sinks, every_number_of_sinks)
{
    EACH_N(check(1, 1, 1, 300, D, each % 2 ? 20 : 128, N));
    for (int S = 299; S <= 301; S++) check(1, 2, 1, 300, dim(S), 20, S);
    check(1, 2, 1, 300, 64, 20, INT_MAX);
}

// So wide that a kernel may choose other tiles for them, and yet less than the sequence.
Test(flash_sinks, wide_windows)
{
    EACH_D(check(1, 1, 1, 700, D, 513, 4));
    check(1, 2, 1, 691, 64, 560, 70);
    check(1, 1, 1, 750, 32, 530, 190);
    check_input(of(1, 1, 1, 600, 16, 520, 5), WB_RISING);
}

SINKS(flash_sinks, 260)

// Among them WB_RISING and WB_FALLING: hidden keys tower above the visible ones, right of the window and left of it;
// the sinks tower above all, or vanish.
Test(flash_sinks, every_input)
{
    check_every_input(of(1, 2, 1, 299, 64, 70, 5));
    check_every_input(of(1, 1, 1, 150, 32, 5, 40));
    check_every_input(of(1, 1, 1, 150, 16, 1, 1));
}

Test(flash_sinks, scales) { check_scales(of(1, 2, 1, 200, ANY_D, 60, 4)); }

Test(flash_sinks, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 1, 640, ONE_D, 32, 4), 160);
    check_skips(of(1, 2, 1, 850, 64, 128, 20), 213);
    check_skips(of(1, 1, 1, 1000, 64, 100, 200), 250);
    check_skips(of(1, 1, 1, 1300, 16, 520, 4), 260);
}

Test(flash_sinks, hidden_tiles_are_not_loaded)
{
    check_reads(of(1, 2, 1, 640, ONE_D, 64, 4));
    check_reads(of(1, 4, 1, 777, 64, 128, 20));
    check_reads(of(1, 1, 1, 1500, 16, 1, 130));
    check_reads(of(1, 1, 1, 1024, ONE_D, 520, 4));
}

Test(flash_sinks, same_twice)
{
    check_same_twice(of(1, 2, 1, 260, ONE_D, 210, 4));
    check_same_twice(of(1, 4, 1, 260, 64, 128, 4));
}

PROMISES_WITH_A_WINDOW(flash_sinks)
Test(flash_sinks, bad_input_sinks) { refuses_sinks(); }
