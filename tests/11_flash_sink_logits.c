// 11_flash_sink_logits.c - what flash_sink_logits must do: the window of 06, and in each row's denominator exp(s) of
// its query head, once, whatever s is.
#include "contract.h"

#include <float.h>

TEST_PROBLEM(flash_sink_logits)
#define of(B, Hq, Hkv, N, D, W) causal_case(B, Hq, Hkv, N, D, W, 0)

// Six tokens, two columns padded with zeros to 16, a window of 3, as in the lesson of 06, and s = log 2. Row 0 sees one
// key, whose score has the exponential 1.5835: its weight is 1.5835 / (1.5835 + 2), and L is the logarithm of that sum.
Test(flash_sink_logits, worked_by_hand)
{
    const wb_case c = worked(with_logit(of(1, 1, 1, 6, 16, 3), 0.69314718f));
    const double O[3][16] = {{0.4419, 0}, {0.2499, 0.3068}, {0.3765, 0.3161}};
    check_worked(c, "O", O[0], 3 * 16, 4e-3);
    check_worked(c, "L", (double[]){1.2763, 1.5068, 1.8727, 1.6207, 1.7982, 1.6139}, 6, 3e-3);
}

Test(flash_sink_logits, one_tile) { EACH_D(check(1, 1, 1, 32, D, 32), check(1, 2, 1, 19, D, 1)); }

// However many tiles a row sees, its sink counts once.
Test(flash_sink_logits, many_tiles) { EACH_D(check(1, 2, 1, 259, D, 259), check(1, 2, 1, 259, D, 130)); }

// A query head has a logit of its own: neither its key head's, nor its batch's.
Test(flash_sink_logits, every_group_size)
{
    for (int group = 1; group <= 8; group *= 2) check(1, 8, 8 / group, 70, dim(group), 33);
    check(1, 15, 3, 40, 16, 17);
    EACH_N(check(1, 8, 1, 205, D, N));  // W of which a kernel may take four or eight heads at once
}

// Heads of one call: 3, -infinity, 0, 80, -80, -1.
Test(flash_sink_logits, mixed_logits) { EACH_D(check_case(with_mixed_logits(of(1, 6, 2, 150, D, 50)))); }

// s = 0 is a sink like any other: exp(0) = 1.
Test(flash_sink_logits, logit_of_zero)
{
    check_case(with_logit(of(1, 2, 1, 70, 16, 30), 0));
    check_case(with_logit(of(1, 2, 1, 150, 64, 150), -0.0f));
}

// exp(-infinity) = 0: 06, or 05 where the window reaches over all keys.
Test(flash_sink_logits, no_sink)
{
    EACH_D(for (int W = 40; W <= 140; W += 100) check_case(with_logit(of(1, 2, 1, 140, D, W), -INFINITY)));
}

static void check_logits(const float logits[], size_t count, const wb_input inputs[4])
{
    for (size_t k = 0; k < count; k++)
        for (size_t n = 0; n < 4; n++)
            check_input(with_logit(of(1, 1, 1, 75, dim(k + n), n % 2 ? 75 : 30), logits[k]), inputs[n]);
}

// Far above all scores, up to the largest float: O is nearly 0 or 0, and L = s.
Test(flash_sink_logits, towering_logits)
{
    const float logits[] = {20, 100, 1000, 30000, 2.5e38f, FLT_MAX};
    check_logits(logits, COUNT(logits), (wb_input[]){WB_NORMAL, WB_TINY, WB_ABYSS, WB_STAIRS});
}

// Far below: the sink weighs nothing, and breaks nothing.
Test(flash_sink_logits, vanishing_logits)
{
    const float logits[] = {-20, -100, -1000, -30000, -2.5e38f, -FLT_MAX};
    check_logits(logits, COUNT(logits), (wb_input[]){WB_NORMAL, WB_HUGE, WB_TOWER, WB_STAIRS});
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
        EACH_D(check_input(with_logit(of(1, 1, 1, 140, D, each % 2 ? 140 : 60), all[k].logit), all[k].input));
}

Test(flash_sink_logits, every_input)
{
    check_every_input(of(1, 2, 1, 170, 64, 70));
    check_every_input(with_logit(of(1, 1, 1, 150, 32, 5), -80));
    check_every_input(with_logit(of(1, 1, 1, 41, 16, 1), 80));
}

// The scores are scaled, the sink is not.
Test(flash_sink_logits, scales) { check_scales(of(1, 2, 1, 100, ANY_D, 60)); }

// And as far as an int goes; and so wide that a kernel may choose other tiles.
Test(flash_sink_logits, every_window)
{
    EACH_N(check(1, 2, 1, 200, D, N));
    EACH_D(check(1, 1, 1, 600, D, 513), check(1, 1, 1, 200, D, INT_MAX));
}

Test(flash_sink_logits, sinks_are_not_read) { check_unread(of(1, 4, 2, 150, 32, 20)); }

Test(flash_sink_logits, hidden_tiles_are_not_computed)
{
    check_skips(of(1, 1, 1, 640, 32, 32), 160);
    check_skips(of(1, 4, 1, 750, 16, 128), 190);
    check_skips(of(1, 1, 1, 900, 64, 900), 225);
}

Test(flash_sink_logits, hidden_tiles_are_not_loaded)
{
    check_reads(of(1, 1, 1, 640, ONE_D, run_seed() % 2 ? 64 : 640));
}

Test(flash_sink_logits, same_twice) { check_same_twice(of(1, 2, 1, 220, ONE_D, run_seed() % 2 ? 90 : 220)); }

PROMISES_WITH_A_WINDOW(flash_sink_logits)
