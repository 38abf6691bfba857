// 10_flash_hopper.c - what flash_hopper must do: attention, causal or not, with grouped heads, D 64 and 128 (hopper.h).
#include "contract.h"

TEST_PROBLEM_FOR(flash_hopper, 9)

static wb_case full_of(int B, int Hq, int Hkv, int Nq, int Nk, int D)
{
    return (wb_case){.shape = {B, Hq, Hkv, .q_len = Nq, .kv_len = Nk, .head_dim = D}};
}

static wb_case complete_of(wb_case c) { return c; }

// Problem 04's numbers: six causal queries, of which the first sees one key and the second two.
Test(flash_hopper, worked_by_hand)
{
    wb_case c = worked(full_of(1, 2, 1, 6, 6, 64));
    c.shape.causal = 1;
    check_worked(c, "O", (double[]){1, 0}, 2, 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

#define SUITE flash_hopper
#define TILE  128
#include "hopper.h"
