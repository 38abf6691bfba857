// 11_flash_sink_logits.c - what flash_sink_logits must do: the window of 06, and in each row's denominator exp(s) of its query head, once,
// whatever s is.
#include "bad_input.h"
#include "harness.h"

#include <float.h>
#include <limits.h>
#include <string.h>

TEST_PROBLEM(flash_sink_logits)

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int head_dims[] = {16, 32, 64, 128};

static wb_case of(int batch, int q_heads, int kv_heads, int N, int D, int W)
{
    return (wb_case){
        .shape = {.batch = batch, .q_heads = q_heads, .kv_heads = kv_heads, .q_len = N, .head_dim = D, .window = W}};
}

static void check(int batch, int q_heads, int kv_heads, int N, int D, int W)
{
    check_case(of(batch, q_heads, kv_heads, N, D, W));
}

// The same sink logit in all heads.
static wb_case with(wb_case c, float sink_logit)
{
    c.logits = WB_LOGITS_GIVEN, c.sink_logit = sink_logit;
    return c;
}

static void check_with(wb_case c, float sink_logit) { check_case(with(c, sink_logit)); }

// Six tokens, two columns padded with zeros to 16, a window of 3, as in the lesson of 06, and s = log 2. Row 0 sees one key, whose score has
// the exponential 1.5835: its weight is 1.5835 / (1.5835 + 2), and L is the logarithm of that sum.
Test(flash_sink_logits, worked_by_hand)
{
    wb_case c = with(of(1, 1, 1, 6, 16, 3), 0.69314718f);
    c.shape.scale = 0.70710678f;
    c.input = WB_WORKED_2;
    const double O[3][16] = {{0.4419, 0}, {0.2499, 0.3068}, {0.3765, 0.3161}};
    check_worked(c, "O", O[0], 3 * 16, 4e-3);
    check_worked(c, "L", (double[]){1.2763, 1.5068, 1.8727, 1.6207, 1.7982, 1.6139}, 6, 3e-3);
}

Test(flash_sink_logits, one_tile)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 1, 1, 32, head_dims[d], 32);
    check(1, 1, 1, 30, 64, 16);
    check(1, 2, 1, 19, 32, 1);
}

// However many tiles a row sees, its sink counts once.
Test(flash_sink_logits, many_tiles)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) {
        check(1, 2, 1, 515, head_dims[d], 515);
        check(1, 2, 1, 515, head_dims[d], 130);
    }
}

// A query head has a logit of its own: neither its key head's, nor its batch's.
Test(flash_sink_logits, every_group_size)
{
    for (int group = 1; group <= 8; group *= 2) check(1, 8, 8 / group, 70, head_dims[group % 4], 33);
    check(1, 15, 3, 40, 16, 17);
    check(1, 7, 1, 70, 32, 64);
    check(1, 64, 8, 40, 16, 20);
    // W of which a kernel may take four or eight heads at once
    const int W[] = {1, 7, 8, 40, 127, 128, 129, 130};
    for (size_t i = 0; i < COUNT(W); i++) {
        check(1, 8, 1, 205 + (int)i, 64, W[i]);
        check(2, 24, 2, 65 + (int)i, 64, W[i]);
    }
    check_every_input(of(1, 8, 1, 170, 64, 128));
}

Test(flash_sink_logits, groups_and_batches)
{
    check(3, 4, 2, 51, 64, 30);
    check(2, 8, 1, 65, 32, 7);
    check(5, 6, 2, 35, 16, 64);
    check(2, 4, 2, 71, 128, 70);
}

// Heads of one call: 3, -infinity, 0, 80, -80, -1.
Test(flash_sink_logits, mixed_logits)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) {
        wb_case c = of(1, 6, 2, 150, head_dims[d], 50);
        c.logits = WB_LOGITS_MIXED;
        check_case(c);
    }
}

// s = 0 is a sink like any other: exp(0) = 1.
Test(flash_sink_logits, logit_of_zero)
{
    check_with(of(1, 2, 1, 70, 16, 30), 0);
    check_with(of(1, 2, 1, 150, 64, 150), -0.0f);
}

// exp(-infinity) = 0: 06, or 05 where the window reaches over all keys.
Test(flash_sink_logits, no_sink)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) {
        check_with(of(1, 2, 1, 200, head_dims[d], 40), -INFINITY);
        check_with(of(1, 2, 1, 140, head_dims[d], 140), -INFINITY);
    }
}

// Far above all scores, up to the largest float: O is nearly 0 or 0, and L = s.
Test(flash_sink_logits, towering_logits)
{
    const float logits[] = {20, 80, 100, 1000, 30000, 1e30f, 2.5e38f, FLT_MAX};
    const wb_input inputs[] = {WB_NORMAL, WB_TINY, WB_ABYSS, WB_STAIRS};
    for (size_t k = 0; k < COUNT(logits); k++)
        for (size_t n = 0; n < COUNT(inputs); n++) {
            wb_case c = of(1, 1, 1, 75, head_dims[(k + n) % 4], n % 2 ? 75 : 30);
            c.input = inputs[n];
            check_with(c, logits[k]);
        }
}

// Far below: the sink weighs nothing, and breaks nothing.
Test(flash_sink_logits, vanishing_logits)
{
    const float logits[] = {-20, -80, -100, -1000, -30000, -1e30f, -2.5e38f, -FLT_MAX};
    const wb_input inputs[] = {WB_NORMAL, WB_HUGE, WB_TOWER, WB_STAIRS};
    for (size_t k = 0; k < COUNT(logits); k++)
        for (size_t n = 0; n < COUNT(inputs); n++) {
            wb_case c = of(1, 1, 1, 75, head_dims[(k + n) % 4], n % 2 ? 75 : 30);
            c.input = inputs[n];
            check_with(c, logits[k]);
        }
}

// As large as the scores, where those are extreme: half of the weight or so stays with the keys.
Test(flash_sink_logits, logits_among_the_scores)
{
    const struct {
        wb_input input;
        float logit;
    } all[] = {{WB_HUGE, 144},     {WB_TINY, -136},   {WB_TOWER, 1004},
               {WB_ABYSS, -29996}, {WB_EARLY_MAX, 8}, {WB_LATE_MAX, 9}};
    for (size_t k = 0; k < COUNT(all); k++)
        for (size_t d = 0; d < COUNT(head_dims); d++) {
            wb_case c = of(1, 1, 1, 140, head_dims[d], d % 2 ? 140 : 60);
            c.input = all[k].input;
            check_with(c, all[k].logit);
        }
}

Test(flash_sink_logits, every_input)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_every_input(of(1, 2, 1, 170, head_dims[d], 70));
    check_every_input(with(of(1, 1, 1, 150, 32, 5), -80));
    check_every_input(with(of(1, 1, 1, 41, 16, 1), 80));
}

// The scores are scaled, the sink is not.
Test(flash_sink_logits, scales)
{
    const float scales[] = {1, 0.3f, 0.01f, 3, 1e-6f};
    for (size_t i = 0; i < COUNT(scales); i++) {
        wb_case c = of(1, 2, 1, 100, head_dims[i % 4], 60);
        c.shape.scale = scales[i];
        check_case(c);
    }
}

// V all ones: O is what the sink leaves.
Test(flash_sink_logits, values_of_one)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) {
        wb_case c = of(1, 4, 1, 101, head_dims[d], 90);
        c.input = WB_ONES;
        check_case(c);
    }
}

// Around a fragment of 8 and 16; tiles of 32, 48, 64 and 128; the sequence itself; and as far as an int goes.
Test(flash_sink_logits, every_window)
{
    const int W[] = {1, 2, 7, 16, 17, 31, 33, 63, 64, 65, 97, 128, 129, 199, 200, 201, 100000, INT_MAX};
    for (size_t i = 0; i < COUNT(W); i++) check(1, 2, 1, 200, head_dims[i % 4], W[i]);
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 1, 1, 600, head_dims[d], 513);
}

Test(flash_sink_logits, ragged)
{
    const int N[] = {1, 2, 7, 9, 15, 16, 17, 31, 33, 49, 63, 64, 65, 97, 127, 129, 191, 193, 257};
    for (size_t i = 0; i < COUNT(N); i++) check(1, 2, 1, N[i], head_dims[i % 4], i % 2 ? 40 : N[i]);
}

// In the first tile that a row's block visits nothing may be visible to that row: its maximum is then still to come.
Test(flash_sink_logits, tiles_that_start_empty)
{
    for (int W = 2; W <= 64; W *= 4)
        for (wb_input input = WB_TINY; input <= WB_LATE_MAX; input++) {
            wb_case c = of(1, 1, 1, 300, head_dims[W % 3], W);
            c.input = input;
            c.logits = WB_LOGITS_MIXED;
            c.shape.q_heads = 3;
            check_case(c);
        }
}

Test(flash_sink_logits, other_seeds)
{
    for (uint64_t seed = 2; seed < 5; seed++) {
        wb_case c = of(2, 4, 2, 110, 64, 50);
        c.seed = seed;
        check_case(c);
    }
}

// A quarter of a layer of gpt-oss on the CPU layer, and fewer tokens.
Test(flash_sink_logits, layer_of_gpt_oss)
{
    const int part = on_cpu_backend() ? 8 : 1, N = on_cpu_backend() ? 400 : 4096;
    check(1, 64 / part, 8 / part, N, 64, 128);
    check(1, 64 / part, 8 / part, N, 64, N);
}

Test(flash_sink_logits, many_tokens) { check(1, 1, 1, on_cpu_backend() ? 3001 : 20011, 64, 128); }

// Sink tokens are another problem's: whatever `sinks` is, it is not read.
Test(flash_sink_logits, sinks_are_not_read)
{
    wb_case c = of(1, 4, 2, 150, 32, 20);
    c.shape.sinks = -3;
    check_case(c);
    c.shape.sinks = 9;
    check_case(c);
}

// See harness.h: tiles right of the diagonal and left of the window are not computed, nor loaded.
Test(flash_sink_logits, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 1, 640, 32, 32), 160);
    check_skips(of(1, 4, 1, 750, 16, 128), 190);
    check_skips(of(1, 1, 1, 900, 64, 900), 225);
}

Test(flash_sink_logits, hidden_tiles_are_not_loaded)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_reads(of(1, 1, 1, 1024, head_dims[d], d % 2 ? 64 : 1024));
}

// See harness.h: sizes that change with the seed.
Test(flash_sink_logits, drawn_sizes) { check_drawn(1300); }

// On a stream of the caller's, inputs that arrive there late.
Test(flash_sink_logits, own_stream) { check_stream(of(2, 4, 2, 150, 64, 40)); }

Test(flash_sink_logits, same_twice)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_same_twice(of(1, 2, 1, 220, head_dims[d], d % 2 ? 90 : 220));
}

// Nothing but inputs and outputs in device memory, however long the sequence.
Test(flash_sink_logits, memory)
{
    check_memory(of(1, 4, 2, 256, 64, 64), 0, (size_t)64 << 20);
    check_memory(of(1, 1, 1, 3000, 16, 128), 0, (size_t)64 << 20);
}

// Tensors may start at any multiple of 16 bytes.
Test(flash_sink_logits, shifted_tensors)
{
    for (int offset = 16; offset <= 48; offset += 16) {
        wb_case c = of(1, 4, 2, 73, head_dims[offset / 16], 30);
        c.offset = offset;
        check_case(c);
    }
}

Test(flash_sink_logits, bad_input_null)
{
    refuses_null();
    wb_case c = good_case();
    strcpy(c.null, "sink_logits");
    check_rejected(c, WB_BAD_ARGUMENT, "sink_logits is null");
}

Test(flash_sink_logits, bad_input_sizes) { refuses_sizes(); }
Test(flash_sink_logits, bad_input_scale) { refuses_scales(); }
Test(flash_sink_logits, bad_input_mask)
{
    refuses_what_is_not_causal();
    REFUSED(window, 0, WB_BAD_ARGUMENT, "window");
    REFUSED(window, INT_MIN, WB_BAD_ARGUMENT, "window");
}
Test(flash_sink_logits, bad_input_alignment) { refuses_misaligned(); }
