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
Test(flash_hopper, one_tile_of_keys)
{
    EACH_D(check(128, 128, D));
    EACH_D(check(384, 128, D));
}

// As many as the ring holds, one more, and round and round.
Test(flash_hopper, ring_goes_round)
{
    for (size_t d = 0; d < head_dims(); d++)
        for (int tiles = 2; tiles <= 7; tiles++) check(64, 128 * tiles, dim(d));
    check(128, 4096, 64);
}

Test(flash_hopper, many_tiles) { EACH_D(check(512, 512, D)); }

// See harness.h: each tile's scores but the first are worked on while P V of the tile before runs.
Test(flash_hopper, softmax_under_products) { EACH_D(check_overlap(of(200, 1024, D))); }

// Scores that outgrow the maximum at each tile, or never, or once.
Test(flash_hopper, every_input)
{
    EACH_D(check_every_input(of(100, 450, D)));
    EACH_D(check_every_input(causal_of(1, 2, 1, 270, D)));
}

Test(flash_hopper, ragged_keys)
{
    const int N[] = {1, 2, 7, 15, 16, 17, 63, 64, 65, 127, 129, 191, 193, 255, 257, 300, 385};
    for (size_t i = 0; i < COUNT(N); i++) check(100, N[i], dim(i));
}

// ------------------------ with one

Test(flash_hopper, causal_one_tile)
{
    EACH_D(check_case(causal_of(1, 1, 1, 128, D)));
    EACH_D(check_case(causal_of(1, 1, 1, 64, D)));
}

Test(flash_hopper, causal_many_tiles)
{
    EACH_D(check_case(causal_of(1, 1, 1, 576, D)));
    EACH_D(check_case(causal_of(1, 1, 1, 1024, D)));
}

Test(flash_hopper, causal_ragged)
{
    const int N[] = {1, 2, 7, 15, 16, 17, 63, 65, 127, 129, 191, 193, 255, 257, 319, 321, 383, 385, 500};
    for (size_t i = 0; i < COUNT(N); i++) check_case(causal_of(1, 2, 1, N[i], dim(i)));
    for (size_t i = 0; i < COUNT(N); i++) check_case(causal_of(1, 1, 1, N[i], dim(i + 1)));
}

// ------------------------ heads and batches

Test(flash_hopper, every_group_size)
{
    for (int group = 1; group <= 8; group *= 2) check_case(full_of(1, 8, 8 / group, 70, 150, dim(group % 4 / 2)));
    for (int group = 1; group <= 8; group *= 2) check_case(causal_of(1, 8, 8 / group, 150, dim(group % 4 / 2)));
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

Test(flash_hopper, own_stream)
{
    check_stream(causal_of(2, 4, 2, 150, 64));
    check_stream(full_of(1, 2, 2, 100, 300, 128));
}

Test(flash_hopper, same_twice)
{
    EACH_D(check_same_twice(causal_of(1, 2, 1, 600, D)));
    EACH_D(check_same_twice(full_of(1, 2, 1, 200, 600, D)));
}

// No copy of K or V, nothing but inputs and outputs in device memory.
Test(flash_hopper, no_memory_beside)
{
    for (int group = 1; group <= 8; group *= 2) check_no_memory(causal_of(1, 8, 8 / group, 129, 64));
    // A matrix of scores would be 25 MiB, half of it in bf16, wherever it lay.
    check_no_memory(of(2560, 2560, 64));
    check_beyond_int(full_of(1, 64, 64, 2, 300001, 128));
}

Test(flash_hopper, shifted_tensors)
{
    check_shifted(of(70, 53, ANY_D));
    check_shifted(causal_of(1, 4, 2, 53, ANY_D));
}

Test(flash_hopper, bad_input_null) { refuses_null(); }
Test(flash_hopper, bad_input_sizes) { refuses_sizes(); }
Test(flash_hopper, bad_input_scale) { refuses_scales(); }
Test(flash_hopper, bad_input_mask) { refuses_other_lengths(); }
Test(flash_hopper, bad_input_alignment) { refuses_misaligned(); }
