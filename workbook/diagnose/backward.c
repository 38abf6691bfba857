// backward.c - what a backward did in each step: which pairs it met, what P and dS were, what it added up and stored.
// Two kernels: one has keys on the left of its scores and sums up dV from P and dK from dS, the other queries, and dQ
// from dS. P of the second follows from dS and dP. delta has no products: it is looked at as it came out.
#include "evidence.h"

// [2]: of the kernel of dQ, and of that of dK and dV; [3]: of dQ, dK, dV
static fit fit_P[2] = {
    FIT(BY_EXPONENT, "recompute for dQ", .joint = ", which equals 2 to the power of ",
        .pinned = true),  // it is taken from dS: delta or dP may be what is wrong
    FIT(BY_EXPONENT, "recompute", .others = "recompute|dV", .joint = ", which equals 2 to the power of ")};
static fit fit_dS[2] = {FIT(BY_DS, "dQ|dS for dQ", .others = "dS for dQ|recompute for dQ", .by = {{"dP", "dS for dQ"}}),
                        FIT(BY_DS, "dK|dS", .others = "dS", .by = {{"dP", "dS"}})};
// What is rounded to bf16 too early, by the bits that a product is given: dS in either kernel, and P.
#define TOO_EARLY "; rounded to bf16, where float32 belongs: "
static fit fit_bits[3] = {FIT(BY_L + 1, "dS for dQ|recompute for dQ", .joint = TOO_EARLY, .pinned = true),
                          FIT(BY_L + 1, "dS|recompute", .joint = TOO_EARLY, .pinned = true),
                          FIT(BY_EXPONENT, "recompute", .joint = TOO_EARLY, .pinned = true)};
static fit fit_end[3] = {FIT(BY_END, "dQ scale"), FIT(BY_END, "dK scale|sum of the parts"),
                         FIT(BY_END, "dV|sum of the parts|dK scale")};
static fit fit_delta = FIT(BY_DELTA, "delta", .joint = ", which equals the sum of ");
static fit fit_dsinks = FIT(BY_END, "rows of the head", .joint = ", which equals minus the sum of ",
                            .by = {{"32", "sum of the block|rows of the head"}});

static const attention_shape *s;
static double s2;

static bool sees_pair(int q, int k) { return meets(q, k) && sees(q, key_of(k)); }

static const char *own(const char *of_keys, const char *of_queries) { return by_keys ? of_keys : of_queries; }

// What came out, against the sum of a row.
void look_at_delta(void)
{
    const int rows = all_rows(), D = e.s->head_dim;
    if (!e.delta) return;
    for (int i = 0; i < rows; i++) {
        double size = 0, right = 0, of_O = 0, of_dO = 0;
        for (int d = i * D; d < i * D + D; d++) {
            const double x = e.O[d], y = e.dO[d];
            size += fabs(x * y), right += x * y, of_O += x * x, of_dO += y * y;
        }
        if (!(size > 1e30))  // else it overflows, whoever is right
            see_sum(&fit_delta, e.delta[i], 1e-4 * (size + fabs(e.delta[i])) + 1e-30,
                    "+ dO * O| O * O| dO * dO" ROUNDED("dO * O"),
                    ((double[]){right, of_O, of_dO, nearly(e.delta[i], right, size, true),
                                nearly(e.delta[i], right, size, false)}),
                    "the output delta[%d] should be the sum of dO * O over this row, %.5g, but is %.5g", i, right,
                    e.delta[i]);
    }
}

// Which tile a left factor is in place of P: S, however scaled, or dS; "" if neither.
static const char *in_place_of_P(const step *t)
{
    const double by[] = {1, s->scale, s2};
    bool is[COUNT(by)] = {true, true, true}, of_dS = t->dS, negative = false;
    for (int at = 0; at < t->P->rows * t->P->depth; at++) {
        const double x = t->P->a[at];
        negative |= x < 0, of_dS &= t->dS && x == t->dS->a[at];
        for (int n = 0; n < COUNT(by); n++) is[n] &= x == 0 || near_to(x, t->S->after[at] * by[n], 0.01);
    }
    return !negative ? "" : is[0] || is[1] || is[2] ? "S^T" : of_dS ? "dS^T" : "";
}

static void see_factors(const product *p, const char *gaps, const char *sum, const char *is, const char *left,
                        owner right, const char *turned)
{
    if (p && (p->right != right || strcmp(is, left) != 0))
        find(BY_FACTOR, "another factor", gaps, "%s is %s %s%s, but should be %s %s%s", sum, is, owner_names[p->right],
             turned, left, owner_names[right], turned);
}

static void look_at_factors(void)
{
    EACH_STEP(t)
    {
        const char *const of_P = by_keys && t->P ? in_place_of_P(t) : "", *const dS = own("dS^T", "dS");
        see_factors(t->dS, own("dK", "dQ"), own("dK", "dQ"), dS, dS, by_keys ? OF_Q : OF_K, "");
        see_factors(by_keys ? t->P : NULL, "dV|recompute", "dV", *of_P ? of_P : "P^T", "P^T", OF_dO, "");
        if (t->dP && t->dP->left && t->dP->right)
            see_factors(t->dP, own("dS", "dS for dQ"), own("dP^T", "dP"), owner_names[t->dP->left], own("V", "dO"),
                        by_keys ? OF_dO : OF_V, "^T");
    }
}

// Which pairs have a weight, over all tiles.
static void look_at_tiles(const record *r)
{
    EACH_WALK (r, n) {
        const bool keys = by_keys;
        int block, last;
        block_of(r, n, &block, &last);
        EACH_STEP(t)
        {
            const product *S = t->S, *left = t->P ? t->P : t->dS;
            int q0, k0;
            name_pair(S, 0, 0, &q0, &k0);
            if (!left || !meets(q0, k0)) continue;
            pairs p = pairs_of(t, block);
            int strangers = 0, weights = 0;
            for (int at = 0; at < S->rows * S->cols; at++) weights += left->a[at] != 0;
            EACH_PAIR (b, p.keys, a, p.queries) {
                const int i = keys ? b : a, c = keys ? a : b, at = i * S->cols + c;
                int q, k;
                if (p.query[a] < 0 || p.key[b] < 0) continue;
                name_pair(S, i, c, &q, &k);
                const double weight = left->a[at], right = exp2(S->after[at] * s2 - e.L[q] * LOG2E);
                const double x = t->dP ? t->dP->after[at] - e.delta[q] : 1;
                const bool clear = right > 1e-20 && (left == t->P || fabs(x) > 1e-3);
                // Another exponent makes weights vanish; another form of dS leaves something in hidden pairs.
                const double whole = left == t->P ? right : right * x;
                const bool strange = isnan(weight) || (weight != 0 && !near_to(weight, whole, 0.05));
                const fate unseen = !clear || (sees_pair(q, k) && !weights) ? UNCLEAR : HIDDEN;
                p.fate[a * p.keys + b] = strange ? UNCLEAR : weight != 0 ? WEIGHT : unseen;
                strangers += strange;
            }
            if (strangers <= weights / 4 && strangers <= p.queries * p.keys / 20) add_to_mask(keys ? DKDV : DQ, &p);
        }
    }
}

// log2 of P, and dS with the right P. A kernel that has no P has it in dS.
static void look_at_values(const step *t)
{
    const product *S = t->S;
    EACH_PAIR (i, S->rows, c, S->cols) {
        int q, k;
        name_pair(S, i, c, &q, &k);
        const int at = i * S->cols + c;
        if (!meets(q, k)) continue;
        const double L = e.L[q], d = e.delta[q], score = S->after[at], exponent = score * s2 - L * LOG2E;
        const double right = sees_pair(q, k) ? exp2(exponent) : 0, x = t->dP ? t->dP->after[at] : NAN;
        const double dS = t->dS ? t->dS->a[at] : NAN, P = t->P ? t->P->a[at] : fabs(x - d) > 0.3 ? dS / (x - d) : NAN;
        const double slack = (t->P ? 0.02 : 0.05) + 2e-4 * (fabs(score * s2) + fabs(L));
        if (sees_pair(q, k) && P > 1e-30 && isfinite(P))
            see_sum(&fit_P[by_keys], log2(P), slack, "+sl S|-l L| (L of this query in head 0)",
                    (double[]){score, L, e.L[query_of(q)]},
                    "%sP of %s and key %d should be 2^(scale log2(e) S - L log2(e)) = 2^%.5g, but is 2^%.5g",
                    kernel(by_keys), name_of(q), key_of(k), rounded(exponent), log2(P));
        const double tolerance = right * (fabs(x) + fabs(d)) * 0.012 + 1e-7 + 0.012 * fabs(dS);
        if (t->dS && t->dP)
            see_sum(&fit_dS[by_keys], dS, tolerance,
                    "+ P dP|- P delta| P| delta| dP| P (delta of this query in head 0)"
                    "| S (dP - delta)| (dP - delta)| P (1 - P) dP",
                    ((double[]){right * x, right * d, right, d, x, right * e.delta[query_of(q)], score * (x - d), x - d,
                                right * (1 - right) * x}),
                    "%sdS of %s and key %d should be P (dP - delta) = %.4g, but is %.4g", kernel(by_keys), name_of(q),
                    key_of(k), right * (x - d), dS);
        for (int of_dS = 0; of_dS < 2 && right > 0 && at % 7 == 0; of_dS++) {  // some of them will do
            static const char *const parts[] = {"",  "S",  "scale log2(e) S", "L",         "L log2(e)",
                                                "P", "dP", "delta",           "dP - delta"};
            const double is = of_dS ? dS : t->P ? P : NAN, y = of_dS ? x : d + 1;
            form forms[COUNT(parts)];
#define AT(k, value) (n == (k) ? cut(value) : (value))
            for (int n = 0; n < COUNT(parts); n++)
                forms[n] = (form){parts[n], cut(AT(5, exp2(AT(2, AT(1, score) * s2) - AT(4, AT(3, L) * LOG2E))) *
                                                AT(8, AT(6, y) - AT(7, d)))};
            if (!isnan(is) && fabs(forms[0].is) > 1e-6)
                see(&fit_bits[of_dS ? by_keys : 2], is, 1e-3 * fabs(is), forms, of_dS ? COUNT(forms) : 5,
                    "%s%s of %s and key %d should be %.6g, but is %.6g", kernel(by_keys), of_dS ? "dS" : "P",
                    name_of(q), key_of(k), forms[0].is, is);
        }
    }
}

// Whether a sum goes on where it was, step by step.
static void look_at_sums(bool is_dV)
{
    for (int t = 0; t < step_count; t++) {
        const step *last = &steps[max_int(0, t - 1)];
        const product *now = is_dV ? steps[t].P : steps[t].dS, *before = is_dV ? last->P : last->dS;
        double xx = 0, xy = 0, off = 0, largest = 0;
        if (!now) return;
        for (int n = 0; n < now->rows * now->cols && t > 0; n++) {
            const double x = before->after[n], y = now->before[n];
            xx += x * x, xy += x * y, largest = fmax(largest, fabs(x)), off = fmax(off, fabs(x - y));
        }
        if (off <= 1e-4 * largest) continue;
        const bool anew = xx > 0 && fabs(xy / xx) < 1e-6;
        const bool head = by_keys && head_of(steps[t].S->b_row[0]) != head_of(last->S->b_row[0]);  // it begins here
        find(BY_SUM, anew ? "sum_begins_anew" : "",
             head    ? is_dV ? "next head|dV" : "next head|dK|dK scale"
             : is_dV ? "dV"
                     : own("dK|dK scale", "dQ|dQ scale"),
             "between steps %d and %d of a block's loop, the accumulator of %s %s", t - 1, t,
             is_dV ? "dV" : own("dK", "dQ"),
             anew                                                          ? "is reset"
             : in_bf16(now->before, (size_t)now->rows * (size_t)now->cols) ? "is rounded to bf16: it must stay float32"
                                                                           : "is modified");
        return;
    }
}

// What was stored against what was summed up, over all walks that have this row.
static void look_at_end(const record *r, int output)
{
    static const char *const names[] = {"dQ", "dK", "dV"};
    const int D = s->head_dim, rows = output ? s->batch * s->kv_heads * s->kv_len : all_rows();
    const size_t count = (size_t)rows * (size_t)D;
    double *sum = allocate(count, sizeof *sum);
    int *walks = allocate((size_t)rows, sizeof *walks);
    EACH_WALK (r, n) {
        if (!step_count || by_keys != (output > 0)) continue;
        const step *end = &steps[step_count - 1];
        const product *p = output == 2 ? end->P : end->dS;
        for (int i = 0; p && p->cols == D && i < p->rows; i++) {
            const int row = end->S->a_row[i];
            if (row < 0 || row >= rows) continue;
            walks[row]++;
            for (int d = 0; d < D; d++) sum[row * D + d] += p->after[i * D + d];
        }
    }
    const double factor = output == 2 ? 1 : s->scale;
    for (int at = (int)count; at-- > 0;) {
        const int row = at / D;
        const double y = e.out[output][at];
        double largest = fabs(y);  // of this row
        for (int d = 0; d < D; d++) largest = fmax(largest, fabs(factor * sum[row * D + d]));
        if (walks[row])
            see_sum(&fit_end[output], y, 0.012 * largest + 1e-6, output == 2 ? "+ the sum" : "+s the sum",
                    (double[]){sum[at]},
                    "%s of row %d is not %s of all products%s: one element should be %.4g, but is %.4g", names[output],
                    output ? key_of(row) : query_of(row), output == 2 ? "the sum" : "scale times the sum",
                    walks[row] > 1 ? " (the queries are split into parts)" : "", factor * sum[at], y);
    }
}

// dsinks of 12. As long as that gap is as shipped, a head has the rows of its thread 0 alone: one row is looked at.
static bool block_is_summed(void) { return worth_naming("sum of the block"); }

#define TERM "exp(s - L) delta"
static void look_at_dsinks(void)
{
    if (s->q_len > 1 && !block_is_summed()) return;
    for (int h = s->q_heads; h-- > 0;) {
        const double x = e.sink_logits[h], key = e.sink_logits[h / (s->q_heads / s->kv_heads)], got = e.dsinks[h];
        double sum[10 + POWERS] = {0}, size = 0;
        if (!isfinite(x)) continue;
        EACH_PAIR (b, s->batch, i, s->q_len) {
            const int row = (b * s->q_heads + h) * s->q_len + i;
            const double L = e.L[row], delta = e.delta[row], right = -exp(x - L) * delta;
            for (int k = 0; k < POWERS; k++) sum[k] -= power(k, x, L) * delta;
            double *const rest = sum + POWERS;
            size += fabs(right), rest[0] -= exp(x * s->scale - L) * delta, rest[1] -= exp(key - L) * delta;
            rest[2] += b == 0 ? right : 0, rest[3] = s->batch * rest[2], rest[4] -= exp(x - L);
            rest[5] += i < 32 ? right : 0, rest[6] += i % 32 ? 0 : right, rest[7] += i + 1 < s->q_len ? right : 0;
        }
        for (int n = 8; n < 10; n++) sum[POWERS + n] = nearly(got, sum[0], size, n == 8);
        see_sum(&fit_dsinks, got, 2e-4 * (size + fabs(got)) + 1e-20,
                "+ " TERM "| " POWERS_OF("s", "L", " delta") "| exp(scale s - L) delta| " TERM
                                                             ", with s of the key head| " TERM
                                                             " over the first sequence only| " TERM
                                                             " over the first sequence's rows, once for each sequence"
                                                             "| exp(s - L)| " TERM
                                                             " over the first 32 rows of each sequence| " TERM
                                                             " over every 32nd row alone| " TERM
                                                             " over all rows of a sequence but the last" ROUNDED(TERM),
                sum, "dsinks[%d] should be %.5g, minus the sum of exp(s - L) delta over its rows, but is %.5g", h,
                sum[0], got);
    }
}

void look_at_backward(void)
{
    record r;
    s = e.s, s2 = s->scale * LOG2E;
    look_at_delta();
    if (e.dsinks) look_at_dsinks();
    if (!record_read(&r)) return;
    EACH_WALK (&r, n) {
        look_at_factors();
        if (by_keys || !r.dQ_elsewhere) look_at_sums(false);
        if (by_keys) look_at_sums(true);
    }
    if (look_at_heads(&r, false)) look_at_heads(&r, true);
    look_at_walks(&r, true);
    if (!r.dQ_elsewhere) look_at_walks(&r, false);
    look_at_tiles(&r);
    EACH_WALK (&r, n) EACH_STEP(t)
    if (by_keys ? t->P != NULL : t->dS && t->dP) look_at_values(t);
    for (int k = r.dQ_elsewhere; k < 3; k++) look_at_end(&r, k);
}

// What is added up may be another tile than dS.
void settle_backward(void)
{
    if (fit_form(&fit_dS[0])) fit_dS[0].rank = BY_EXPONENT;
    const form *const sum = fit_form(&fit_dsinks);
    const char *const says = sum ? sum->says : "", *const right = strstr(says, "exp(s - L) delta");
    if (block_is_summed())
        fit_dsinks.gaps =
            !*says || (right && !strchr(" ", right[16])) ? "rows of the head|sum of the block" : "rows of the head";
}
