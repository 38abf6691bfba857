// 04_flash_causal.c - what flash_causal must do: query i sees the keys 0 to i.
#include "contract.h"

TEST_PROBLEM(flash_causal)
#define of(B, H, N, D) causal_case(B, H, H, N, D, 0, 0)

// Six tokens, as the lesson computes them: the first sees itself alone, so its output is its value; the second sees two
// keys. In the first row a mask with < for <= would leave nothing.
Test(flash_causal, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 6, 16));
    const double O[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.449, 0.551};
    check_worked(c, "O", O, COUNT(O), 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

Test(flash_causal, one_token) { EACH_D(check(1, 2, 1, D)); }

// Nothing but a diagonal tile.
Test(flash_causal, one_tile)
{
    check(1, 1, 64, 64);
    check(1, 1, 128, 64);
}

Test(flash_causal, many_tiles) { check(1, 1, 768, 64); }

Test(flash_causal, every_head_dim) { EACH_D(check(1, 2, 384, D)); }

// Among them WB_RISING: hidden keys tower up to 200 above all visible ones, so a mask that comes after exp, or a weight
// of 0 that has already moved the maximum, shows.
Test(flash_causal, every_input) { check_every_input(of(1, 2, 299, 64)); }

Test(flash_causal, scales) { check_scales(of(1, 2, 131, ANY_D)); }

Test(flash_causal, other_fields_are_not_read) { check_unread(of(1, 2, 150, 32)); }

Test(flash_causal, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 640, ONE_D), 128);
    check_skips(of(2, 2, 577, 16), 100);
}

Test(flash_causal, hidden_tiles_are_not_loaded)
{
    check_reads(of(1, 2, 640, ONE_D));
    check_reads(of(1, 1, 999, 16));
}

Test(flash_causal, same_twice) { check_same_twice(of(1, 1, 420, ONE_D)); }

Test(flash_causal, memory) { check_no_memory(of(1, 1, SQUARE, 16)); }
PROMISES(flash_causal)
Test(flash_causal, bad_input_groups) { REFUSED(shape.kv_heads, 1, WB_UNSUPPORTED, "grouped"); }
