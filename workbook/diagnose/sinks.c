// sinks.c - dsinks of 12: the sum over the rows of a head of -exp(s - L) delta. Which rows were summed up, and what of
// each.
#include "evidence.h"

static fit fit_dsinks;

// What this row of Q adds to the sum of its head.
static double term_of(int h, int row) { return -exp(e.sink_logits[h] - e.L[row]) * e.delta[row]; }

// What row i of head h in sequence b adds: to the right sum, and to others, of other terms or of other rows.
enum { SUMS = 10 };
static const char sums[] =
    "+ exp(s - L) delta| 2^(s - L) delta| 2^(s log2(e) - L) delta| exp(scale s - L) delta| exp(s - L) delta, with s of "
    "the "
    "key head| that, where s is not 0,| exp(s) exp(-L) delta, which overflows,| that of the first sequence alone| that "
    "of the "
    "first 1024 rows of each head alone| that of the rows of the first warp alone| that of rows counted with the heads "
    "outside of the batches| the mean of that over all rows";
static void add_row(int h, int b, int i, double *sum)
{
    const int N = e.s->q_len, H = e.s->q_heads, Hkv = e.s->kv_heads, row = (b * H + h) * N + i;
    const double s = e.sink_logits[h], L = e.L[row], delta = e.delta[row], right = term_of(h, row);
    const double terms[SUMS] = {right,
                                -exp2(s - L) * delta,
                                -exp2(s * LOG2E - L) * delta,
                                -exp(s * e.s->scale - L) * delta,
                                -exp(e.sink_logits[h / (H / Hkv)] - L) * delta,
                                s == 0 ? 0 : right,
                                -(float)((float)exp(s) * (float)exp(-L)) * delta,
                                b == 0 ? right : 0,
                                i < 1024 ? right : 0,
                                i % 1024 < 32 ? right : 0};
    for (int n = 0; n < SUMS; n++) sum[n] += terms[n];
}

// As long as that gap is as shipped a head has the rows of its thread 0 alone, and one row is all that can be looked
// at.
static bool block_is_summed(void) { return worth_naming("sum of the block"); }

void look_at_dsinks(void)
{
    if (e.s->q_len > 1 && !block_is_summed()) return;
    for (int h = e.s->q_heads; h-- > 0;) {
        const int H = e.s->q_heads, N = e.s->q_len;
        double sum[SUMS + 2] = {0}, size = 0;
        if (!isfinite(e.sink_logits[h])) continue;
        EACH_PAIR (b, e.s->batch, i, N) {
            add_row(h, b, i, sum), size += fabs(term_of(h, (b * H + h) * N + i));
            sum[SUMS] += term_of(h, (h * e.s->batch + b) * N + i);
        }
        sum[SUMS + 1] = sum[0] / (N * e.s->batch);
        const double got = e.dsinks[h];
        if (sum_add(&fit_dsinks, got, 2e-4 * (size + fabs(got)) + 1e-20, sums, sum))
            fit_says(&fit_dsinks,
                     "dsinks[%d] is %.5g, where minus the sum of exp(s - L) delta over the rows of head %d is %.5g", h,
                     got, h, sum[0]);
    }
}

void conclude_dsinks(void)
{
    const form *is = fit_form(&fit_dsinks);
    const bool sum = is && (strstr(is->says, "warp") || strstr(is->says, "mean"));
    const char *both = block_is_summed() ? "rows of the head|sum of the block" : "rows of the head";
    fit_conclude(&fit_dsinks, BY_END, sum ? both : "rows of the head", both, ": that is minus the sum of ");
}
