// 09_flash_sinks_backward.c - what flash_sinks_backward must do: the gradient under the mask of 07, j <= i and (j > i -
// W or j < S). dQ, dK, dV and delta are judged one by one. The first tests ask for one kernel alone; from
// whole_function on, for everything.
#include "contract.h"

TEST_PROBLEM(flash_sinks_backward)
#define of causal_case

// ------------------------ one kernel at a time

// dV and dK need the queries of a key tile and their mask, but while a tile has few queries no parts.
Test(flash_sinks_backward, window_dv) { EACH_D(check_output(of(1, 2, 1, 201, D, 50, 0), "dV")); }
Test(flash_sinks_backward, window_dk) { EACH_D(check_output(of(1, 2, 1, 201, D, 50, 0), "dK")); }
Test(flash_sinks_backward, window_dq) { EACH_D(check_output(of(1, 2, 1, 201, D, 50, 0), "dQ")); }
Test(flash_sinks_backward, sinks_dq) { EACH_D(check_output(of(1, 2, 1, 201, D, 50, 5), "dQ")); }

Test(flash_sinks_backward, sinks_dv)
{
    check_output(of(1, 2, 1, 90, 64, 30, 5), "dV");
    check_output(of(1, 4, 1, 500, 64, 30, 5), "dV");  // many queries: shared out in parts
}

Test(flash_sinks_backward, sinks_dk)
{
    check_output(of(1, 2, 1, 90, 64, 30, 5), "dK");
    check_output(of(1, 4, 1, 500, 64, 30, 5), "dK");
}

// ------------------------ whole_function

Test(flash_sinks_backward, whole_function)
{
    EACH_D(check(1, 2, 1, 200, D, 64, 4));
    check(1, 2, 1, 260, 32, 10, 40);  // two tiles with sinks, whose queries are many windows
}

// Three tokens, W = 1, S = 1, as the lesson computes them: each sees the first key and its own.
Test(flash_sinks_backward, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 1, 3, 16, 1, 1));
    check_worked(c, "delta", (double[]){1, 0.1734, 0.6237}, 3, 4e-3);
    check_worked(c, "dV", (double[]){1.9471, -0.9736}, 2, 8e-3);
    check_worked(c, "dQ", (double[]){0, 0, [16] = -0.0787, 0.1312, [32] = 0.0530, -0.0133}, 34, 2e-3);
    check_worked(c, "dK", (double[]){0.2364, 0.0931}, 2, 2e-3);
}

// A query that sees one key: P = 1 whatever the logit, so its dS is 0. With W = 1 and no sinks that is every query.
Test(flash_sinks_backward, one_visible_key) { EACH_D(check(2, 2, 1, 1, D, 1, 0), check(1, 2, 1, 150, D, 1, 0)); }

// No sinks, and a window of all: problem 08. The last token has a tile to itself.
Test(flash_sinks_backward, no_window) { EACH_D(check(1, 4, 2, 129, D, INT_MAX, 0)); }

Test(flash_sinks_backward, every_window) { EACH_N(check(1, 1, 1, 150, D, N, 4)); }

SINKS(flash_sinks_backward, 200)

// Among them WB_RISING and WB_FALLING: hidden keys tower above the visible ones, right of the window and left of it.
Test(flash_sinks_backward, every_input)
{
    check_every_input(of(1, 1, 1, 150, 64, 40, 5));
    check_every_input(of(1, 1, 1, 90, 16, 1, 1));
}

GRADIENTS(flash_sinks_backward)

Test(flash_sinks_backward, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 1, 640, ONE_D, 20, 4), 210);
    check_skips(of(1, 1, 1, 640, 16, 40, 0), 210);
    check_less_work(of(1, 1, 1, 512, 16, 1, 0));
}

// A walk without the bound of the window gives the right numbers, slowly: once, in a vendor's engine, 75 times slower.
Test(flash_sinks_backward, hidden_tiles_are_not_loaded)
{
    check_reads(of(1, 1, 1, 800, ONE_D, 20, 4));
    check_reads(of(1, 2, 1, 700, 16, 100, 130));
}

Test(flash_sinks_backward, same_twice) { check_same_twice(of(1, 2, 1, 210, ONE_D, 200, 4)); }

PROMISES_WITH_A_WINDOW(flash_sinks_backward)
Test(flash_sinks_backward, bad_input_sinks) { refuses_sinks(); }
