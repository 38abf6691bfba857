// sinks.c - dsinks of 12: the sum over the rows of a head of -exp(s - L) delta. Which rows were summed up, and what of
// each.
#include "evidence.h"

static fit fit_dsinks;

// What this row of Q adds to the sum of its head.
static double term_of(int h, int row) { return -exp(e.sink_logits[h] - e.L[row]) * e.delta[row]; }

// What row i of head h in sequence b adds, by each form: first what a row adds, then which rows are read, and which the
// sum of the block loses.
static int dsinks_forms(int h, int b, int i, form *forms)
{
    const int N = e.s->q_len, H = e.s->q_heads, Hkv = e.s->kv_heads, B = e.s->batch, row = (b * H + h) * N + i;
    const int thread = i % 1024, warp = thread / 32;
    const double s = e.sink_logits[h], L = e.L[row], delta = e.delta[row], right = term_of(h, row);
    // clang-format off
    const form list[] = {
        {"", "", right}, {"dsinks_plus", "the sum has the wrong sign", -right},
        {"dsinks_base_2", "2^ takes s - L, which is to base e", -exp2(s - L) * delta},
        {"dsinks_L_base_e", "2^ takes s log2(e) - L: L has to be multiplied by log2(e), too",
            -exp2(s * LOG2E - L) * delta},
        {"dsinks_scaled", "s is multiplied by scale, which it is not to be", -exp(s * e.s->scale - L) * delta},
        {"dsinks_times_scale", "the sum is multiplied by scale", right * e.s->scale},
        {"dsinks_of_key_head", "s has the number of the key head", -exp(e.sink_logits[h / (H / Hkv)] - L) * delta},
        {"zero_is_no_logit", "a logit of 0 counts as none", s == 0 ? 0 : right},
        {"dsinks_apart", "exp(s) and exp(-L) are taken one by one, and overflow",
            -(float)((float)exp(s) * (float)exp(-L)) * delta},
        {"dsinks_first_batch", "the first sequence of the batch alone counts", b == 0 ? right : 0},
        {"dsinks_first_rows", "the first 1024 rows of a head alone count", i < 1024 ? right : 0},
        {"dsinks_first_warp", "the rows of the first warp alone count", warp == 0 ? right : 0},
        {"dsinks_mean", "it is divided by the number of rows", right / (N * B)}};
    // clang-format on
    return copy_forms(forms, FORMS(list));
}

// As long as that gap is as shipped a head has the rows of its thread 0 alone, and one row is all that can be looked
// at.
static bool block_is_summed(void) { return worth_naming("sum of the block"); }

void look_at_dsinks(void)
{
    if (e.s->q_len > 1 && !block_is_summed()) return;
    for (int h = e.s->q_heads; h-- > 0;) {
        form sums[MAX_FORMS] = {0}, one[MAX_FORMS];
        double size = 0;
        int count = 0;
        if (!isfinite(e.sink_logits[h])) continue;
        EACH_PAIR (b, e.s->batch, i, e.s->q_len) {
            count = dsinks_forms(h, b, i, one), size += fabs(one[0].is);
            for (int n = 0; n < count; n++) sums[n] = (form){one[n].id, one[n].says, sums[n].is + one[n].is};
        }
        const double got = e.dsinks[h];
        fit_see(&fit_dsinks, got, 2e-4 * (size + fabs(got)) + 1e-20, sums, count,
                "dsinks[%d] is %.5g, where minus the sum of exp(s - L) delta over the rows of head %d is %.5g", h, got,
                h, sums[0].is);
    }
}

void conclude_dsinks(void)
{
    const bool sum = is_one_of(fit_form(&fit_dsinks), "dsinks_first_warp dsinks_mean");
    const char *both = block_is_summed() ? "rows of the head|sum of the block" : "rows of the head";
    fit_conclude(&fit_dsinks, BY_END, sum ? both : "rows of the head", both, ": ");
}
