// 18_flash_ring_backward.c - flash_ring_backward: the gradients of attention over a sequence that lies on several ranks
// (ring.h). dQ, dK, dV and delta are judged one by one.
#include "contract.h"

TEST_PROBLEM(flash_ring_backward)

static wb_case of(int R, int causal, int B, int Hq, int Hkv, int N, int D)
{
    return (wb_case){.shape = {B, Hq, Hkv, .q_len = N, .head_dim = D, .causal = causal}, .ranks = R};
}

// 08's two queries and two keys, on two ranks.
Test(flash_ring_backward, worked_by_hand)
{
    const wb_case c = worked(of(ranks_or_one(2), 1, 1, 1, 1, 2, 64));
    check_worked(c, "delta", (double[]){1, 0.1734}, 2, 4e-3);
    check_worked(c, "dV", (double[]){1.4489, -0.7245}, 2, 8e-3);
    check_worked(c, "dK", (double[]){0.2099, -0.0262}, 2, 2e-3);
    check_worked(c, "dQ", (double[]){0, 0, [64] = -0.0787, 0.1312}, 66, 2e-3);
}

// ------------------------ one output at a time

Test(flash_ring_backward, delta) { EACH_D(check_output(of(1, 1, 2, 4, 2, 50, D), "delta")); }
Test(flash_ring_backward, dq_of_one_rank) { EACH_D(EACH_MASK(check_output(of(1, causal, 1, 2, 1, 41, D), "dQ"))); }

// Keys travel: every query has met all that it sees, whatever became of their gradients.
Test(flash_ring_backward, dq_of_ranks)
{
    for (int R = 2; R <= 4 && may_have_ranks(R); R++)
        EACH_MASK(check_output(of(R, causal, 1, 2, 1, 8 * R + 1, dim(R)), "dQ"));
}

// ------------------------ all

#define SUITE flash_ring_backward
#include "ring.h"

// No gradient comes in, none goes out. And gradients are linear in it.
Test(flash_ring_backward, twice_do)
{
    EACH_MASK(check_input(of(ranks_or_one(3), causal, 1, 2, 1, 31, 64), WB_ZERO_DO));
    check_doubles(of(ranks_or_one(3), 1, 1, 2, 1, 37, 64));
}

// Forward and backward as one function: the oracle's forward changes as these gradients say.
Test(flash_ring_backward, descends) { EACH_MASK(check_descends(of(ranks_or_one(4), causal, 1, 2, 1, 21, 64))); }

// workbook.h: 16 rows of Hkv D numbers of 2 bytes, 2 of Hq D, and half as much again for other ways.
Test(flash_ring_backward, memory) { check_memory_of_ranks(64 * (16 * 2 + 2 * 4) * 2 * 3 / 2); }
