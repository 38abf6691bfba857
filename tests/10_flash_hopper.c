// 10_flash_hopper.c - what flash_hopper must do: attention, causal or not, with grouped heads, D 64 and 128. On a GPU
// that is not of sm_90 every test that calls it is skipped (harness.h), and says so.
#include "contract.h"

TEST_PROBLEM_FOR(flash_hopper, 9)

static wb_case of(int Nq, int Nk, int D) { return (wb_case){.shape = {.q_len = Nq, .kv_len = Nk, .head_dim = D}}; }

static wb_case causal_of(int B, int Hq, int Hkv, int N, int D)
{
    return (wb_case){.shape = {.batch = B, .q_heads = Hq, .kv_heads = Hkv, .q_len = N, .head_dim = D, .causal = 1}};
}

static wb_case full_of(int B, int Hq, int Hkv, int Nq, int Nk, int D)
{
    return (wb_case){.shape = {B, Hq, Hkv, .q_len = Nq, .kv_len = Nk, .head_dim = D}};
}

// Problem 04's numbers: six causal queries, of which the first sees one key and the second two.
Test(flash_hopper, worked_by_hand)
{
    const wb_case c = worked(causal_of(1, 2, 1, 6, 64));
    check_worked(c, "O", (double[]){1, 0}, 2, 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

// ------------------------ without a mask

// A tile of keys is used once: nothing comes round again.
Test(flash_hopper, one_tile_of_keys) { EACH_D(check(128, 128, D), check(384, 128, D)); }

// As many as the ring holds, one more, and round and round.
Test(flash_hopper, ring_goes_round) { EACH_D(for (int tiles = 2; tiles <= 7; tiles++) check(64, 128 * tiles, D)); }

Test(flash_hopper, many_tiles) { EACH_D(check(384, 512, D)); }

// See harness.h: each tile's scores but the first are worked on while P V of the tile before runs.
Test(flash_hopper, softmax_under_products) { EACH_D(check_overlap(of(128, 1024, D))); }

// Scores that outgrow the maximum at each tile, or never, or once.
Test(flash_hopper, every_input)
{
    check_every_input(of(100, 450, 64));
    check_every_input(causal_of(1, 2, 1, 270, 128));
}

Test(flash_hopper, ragged_keys) { EACH_N(check(100, N, D)); }

// ------------------------ with one

Test(flash_hopper, causal_one_tile)
{
    EACH_D(check_case(causal_of(1, 1, 1, 64, D)), check_case(causal_of(1, 1, 1, 128, D)));
}
Test(flash_hopper, causal_many_tiles) { EACH_D(check_case(causal_of(1, 1, 1, 576, D))); }
Test(flash_hopper, causal_ragged)
{
    EACH_N(check_case(causal_of(1, 2, 1, N, D)));
    EACH_D(check_case(causal_of(1, 1, 1, 500, D)));
}

// ------------------------ heads and batches

Test(flash_hopper, every_group_size)
{
    for (int group = 1; group <= 8; group *= 2) {
        check_case(full_of(1, 8, 8 / group, 70, 150, dim(group % 4 / 2)));
        check_case(causal_of(1, 8, 8 / group, 150, dim(group % 4 / 2 + 1)));
    }
}

Test(flash_hopper, very_many_heads) { check_many_heads(full_of(1, 1, 1, 1, 1, 64)); }

// ------------------------ numbers

Test(flash_hopper, scales)
{
    check_scales(of(70, 300, ANY_D));
    check_scales(causal_of(1, 2, 1, 200, ANY_D));
}

// ------------------------ promises

Test(flash_hopper, other_fields_are_not_read) { check_unread(causal_of(1, 4, 2, 150, 64)); }

// See harness.h: tiles right of the diagonal are not computed, nor loaded.
Test(flash_hopper, hidden_tiles_are_not_computed)
{
    check_skips(causal_of(1, 2, 1, 640, 64), 64);
    check_skips(causal_of(1, 1, 1, 577, 128), 100);
}

Test(flash_hopper, hidden_tiles_are_not_loaded) { EACH_D(check_reads(causal_of(1, 2, 1, 1024, D))); }
// See harness.h: nor multiplied by a warpgroup that does not see them; and the longest rows come first.
Test(flash_hopper, hidden_tiles_are_not_multiplied) { EACH_D(check_triangle(causal_of(1, 2, 1, 768, D))); }
Test(flash_hopper, drawn_sizes) { check_drawn(700); }

Test(flash_hopper, own_stream) { check_stream(causal_of(2, 4, 2, 150, 64)); }

Test(flash_hopper, same_twice)
{
    EACH_D(check_same_twice(causal_of(1, 2, 1, 600, D)), check_same_twice(full_of(1, 2, 1, 100, 600, D)));
}

// No copy of K or V, nothing but inputs and outputs in device memory.
Test(flash_hopper, no_memory_beside)
{
    check_no_memory(causal_of(1, 8, 1, 129, 64));
    check_no_memory(of(2560, 2560, 64));
    check_beyond_int(full_of(1, 64, 64, 2, 300001, 128));
}

Test(flash_hopper, shifted_tensors) { check_shifted(causal_of(1, 4, 2, 53, ANY_D)); }

BAD_INPUT(flash_hopper)
Test(flash_hopper, bad_input_mask) { refuses_other_lengths(); }
