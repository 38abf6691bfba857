// 05_flash_gqa.c - what flash_gqa must do: causal attention in which Hq / Hkv neighbouring query heads share one head
// of K and V.
#include "contract.h"

TEST_PROBLEM(flash_gqa)
#define of(B, Hq, Hkv, N, D) causal_case(B, Hq, Hkv, N, D, 0, 0)

// One token sees itself alone: O of each query head is V of its group's head, L its only logit. The lesson's six query
// heads, two of K and V.
Test(flash_gqa, worked_by_hand)
{
    check(1, 6, 2, 1, 16);
    const wb_case c = worked(of(1, 2, 1, 6, 16));
    const double O[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.449, 0.551};
    check_worked(c, "O", O, COUNT(O), 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

// As many heads of K and V as of Q: problem 04.
Test(flash_gqa, one_query_head_a_group) { EACH_D(check(1, 3, 3, 200, D)); }

// Hq / Hkv = 1, 2, 4, 8.
Test(flash_gqa, every_group_size)
{
    for (int group = 1; group <= 8; group *= 2) check(1, 16, 16 / group, 150, dim(group));
}

// All query heads share one head of K and V, more of them than a tile of 16 rows has.
Test(flash_gqa, one_kv_head)
{
    for (int heads = 1; heads <= 31; heads = 2 * heads + 1) check(1, heads, 1, 97, dim(heads));
}

Test(flash_gqa, many_tiles) { EACH_D(check(1, 4, 2, 512, D)); }

Test(flash_gqa, every_input) { check_every_input(of(1, 4, 2, 150, 64)); }
Test(flash_gqa, scales) { check_scales(of(1, 4, 2, 131, ANY_D)); }

Test(flash_gqa, other_fields_are_not_read) { check_unread(of(1, 4, 2, 150, 32)); }

Test(flash_gqa, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 2, 1, 640, 64), 128);
    check_skips(of(1, 4, 1, 577, 16), 100);
}

Test(flash_gqa, hidden_tiles_are_not_loaded) { check_reads(of(1, 4, 2, 640, ONE_D)); }
Test(flash_gqa, same_twice) { check_same_twice(of(1, 2, 1, 420, ONE_D)); }

// Whatever Hq / Hkv is: no copy of K or V, nothing but inputs and outputs in device memory.
Test(flash_gqa, memory_does_not_depend_on_the_group)
{
    check_no_memory(of(1, 8, 1, 129, 64));
    check_no_memory(of(2, 8, 4, 256, 16));
    check_no_memory(of(1, 1, 1, SQUARE, 16));
}

PROMISES(flash_gqa)
