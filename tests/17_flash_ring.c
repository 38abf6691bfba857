// 17_flash_ring.c - flash_ring: attention over a sequence that lies on several ranks (ring.h).
#include "contract.h"

TEST_PROBLEM(flash_ring)

static wb_case of(int R, int causal, int B, int Hq, int Hkv, int N, int D)
{
    return (wb_case){.shape = {B, Hq, Hkv, .q_len = N, .head_dim = D, .causal = causal}, .ranks = R};
}

// 10's numbers, four of whose rows are on each of three ranks; the first rank has the first row and the last one.
Test(flash_ring, worked_by_hand)
{
    const wb_case c = worked(of(ranks_or_one(3), 1, 1, 2, 1, 6, 64));
    check_worked(c, "O", (double[]){1, 0}, 2, 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

#define SUITE flash_ring
#include "ring.h"

// workbook.h: 8 rows of Hkv D numbers of 2 bytes, 6 of Hq D.
Test(flash_ring, memory) { check_memory_of_ranks(64 * (8 * 2 + 6 * 4) * 2); }
