// forward.h - the tests of full attention: 03, and 19, which is 03 with other means. A suite says what it is called,
// SUITE, and includes this among its own tests. Most lengths are multiples of nothing: the assignment's own all were of
// 128.
#pragma once

#include "contract.h"

static wb_case of(int batch, int heads, int Nq, int Nk, int D)
{
    return (wb_case){.shape = {.batch = batch, .q_heads = heads, .q_len = Nq, .kv_len = Nk, .head_dim = D}};
}

// q = [1, 0] against three keys, as the lesson computes it; two columns, padded with zeros to 16.
Test(SUITE, worked_by_hand)
{
    wb_case c = of(1, 1, 1, 3, 16);
    c.shape.scale = 1;
    c.input = WB_WORKED_1;
    check_worked(c, "O", (double[]){0.4421, 0.5579}, 2, 4e-3);
    check_worked(c, "L", (double[]){1.6053}, 1, 1e-3);  // 0.8 + log(2.2374)
}

// Checkpoints on the way: O of one tile of keys, of many, then L.
Test(SUITE, O_of_one_tile) { check_output(of(1, 1, 128, 64, 64), "O"); }

Test(SUITE, O_of_many_tiles)
{
    wb_case c = of(1, 1, 128, 384, 64);
    const wb_input inputs[] = {WB_NORMAL, WB_HUGE, WB_TINY, WB_EARLY_MAX, WB_LATE_MAX, WB_STAIRS};
    for (size_t n = 0; n < COUNT(inputs); n++) c.input = inputs[n], check_output(c, "O");
}

Test(SUITE, L_of_one_tile) { check_output(of(1, 1, 128, 64, 64), "L"); }

// A single key has the weight 1: O is its value, L its logit.
Test(SUITE, one_key) { EACH_D(check(1, 1, 5, 1, D)); }

Test(SUITE, one_tile) { check(1, 1, 128, 64, 64); }
Test(SUITE, two_key_tiles) { check(1, 1, 128, 128, 64); }
Test(SUITE, many_tiles) { check(1, 1, 384, 640, 64); }

Test(SUITE, every_head_dim) { EACH_D(check(1, 2, 256, 384, D)); }

Test(SUITE, ragged_keys) { EACH_N(check(1, 1, 32, N, D)); }

Test(SUITE, ragged_both)
{
    const int shapes[][2] = {{1, 1}, {1, 257}, {257, 1}, {131, 67}, {67, 131}, {129, 129}, {127, 383}};
    for (size_t i = 0; i < COUNT(shapes); i++) EACH_D(check(1, 1, shapes[i][0], shapes[i][1], D));
}

// Logits of 100 and more, of -100 and less, the largest in the first key and in the last, climbing, all alike. Odd
// lengths, and enough keys for several tiles.
Test(SUITE, every_input) { check_every_input(of(1, 1, 67, 299, 64)); }

Test(SUITE, scales) { check_scales(of(1, 2, 65, 131, ANY_D)); }

Test(SUITE, own_stream) { check_stream(of(2, 2, 100, 150, 64)); }
Test(SUITE, same_twice) { check_same_twice(of(1, 2, 67, 450, ONE_D)); }

Test(SUITE, memory)
{
    check_no_memory(of(1, 1, SQUARE, SQUARE, 16));
    check_beyond_int(of(1, 64, 2, 300001, 128));
}

Test(SUITE, shifted_tensors) { check_shifted(of(1, 2, 35, 53, ANY_D)); }
BAD_INPUT(SUITE, {
    REFUSED(shape.q_heads, 4, WB_UNSUPPORTED, "grouped");
    REFUSED(shape.causal, 1, WB_UNSUPPORTED, "causal");
})
