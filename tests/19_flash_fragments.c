// 19_flash_fragments.c - what flash_fragments must do: what 03 does, and fetch its fragments without bank conflicts.
#include "contract.h"

TEST_PROBLEM(flash_fragments)

static wb_case of(int batch, int heads, int Nq, int Nk, int D)
{
    return (wb_case){.shape = {.batch = batch, .q_heads = heads, .q_len = Nq, .kv_len = Nk, .head_dim = D}};
}

// q = [1, 0] against three keys, as the lesson computes it; two columns, padded with zeros to 16.
Test(flash_fragments, worked_by_hand)
{
    wb_case c = of(1, 1, 1, 3, 16);
    c.shape.scale = 1;
    c.input = WB_WORKED_1;
    check_worked(c, "O", (double[]){0.4421, 0.5579}, 2, 4e-3);
    check_worked(c, "L", (double[]){1.6053}, 1, 1e-3);  // 0.8 + log(2.2374)
}

// Checkpoints on the way: O of one tile of keys, of many, then L.
Test(flash_fragments, O_of_one_tile) { check_output(of(1, 1, 128, 64, 64), "O"); }

Test(flash_fragments, O_of_many_tiles)
{
    wb_case c = of(1, 1, 128, 384, 64);
    const wb_input inputs[] = {WB_NORMAL, WB_HUGE, WB_TINY, WB_EARLY_MAX, WB_LATE_MAX, WB_STAIRS};
    for (size_t n = 0; n < COUNT(inputs); n++) c.input = inputs[n], check_output(c, "O");
}

Test(flash_fragments, L_of_one_tile) { check_output(of(1, 1, 128, 64, 64), "L"); }

// A single key has the weight 1: O is its value, L its logit.
Test(flash_fragments, one_key) { EACH_D(check(1, 1, 5, 1, D)); }

Test(flash_fragments, one_tile) { check(1, 1, 128, 64, 64); }
Test(flash_fragments, two_key_tiles) { check(1, 1, 128, 128, 64); }
Test(flash_fragments, many_tiles) { check(1, 1, 384, 640, 64); }

Test(flash_fragments, every_head_dim) { EACH_D(check(1, 2, 256, 384, D)); }

Test(flash_fragments, ragged_keys) { EACH_N(check(1, 1, 32, N, D)); }

Test(flash_fragments, ragged_both)
{
    const int shapes[][2] = {{1, 1}, {1, 257}, {257, 1}, {131, 67}, {67, 131}, {129, 129}, {127, 383}};
    for (size_t i = 0; i < COUNT(shapes); i++) EACH_D(check(1, 1, shapes[i][0], shapes[i][1], D));
}

// Logits of 100 and more, of -100 and less, the largest in the first key and in the last, climbing, all alike. Odd
// lengths, and enough keys for several tiles.
Test(flash_fragments, every_input) { check_every_input(of(1, 1, 67, 299, 64)); }

// See harness.h: of each head dimension, for rows of 32 to 256 bytes; first of 64.
Test(flash_fragments, fragments_without_conflicts)
{
    for (size_t n = 0; n < head_dims(); n++) check_fetches(of(1, 1, 128, 128, dim(n + 2)));
}

Test(flash_fragments, scales) { check_scales(of(1, 2, 65, 131, ANY_D)); }

Test(flash_fragments, own_stream) { check_stream(of(2, 2, 100, 150, 64)); }
Test(flash_fragments, same_twice) { check_same_twice(of(1, 2, 67, 450, ONE_D)); }

Test(flash_fragments, memory)
{
    check_no_memory(of(1, 1, SQUARE, SQUARE, 16));
    check_beyond_int(of(1, 64, 2, 300001, 128));
}

Test(flash_fragments, shifted_tensors) { check_shifted(of(1, 2, 35, 53, ANY_D)); }
BAD_INPUT(flash_fragments, {
    REFUSED(shape.q_heads, 4, WB_UNSUPPORTED, "grouped");
    REFUSED(shape.causal, 1, WB_UNSUPPORTED, "causal");
})

// What nothing before has asked: whatever else fits the contract.
Test(flash_fragments, drawn_sizes) { check_random(); }
