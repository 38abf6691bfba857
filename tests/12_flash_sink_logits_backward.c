// 12_flash_sink_logits_backward.c - what flash_sink_logits_backward must do: the gradient of causal attention with a
// window and with a learned logit a head in the denominator. dQ, dK, dV, dsinks and delta are judged one by one. The
// first tests ask for one kernel alone; from whole_function on, for everything.
#include "contract.h"

#include <float.h>

TEST_PROBLEM(flash_sink_logits_backward)
#define of(B, Hq, Hkv, N, D, W) causal_case(B, Hq, Hkv, N, D, W, 0)

// ------------------------ one kernel at a time

Test(flash_sink_logits_backward, window_dv) { EACH_D(check_output(of(1, 2, 1, 201, D, 50), "dV")); }
Test(flash_sink_logits_backward, window_dk) { EACH_D(check_output(of(1, 2, 1, 201, D, 50), "dK")); }
Test(flash_sink_logits_backward, window_dq) { EACH_D(check_output(of(1, 2, 1, 201, D, 50), "dQ")); }

// One token: thread 0 of a head has its only row, or one row of each batch, and nothing is left to add up.
Test(flash_sink_logits_backward, ds_of_one_token)
{
    check_output(of(1, 1, 1, 1, 16, 1), "dsinks");
    check_output(of(1, 6, 2, 1, 64, 1), "dsinks");
    check_output(of(7, 4, 2, 1, 16, 1), "dsinks");
}

// Rows for one warp, for all warps, and several for each thread; heads that share a key head, and batches.
Test(flash_sink_logits_backward, ds_of_many_rows)
{
    check_output(of(1, 2, 1, 20, 16, 9), "dsinks");
    check_output(of(1, 6, 3, 300, 16, 9), "dsinks");
    check_output(of(2, 2, 1, 1100, 16, 5), "dsinks");
}

// ------------------------ whole_function

Test(flash_sink_logits_backward, whole_function) { EACH_D(check(1, 2, 1, 260, D, 64)); }

// Three tokens, W = 2, s = 0.5, as the lesson computes them.
Test(flash_sink_logits_backward, worked_by_hand)
{
    const wb_case c = worked(with_logit(of(1, 1, 1, 3, 16, 2), 0.5f));
    check_worked(c, "delta", (double[]){0.4899, 0.1047, -0.0460}, 3, 4e-3);
    check_worked(c, "dsinks", (double[]){-0.2746}, 1, 2e-3);
    check_worked(c, "dV", (double[]){0.7609, -0.3805, [16] = 0.6059, -0.3030}, 18, 8e-3);
    check_worked(c, "dQ", (double[]){0.0530, 0.1237, [16] = -0.0339, 0.0917, [32] = -0.0602, 0.0431}, 34, 2e-3);
    check_worked(c, "dK", (double[]){0.3140, 0.0712, [16] = -0.1313, -0.0647}, 18, 2e-3);
}

// A query that sees one key still has a choice, between the key and the sink: its dS is not 0, as it was in 09.
Test(flash_sink_logits_backward, one_visible_key) { EACH_D(check(2, 2, 1, 1, D, 1), check(1, 2, 1, 150, D, 1)); }

Test(flash_sink_logits_backward, no_window) { EACH_D(check(1, 4, 2, 131, D, INT_MAX)); }

Test(flash_sink_logits_backward, every_window)
{
    for (int W = 1; W <= 10; W++) check(1, 2, 1, 9, dim(W), W);
    EACH_N(check(1, 1, 1, 200, D, N));
}

// As many rows as a block has threads, and around; more in each batch, and in more batches.
Test(flash_sink_logits_backward, many_rows)
{
    EACH_N(check_output(of(1, 1, 1, N, D, 3), "dsinks"));
    for (int rows = 511; rows <= 513; rows++) check_output(of(1, 1, 1, rows, 16, 3), "dsinks");
    check_output(of(40, 3, 1, 30, 16, 20), "dsinks");
}

// Logits of all sizes: no sink at all, one that is not to be seen, equal ones, and one that takes nearly all the
// weight, so that O is nearly 0. 0 is a logit like any other. From 89 on exp(s) is no float.
Test(flash_sink_logits_backward, every_logit)
{
    const float logits[] = {-INFINITY, -300, -80, -20, -7, -1, 0, 1, 7, 12, 20, 80, 300, 400, 1e30f, FLT_MAX};
    for (size_t i = 0; i < COUNT(logits); i++) check_case(with_logit(of(1, 2, 1, 90, dim(i), 30), logits[i]));
    check_case(with_mixed_logits(of(2, 12, 2, 70, 16, 30)));
    check_input(with_logit(of(1, 2, 1, 90, 16, 30), 1004), WB_TOWER);  // as large as the scores
}

// Hostile inputs, of which some drive L to +-100 and further, under logits that are moderate, missing and mixed.
Test(flash_sink_logits_backward, every_input)
{
    check_every_input(of(1, 1, 1, 150, 64, 40));
    check_every_input(with_logit(of(1, 1, 1, 90, 16, 20), -INFINITY));
    check_every_input(with_mixed_logits(of(1, 6, 2, 60, 16, 7)));
}

GRADIENTS(flash_sink_logits_backward)

Test(flash_sink_logits_backward, other_fields_are_not_read) { check_unread(of(1, 4, 2, 150, 64, 20)); }

Test(flash_sink_logits_backward, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 1, 640, ONE_D, 20), 210);
    check_less_work(of(1, 1, 1, 512, 16, 1));
}

// A walk without the bound of the window gives the right numbers, slowly.
Test(flash_sink_logits_backward, hidden_tiles_are_not_loaded)
{
    check_reads(of(1, 1, 1, 640, ONE_D, 20));
    check_reads(of(1, 2, 1, 900, 16, 100));
}

// In the last case the sums of ds have many terms of both signs; in the others keys tower above the sink.
Test(flash_sink_logits_backward, same_twice)
{
    check_same_twice(of(1, 2, 1, 210, ONE_D, 200));
    wb_case c = of(2, 1, 1, 700, 16, 2);
    c.input = WB_FLAT;
    check_same_twice(c);
}

PROMISES_WITH_A_WINDOW(flash_sink_logits_backward)
