// hopper.h - the tests of attention on Hopper's own units, causal or not, with grouped heads: 10 and 16. A suite says
// what it is called, SUITE, how many keys a tile has, TILE, and how a case of it is written, full_of(), also where all
// that is to be done counts, complete_of(), and includes this among its own tests. On a GPU that is not of sm_90 every
// test that calls the function is skipped (harness.h), and says so.
#pragma once

#include "contract.h"

static wb_case of(int Nq, int Nk, int D) { return full_of(1, 1, 1, Nq, Nk, D); }

static wb_case causal_of(int B, int Hq, int Hkv, int N, int D)
{
    wb_case c = full_of(B, Hq, Hkv, N, N, D);
    c.shape.causal = 1;
    return c;
}

// ------------------------ without a mask

// A tile of keys is used once: nothing comes round again.
Test(SUITE, one_tile_of_keys) { EACH_D(check(64, TILE, D), check(384, TILE, D)); }

// As many as the ring holds, one more, and round and round.
Test(SUITE, ring_goes_round)
{
    const int tiles[] = {3, 4, 5, 6, 11};
    for (size_t n = 0; n < COUNT(tiles); n++) EACH_D(check(64, TILE * tiles[n], D));
}

// See harness.h: each tile's scores but the first are worked on while P V of the tile before runs.
Test(SUITE, softmax_under_products) { EACH_D(check_overlap(of(128, 8 * TILE, D))); }

// Scores that outgrow the maximum at each tile, or never, or once.
Test(SUITE, every_input)
{
    check_every_input(of(70, 3 * TILE + 10, 64));
    check_every_input(causal_of(1, 1, 1, 2 * TILE + 14, 128));
}

Test(SUITE, ragged_keys) { EACH_N(check(100, N, D)); }

// ------------------------ with one

Test(SUITE, causal_one_tile) { EACH_D(check_case(causal_of(1, 1, 1, 64, D)), check_case(causal_of(1, 1, 1, 128, D))); }
Test(SUITE, causal_many_tiles) { EACH_D(check_case(causal_of(1, 1, 1, 448, D))); }
Test(SUITE, causal_ragged) { EACH_N(check_case(causal_of(1, 1, 1, N, D))); }

// ------------------------ heads, batches, scales

Test(SUITE, every_group_size)
{
    for (int group = 1; group <= 8; group *= 2) {
        const int kv_heads = group < 8 ? 2 : 1;
        check_case(full_of(1, kv_heads * group, kv_heads, 40, 70, dim(group % 4 / 2)));
        check_case(causal_of(1, kv_heads * group, kv_heads, 70, dim(group % 4 / 2 + 1)));
    }
}

Test(SUITE, scales)
{
    check_scales(of(70, 150, ANY_D));
    check_scales(causal_of(1, 1, 1, 150, ANY_D));
}

// ------------------------ promises

Test(SUITE, other_fields_are_not_read) { check_unread(complete_of(causal_of(1, 4, 2, 150, 64))); }

// See harness.h: tiles right of the diagonal are not computed, nor loaded.
Test(SUITE, hidden_tiles_are_not_computed)
{
    check_skips(causal_of(1, 1, 1, 640, 64), 190);
    check_skips(causal_of(1, 2, 1, 450, 128), 150);
}

Test(SUITE, hidden_tiles_are_not_loaded) { check_reads(causal_of(1, 1, 1, ONE_D == 256 ? 448 : 640, ONE_D)); }
// See harness.h: nor multiplied by a warpgroup that does not see them; and the longest rows come first.
Test(SUITE, hidden_tiles_are_not_multiplied) { EACH_D(check_triangle(causal_of(1 + !each, 1 + !each, 1, 768, D))); }
Test(SUITE, own_stream) { check_stream(complete_of(causal_of(2, 4, 2, 150, 64))); }

Test(SUITE, same_twice)
{
    check_same_twice(complete_of(causal_of(1, 2, 1, 300, 128)));
    check_same_twice(complete_of(of(70, 3 * TILE, ONE_D)));
}

// No copy of K or V.
Test(SUITE, no_memory_beside)
{
    check_no_memory(complete_of(causal_of(1, 8, 1, 129, 64)));
    check_no_memory(complete_of(of(SQUARE, SQUARE, 64)));
    check_beyond_int(complete_of(full_of(1, 64, 64, 2, 300001, 128)));
}

Test(SUITE, shifted_tensors) { check_shifted(complete_of(causal_of(1, 4, 2, 53, ANY_D))); }
BAD_INPUT(SUITE)
Test(SUITE, bad_input_mask) { refuses_other_lengths(); }
