// sinks.c - dsinks of 12: the sum over the rows of a head of -exp(s - L) delta. Which rows were summed up, and what of each.
#include "evidence.h"

#include <stdio.h>

// What a row adds, and which rows.
// clang-format off
static const form term_forms[] = {
    {"", ""}, {"dsinks_plus", "the sum has the wrong sign"}, {"dsinks_base_2", "2^ takes s - L, which is to base e"},
    {"dsinks_L_base_e", "2^ takes s log2(e) - L: L has to be multiplied by log2(e), too"},
    {"dsinks_s_base_e", "2^ takes s - L log2(e): s has to be multiplied by log2(e), too"}, {"dsinks_log2e", "e^ takes (s - L) log2(e)"},
    {"dsinks_scaled", "s is multiplied by scale, which it is not to be"}, {"dsinks_both_scaled", "s - L is multiplied by scale"},
    {"dsinks_no_L", "L is not subtracted from s"}, {"dsinks_no_s", "s is left out: exp(-L)"},
    {"dsinks_in_front", "s itself is multiplied by exp(-L), not exp(s)"},
    {"dsinks_no_weight", "it is the sum of delta alone, without exp(s - L)"},
    {"dsinks_exponent", "it is the sum of (s - L) delta, without the exponential"},
    {"dsinks_no_delta", "it is the sum of exp(s - L) alone, without delta"}, {"dsinks_L_minus_s", "it takes exp(L - s)"},
    {"dsinks_rest", "it takes 1 - exp(s - L)"}, {"dsinks_times_scale", "the sum is multiplied by scale"},
    {"dsinks_times_log2e", "the sum is multiplied by log2(e)"}, {"dsinks_times_ln2", "the sum is multiplied by ln(2)"},
    {"dsinks_of_first_head", "s is that of head 0"}, {"dsinks_of_key_head", "s has the number of the key head"},
    {"dsinks_weight_squared", "exp(s - L) is in it twice"}, {"zero_is_no_logit", "a logit of 0 counts as none"},
    {"dsinks_apart", "exp(s) and exp(-L) are taken one by one, and overflow"}};
static const form row_forms[] = {
    {"", ""}, {"dsinks_first_batch", "the first sequence of the batch alone counts"},
    {"dsinks_last_batch", "the last sequence of the batch alone counts"},
    {"dsinks_rows_of_first_batch", "the rows of the first sequence are read for all"},
    {"dsinks_first_head", "the rows of head 0 are read for all heads"},
    {"dsinks_key_heads", "a sequence is taken to have as many heads as there are key heads"},
    {"dsinks_other_batch", "batch and head are exchanged where the row is looked for"},
    {"dsinks_first_rows", "the first 1024 rows of a head alone count"}, {"dsinks_last_rows", "the last round of 1024 rows alone counts"},
    {"dsinks_first_thread", "the rows of the first thread alone count"}, {"dsinks_first_warp", "the rows of the first warp alone count"},
    {"dsinks_one_lane", "the rows of one lane of each warp alone count"},
    {"dsinks_half_warps", "half of the lanes of each warp alone count"}, {"dsinks_half_of_warps", "half of the warps alone count"},
    {"dsinks_even_lanes", "every second lane alone counts"}, {"dsinks_last_row_lost", "the last row is left out"},
    {"dsinks_first_row_lost", "the first row is left out"},
    {"dsinks_whole_rounds", "the rows behind the last whole round of 1024 are left out"}, {"dsinks_32_times", "each row counts 32 times"},
    {"dsinks_twice", "each row counts twice"}, {"dsinks_mean", "it is divided by the number of rows"},
    {"dsinks_mean_of_rows", "it is divided by N"}, {"dsinks_mean_of_batches", "it is divided by the number of sequences"},
    {"dsinks_32_rows", "32 of each 1024 rows alone count, a step of the sum over lanes or warps is left out"},
    {"dsinks_odd_warps", "every second warp alone counts"}, {"dsinks_next_row", "each row's number is one too large"},
    {"dsinks_strides_by_32", "rows are taken in steps of 32, not of all threads: most count several times"}};

// Of row i of N, of b of the batch: the row that is read in its place, -1: none.
static int row_read(int rel, int b, int h, int i)
{
    const int N = e.s->q_len, H = e.s->q_heads, B = e.s->batch, thread = i % 1024, right = (b * H + h) * N + i;
    switch (rel) {
    case 1: return b == 0 ? right : -1; case 2: return b == B - 1 ? right : -1; case 3: return h * N + i; case 4: return b * H * N + i;
    case 5: return (b * e.s->kv_heads + h) * N + i; case 6: return (h * B + b) * N + i; case 7: return i < 1024 ? right : -1;
    case 8: return i / 1024 == (N - 1) / 1024 ? right : -1; case 9: return thread == 0 ? right : -1;
    case 10: return thread < 32 ? right : -1; case 11: return thread % 32 == 0 ? right : -1; case 12: return thread % 32 < 16 ? right : -1;
    case 13: return thread < 512 ? right : -1; case 14: return thread % 2 == 0 ? right : -1; case 15: return i < N - 1 ? right : -1;
    case 16: return i > 0 ? right : -1; case 17: return i < N / 1024 * 1024 ? right : -1;
    case 23: return thread % 32 == 0 && thread / 32 == 0 ? right : -1; case 24: return thread / 32 % 2 == 0 ? right : -1;
    case 25: return right + 1 < all_rows() ? right + 1 : -1;
    default: return right;
    }
}
// clang-format on

static double times(int rel)
{
    const int N = e.s->q_len, B = e.s->batch;
    return rel == 18 ? 32 : rel == 19 ? 2 : rel == 20 ? 1.0 / (N * B) : rel == 21 ? 1.0 / N : rel == 22 ? 1.0 / B : 1;
}

static void terms_of(int h, int row, double terms[COUNT(term_forms)])
{
    const double s = e.sink_logits[h], L = e.L[row], delta = e.delta[row], x = exp(s - L), c = e.s->scale;
    const double first = e.sink_logits[0], key = e.sink_logits[h / (e.s->q_heads / e.s->kv_heads)];
    VALUES(values, term_forms, -x * delta, x * delta, -exp2(s - L) * delta, -exp2(s * LOG2E - L) * delta,
           -exp2(s - L * LOG2E) * delta, -exp((s - L) * LOG2E) * delta, -exp(s * c - L) * delta,
           -exp((s - L) * c) * delta, -exp(s) * delta, -exp(-L) * delta, -s * exp(-L) * delta, -delta, -(s - L) * delta,
           -x, -exp(L - s) * delta, -(1 - x) * delta, -x * delta * c, -x * delta * LOG2E, -x * delta * LN2,
           -exp(first - L) * delta, -exp(key - L) * delta, -x * x * delta, s == 0 ? 0 : -x * delta,
           -(float)((float)exp(s) * (float)exp(-L)) * delta);
    memcpy(terms, values, sizeof values);
}

static fit terms = {FIT(term_forms)}, rows = {FIT(row_forms)};

void look_at_dsinks(void)
{
    const int H = e.s->q_heads, N = e.s->q_len, B = e.s->batch;
    for (int h = H; h-- > 0;) {
        double by_term[COUNT(term_forms)] = {0}, by_row[COUNT(row_forms)] = {0}, size = 0, one[COUNT(term_forms)];
        if (!isfinite(e.sink_logits[h])) continue;
        EACH_PAIR (b, B, i, N) {
            terms_of(h, (b * H + h) * N + i, one);
            for (int n = 0; n < COUNT(term_forms); n++) by_term[n] += one[n];
            size += fabs(one[0]);
            for (int n = 0; n < COUNT(row_forms) - 1; n++) {
                const int row = row_read(n, b, h, i);
                if (row < 0) continue;
                terms_of(h, row, one);
                by_row[n] += one[0] * times(n);
            }
            terms_of(h, (b * H + h) * N + i, one);
            by_row[COUNT(row_forms) - 1] += one[0] * (i / 32 + 1 < 32 ? i / 32 + 1 : 32);
        }
        const double got = e.dsinks[h], tolerance = 2e-4 * (size + fabs(got)) + 1e-20;
        fit_add(&rows, got, by_row, tolerance);
        fit_see(&terms, got, by_term, tolerance,
                "dsinks[%d] is %.5g, where minus the sum of exp(s - L) delta over the rows of head %d is %.5g", h, got,
                h, by_term[0]);
    }
}

void conclude_dsinks(void)
{
    const form *r = fit_form(&rows);
    memcpy(rows.says, terms.says, sizeof rows.says), memcpy(rows.shown, terms.shown, sizeof rows.shown);
    const char *both = "rows of the head|sum of the block";
    if (r && !fit_form(&terms))
        fit_conclude(&rows, BY_END, r - row_forms >= 9 ? both : "rows of the head", both, ": ");
    else
        fit_conclude(&terms, BY_END, "rows of the head", both, ": ");
}
