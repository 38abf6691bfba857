// 08_flash_gqa_backward.c - what flash_gqa_backward must do. dQ, dK, dV and delta are judged one by one. The first
// tests ask for one output alone, in the order in which the gaps can be filled; from whole_function on, for all.
#include "contract.h"

TEST_PROBLEM(flash_gqa_backward)
#define of(B, Hq, Hkv, N, D) causal_case(B, Hq, Hkv, N, D, 0, 0)

// ------------------------ one gap at a time

Test(flash_gqa_backward, delta) { EACH_D(check_output(of(2, 3, 1, 77, D), "delta")); }

// The only weight of a query that sees one key is 1: dV of one key is dO.
Test(flash_gqa_backward, dv_of_one_key) { EACH_D(check_output(of(2, 2, 2, 1, D), "dV")); }

// dV = P^T dO, so P is seen in dV: on the diagonal, below it, in a ragged tile.
Test(flash_gqa_backward, recompute_one_tile) { EACH_D(check_output(of(1, 2, 2, 16, D), "dV")); }
Test(flash_gqa_backward, recompute_many_tiles) { EACH_D(check_output(of(1, 2, 2, 201, D), "dV")); }

// dK = scale dS^T Q shows dS. In the first case a wrong delta would not: dS is then of the first query's block alone.
Test(flash_gqa_backward, dk_one_tile) { EACH_D(check_output(of(1, 2, 2, 16, D), "dK")); }
Test(flash_gqa_backward, dk_many_tiles) { EACH_D(check_output(of(1, 2, 2, 201, D), "dK")); }
Test(flash_gqa_backward, dq_one_tile) { EACH_D(check_output(of(1, 2, 2, 16, D), "dQ")); }
Test(flash_gqa_backward, dq_many_tiles) { EACH_D(check_output(of(1, 2, 2, 201, D), "dQ")); }

// dK and dV are sums over the query heads of a group.
Test(flash_gqa_backward, group_sum_of_dv) { check_output(of(2, 6, 2, 70, 64), "dV"); }
Test(flash_gqa_backward, group_sum_of_dk) { check_output(of(2, 6, 2, 70, 64), "dK"); }

// ------------------------ whole_function

Test(flash_gqa_backward, whole_function) { EACH_D(check(1, 2, 1, 130, D)); }

// Two queries, two keys, as the lesson computes them.
Test(flash_gqa_backward, worked_by_hand)
{
    const wb_case c = worked(of(1, 1, 1, 2, 16));
    check_worked(c, "delta", (double[]){1, 0.1734}, 2, 4e-3);
    check_worked(c, "dV", (double[]){1.4489, -0.7245}, 2, 8e-3);
    check_worked(c, "dK", (double[]){0.2099, -0.0262}, 2, 2e-3);
    check_worked(c, "dQ", (double[]){0, 0, [16] = -0.0787, 0.1312}, 18, 2e-3);
}

// A query that sees one key: P = 1 whatever the logit, so dS, dQ and dK are 0.
Test(flash_gqa_backward, one_key) { EACH_D(check(3, 2, 1, 1, D)); }

// Logits of 140 and of -140, the largest in the first key and in the last, climbing so that hidden keys tower above
// visible ones, falling, all alike: odd lengths.
Test(flash_gqa_backward, every_input) { check_every_input(of(1, 2, 1, 99, 64)); }

GRADIENTS(flash_gqa_backward)

Test(flash_gqa_backward, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 1, 560, ONE_D), 280);
    check_skips(of(1, 2, 1, 400, 16), 130);
}

Test(flash_gqa_backward, hidden_tiles_are_not_loaded) { check_reads(of(1, 1, 1, 560, ONE_D)); }
Test(flash_gqa_backward, same_twice) { check_same_twice(of(1, 2, 1, 210, ONE_D)); }

// delta is the only work space.
Test(flash_gqa_backward, memory) { check_no_memory(of(1, 1, 1, SQUARE, 16)); }

PROMISES(flash_gqa_backward)
