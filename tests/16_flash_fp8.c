// 16_flash_fp8.c - what flash_fp8 must do: attention from e4m3 under powers of two, causal or not, with grouped heads,
// D 64, 128 and 256, added up in one level or in two. The oracle has what the bytes stand for. On a GPU that is not of
// sm_90 every test that calls it is skipped (harness.h). One level is asked until all else is right: a mistake in the
// second loses the checkpoint of the second, and what needs it.
#include "contract.h"

TEST_PROBLEM_FOR(flash_fp8, 9)

static wb_case full_of(int B, int Hq, int Hkv, int Nq, int Nk, int D)
{
    return (wb_case){.shape = {B, Hq, Hkv, .q_len = Nq, .kv_len = Nk, .head_dim = D}, .levels = 1};
}

static wb_case of(int Nq, int Nk, int D) { return full_of(1, 1, 1, Nq, Nk, D); }

static wb_case causal_of(int B, int Hq, int Hkv, int N, int D)
{
    wb_case c = full_of(B, Hq, Hkv, N, N, D);
    c.shape.causal = 1;
    return c;
}

static wb_case two_levels_of(wb_case c) { return c.levels = 2, c; }

// Problem 04's numbers, of which some have more than four bits: the lesson has what becomes of them.
Test(flash_fp8, worked_by_hand)
{
    const wb_case c = worked(causal_of(1, 2, 1, 6, 64));
    check_worked(c, "O", (double[]){1, 0}, 2, 1e-3);
    check_worked(c, "L", (double[]){0.4640, 0.9362}, 2, 3e-4);
}

// ------------------------ without a mask

// A tile of keys is used once: nothing comes round again.
Test(flash_fp8, one_tile_of_keys) { EACH_D(check(64, 64, D), check(384, 64, D)); }

// As many as the ring holds, one more, and round and round.
Test(flash_fp8, ring_goes_round)
{
    EACH_D(for (int tiles = 2; tiles <= (D == 256 ? 6 : 11); tiles++) check(64, 64 * tiles, D));
}

Test(flash_fp8, many_tiles) { EACH_D(check(384, 512, D)); }

// See harness.h: each tile's scores but the first are worked on while P V of the tile before runs.
Test(flash_fp8, softmax_under_products) { EACH_D(check_overlap(of(128, 1024, D))); }

// Rows and tiles of many sizes: each exponent where it belongs, the maximum raised on the way, and O and l with it.
Test(flash_fp8, sizes)
{
    EACH_D(check_input(of(150, 700, D), WB_SIZES), check_input(causal_of(1, 2, 1, 500, D), WB_SIZES));
}
Test(flash_fp8, sizes_that_grow)
{
    EACH_D(check_input(of(150, 600, D), WB_LEFTWARD), check_input(causal_of(1, 2, 1, 500, D), WB_LEFTWARD));
    check_input(of(64, 1000, 128), WB_FALLING);
}

// Tiles of zeros, whose exponent is the least; tiles that are nearly as small; rows of K and V with one large element;
// a head of 2^100 beside one of 2^-100; bytes that no quantiser makes.
Test(flash_fp8, special_tiles)
{
    const wb_input inputs[] = {WB_ZERO_ROWS, WB_OUTLIERS, WB_WIDE_SCALES, WB_ANY_BYTES};
    for (size_t n = 0; n < COUNT(inputs); n++) {
        check_input(full_of(2, 4, 2, 70, 500, dim(n)), inputs[n]);
        check_input(causal_of(1, 4, 2, 300, dim(n + 1)), inputs[n]);
    }
}

// V of mean 1 shows what sums lose: with one level a hundredth at 1024 keys, with two never much more. The longest are
// beyond what one may have.
Test(flash_fp8, levels)
{
    EACH_D(check_input(of(70, 2100, D), WB_MEAN_ONE), check_input(two_levels_of(of(70, 2100, D)), WB_MEAN_ONE));
    EACH_D(check_input(two_levels_of(of(32, on_cpu_backend() ? 16384 : 65536, D)), WB_MEAN_ONE));
    check_input(two_levels_of(causal_of(1, 1, 1, on_cpu_backend() ? 6000 : 12000, 64)), WB_MEAN_ONE);
}

// Sums that move to float32 before the maximum is raised and after it; a head's first where another's O has just left;
// rings that are shorter, round and round; all that heads and masks do.
Test(flash_fp8, two_levels)
{
    EACH_D(check_input(two_levels_of(of(100, 2000, D)), WB_SIZES));
    EACH_D(check_input(two_levels_of(of(100, 1900, D)), WB_LEFTWARD));
    EACH_D(check_input(two_levels_of(causal_of(1, 2, 1, 500, D)), WB_LEFTWARD));
    check_input(two_levels_of(of(64, 3000, 64)), WB_FALLING);
    check_input(two_levels_of(full_of(2, 4, 2, 70, 500, 128)), WB_ZERO_ROWS);
    check_input(two_levels_of(causal_of(1, 4, 2, 1000, 64)), WB_ANY_BYTES);
    for (int tiles = 1; tiles <= 6; tiles++) check_case(two_levels_of(of(64, 64 * tiles - 3, 256)));
    check_overlap(two_levels_of(of(128, 1024, 128)));
}

// Scores that outgrow the maximum at each tile, or never, or once.
Test(flash_fp8, every_input)
{
    check_every_input(of(100, 450, 64));
    check_every_input(causal_of(1, 2, 1, 270, 128));
}

Test(flash_fp8, ragged_keys) { EACH_N(check(100, N, D)); }

// ------------------------ with one

Test(flash_fp8, causal_one_tile)
{
    EACH_D(check_case(causal_of(1, 1, 1, 64, D)), check_case(causal_of(1, 1, 1, 128, D)));
}
Test(flash_fp8, causal_many_tiles) { EACH_D(check_case(causal_of(1, 1, 1, 576, D))); }
Test(flash_fp8, causal_ragged)
{
    EACH_N(check_case(causal_of(1, 2, 1, N, D)));
    EACH_D(check_case(causal_of(1, 1, 1, 500, D)));
}

// ------------------------ heads and batches

Test(flash_fp8, every_group_size)
{
    for (int group = 1; group <= 8; group *= 2) {
        check_case(full_of(1, 8, 8 / group, 70, 150, dim(group % 4 / 2)));
        check_case(causal_of(1, 8, 8 / group, 150, dim(group)));
    }
}

Test(flash_fp8, very_many_heads) { check_many_heads(full_of(1, 1, 1, 1, 1, 64)); }

// ------------------------ numbers

Test(flash_fp8, scales)
{
    check_scales(of(70, 300, ANY_D));
    check_scales(causal_of(1, 2, 1, 200, ANY_D));
}

// ------------------------ promises

Test(flash_fp8, other_fields_are_not_read) { check_unread(two_levels_of(causal_of(1, 4, 2, 150, 64))); }

// See harness.h: tiles right of the diagonal are not computed, nor loaded.
Test(flash_fp8, hidden_tiles_are_not_computed)
{
    check_skips(causal_of(1, 2, 1, 640, 64), 64);
    check_skips(causal_of(1, 1, 1, 577, 128), 100);
}

Test(flash_fp8, hidden_tiles_are_not_loaded) { EACH_D(check_reads(causal_of(1, 2, 1, D == 256 ? 576 : 1024, D))); }
// See harness.h: nor multiplied by a warpgroup that does not see them; and the longest rows come first.
Test(flash_fp8, hidden_tiles_are_not_multiplied) { EACH_D(check_triangle(causal_of(1, 2, 1, 768, D))); }
Test(flash_fp8, drawn_sizes) { check_drawn(700); }
Test(flash_fp8, own_stream) { check_stream(two_levels_of(causal_of(2, 4, 2, 150, 64))); }

Test(flash_fp8, same_twice)
{
    check_same_twice(two_levels_of(causal_of(1, 2, 1, 600, 64)));
    EACH_D(check_same_twice(two_levels_of(full_of(1, 2, 1, 100, 600, D))));
}

// No copy of K or V, nothing but inputs and outputs in device memory.
Test(flash_fp8, no_memory_beside)
{
    check_no_memory(two_levels_of(causal_of(1, 8, 1, 129, 64)));
    check_no_memory(two_levels_of(of(2560, 2560, 64)));
    check_beyond_int(two_levels_of(full_of(1, 64, 64, 2, 300001, 128)));
}

Test(flash_fp8, shifted_tensors) { check_shifted(two_levels_of(causal_of(1, 4, 2, 53, ANY_D))); }

BAD_INPUT(flash_fp8)
Test(flash_fp8, bad_input_mask) { refuses_other_lengths(); }
Test(flash_fp8, bad_input_levels)
{
    const int others[] = {0, -1, 3, INT_MAX};
    for (size_t i = 0; i < COUNT(others); i++) REFUSED(levels, others[i], WB_BAD_ARGUMENT, "levels");
}
