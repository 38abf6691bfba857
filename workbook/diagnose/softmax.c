// softmax.c - what each row of a forward makes of its scores: what it subtracts, how it rescales O, by what it divides
// it, and L.
//
// m follows from scores and their weights, the factor of the rescaling from O after one product and before the next, l
// from O at the end and what came out. Each step is held against a short list of forms; one is named that explains all
// rows of the case.
#include "evidence.h"

static fit fit_slope, fit_m, fit_alpha, fit_l, fit_L, fit_logit_l, fit_logit_L;

static double s2;

static double dot_of(const float *x, const float *y, int D)
{
    double sum = 0;
    for (int d = 0; d < D; d++) sum += (double)x[d] * y[d];
    return sum;
}

// What a row subtracts from its scores in base 2, from its weights in one tile; NaN if it has none, or not one number.
static double subtracted(const step *t, int i, int *weights)
{
    double x[256], y[256], lane[4] = {0};
    int count = 0, in_lane[4] = {0}, lane_of[256];
    const product *S = t->S, *PV = t->P;
    const int q = query_of(S->a_row[i]);
    *weights = 0;
    for (int c = 0; c < S->cols && c < 256; c++) {
        const double P = PV->a[i * PV->depth + c], score = S->after[i * S->cols + c];
        const bool seen = sees(S->a_row[i], key_of(S->b_row[c]));
        if (!isfinite(P) && seen) {
            find(BY_MAXIMUM + 1, isnan(P) ? "" : "weights_infinite", "accumulate|max|rescale|softmax",
                 "query %d has a weight that is %s in the tile of keys from %d on: what is subtracted from its scores "
                 "is no maximum of them",
                 q, isnan(P) ? "NaN" : "infinite", t->first);
            return NAN;
        }
        if (!(P > 1e-30) || P > 1e30 || !seen) continue;
        x[count] = score, y[count] = log2(P), lane_of[count] = c % 8 / 2;
        const double m = score * s2 - y[count++];
        lane[c % 8 / 2] += m, in_lane[c % 8 / 2]++;
    }
    *weights = count;
    if (count == 0) return NAN;
    const exponent is = exponent_of(x, y, count, s2, e.problem->on_host ? 2e-3 : 0.012);
    if (is.one) return is.m;
    bool by_lanes = !e.problem->on_host && fmin(fmin(in_lane[0], in_lane[1]), fmin(in_lane[2], in_lane[3])) >= 3;
    for (int n = 0; n < count; n++)
        by_lanes &= fabs(x[n] * s2 - y[n] - lane[lane_of[n]] / in_lane[lane_of[n]]) < is.close;
    if (by_lanes)
        find(BY_EXPONENT, "max_of_a_lane", "rescale|max|softmax",
             "query %d subtracts different numbers from the scores of one tile, each lane its own: the maximum is not "
             "brought together over the lanes of the row",
             q);
    else if (!(count >= 6 && see_slope(&fit_slope, &is, s2, q, "")))
        find(BY_EXPONENT, "", "accumulate|max|rescale|softmax",
             "the weights of query %d in the tile of keys from %d on are not 2^(scale log2(e) S - m) with one m for "
             "the row",
             q, t->first);
    return NAN;
}

// What the sink's term is of exp(L), by each form: L of the keys alone. Returns how many forms there are.
static int logit_forms(int head, double L, form *forms)
{
    const float *logits = e.sink_logits;
    const int heads = e.s->q_heads, h = head % heads;
    const double s = logits[h], scale = e.s->scale, term = exp(s - L), key = logits[h / (heads / e.s->kv_heads)];
    // clang-format off
    const form list[] = {
        {"", "", term}, {"logit_forgotten", ": the sink logit is not in it", 0},
        {"logit_scaled", ": the logit is multiplied by scale, which it is not to be", exp(s * scale - L)},
        {"logit_as_base_2", ": 2^ takes the logit, which is to base e", exp(s * LN2 - L)},
        {"logit_of_key_head", ": it is the logit with the number of the key head", exp(key - L)},
        {"logit_in_lanes", ": the logit's term is in it four times, once for each lane of a row", 4 * term},
        {"logit_twice", ": the logit's term is in it twice", 2 * term},
        {"logit_factor_twice", ": the factor 1 + exp(logit - L) is in it twice", (1 + term) * (1 + term) - 1},
        {"logit_wrong_sign", ": the logit has the wrong sign", exp(-s - L)},
        {"logit_is_0", ": the logit is taken for 0", exp(-L)},
        {"zero_is_no_logit", ": a logit of 0 counts as none", s == 0 ? 0 : term}};
    // clang-format on
    return copy_forms(forms, FORMS(list));
}

static bool known(const double *runs, int count, double m)
{
    for (int n = 0; n < count; n++)
        if (fabs(runs[n] - m) < 0.012 + 1e-4 * fabs(m)) return true;
    return false;
}

// What was seen of a row, tile by tile: its largest score so far, and in the tile. Up to the last tile: what it
// subtracts, the tile's weights, and their sum, as it is right and as it may be wrong.
typedef struct row_seen {
    double runs[STEPS], tile[STEPS], m, weights, l, plain, under_old, raw;
    int tiles, keys;
} row_seen;

static void look_at_maximum(int q, int t, double m, double before, double all, const double *runs, const double *tile)
{
    const double run = runs[t], top = tile[t], scale = e.s->scale;
    // clang-format off
    const form forms[] = {
        {"", "", run}, {"max_of_this_tile", ": that is the largest of this tile alone", top},
        {"no_max", ": nothing is subtracted", 0},
        {"max_without_scale", ": scale is missing in it", run / scale},
        {"max_from_0", ": the maximum begins at 0, which is larger", fmax(run, 0)},
        {"max_before_mask", ": that is the largest of all scores of the tiles, hidden ones too", all}};
    // clang-format on
    // m may stay until a score exceeds it by 8; where a warp's other row ends that, it grows to this tile's maximum.
    const bool fresh = fabs(m - run) < 0.012 + 1e-4 * fabs(run);
    const bool stays = t > 0 && fabs(m - before) < 0.012;
    if (!fresh && m > run - 8.1 && (stays || known(runs, t + 1, m) || (m > before && known(&tile[t], 1, m)))) return;
    fit_see(&fit_m, m, 0.012 + 2e-4 * fabs(m), FORMS(forms),
            "in tile %d of its walk query %d subtracts %.4g from its scores in base 2, the largest of which is %.4g so "
            "far",
            t, q, m, run);
}

double rescaled_by(const step *from, const step *to, int i)
{
    const int D = e.s->head_dim;
    if (!to->P) return 0;
    const float *x = from->P->after + i * D, *y = to->P->before + i * D;
    const double size = dot_of(x, x, D), factor = size > 0 ? dot_of(x, y, D) / size : 0;
    double off = 0;
    for (int d = 0; d < D; d++) off += pow(y[d] - factor * x[d], 2);
    if (!isfinite(off)) return -INFINITY;
    return off <= 1e-4 * size * fmax(1, factor * factor) ? factor : NAN;
}

static void look_at_rescaling(int q, int t, const step *from, const step *to, int i, double old, double m, double l)
{
    const int D = e.s->head_dim;
    const float *x = from->P->after + i * D;
    const double size = dot_of(x, x, D), delta = old - m, right = exp2(delta), factor = rescaled_by(from, to, i);
    if (!(size > 0) || !isfinite(size) || right < 1e-6) return;
    if (!isfinite(factor)) {
        find(BY_RESCALING, "", "rescale|softmax|overlap",
             "from tile %d to tile %d of its walk O of query %d is not multiplied by one number, where %.4g is right "
             "in all columns",
             t, t + 1, q, right);
        return;
    }
    // clang-format off
    const form forms[] = {
        {"", "", right}, {"O_not_rescaled", ": O is not rescaled", 1},
        {"rescaled_upside_down", ": old and new maximum are exchanged", 1 / right},
        {"rescaled_by_l", ": O is divided by l in each tile", right / l}};
    // clang-format on
    fit_see(&fit_alpha, factor, 0.015 * fmax(fabs(factor), right) + 1e-6, FORMS(forms),
            "from tile %d to tile %d of its walk the number that query %d subtracts grows by %.4g, so O has to be "
            "multiplied by 2^%.4g = %.4g; it is multiplied by %.4g",
            t, t + 1, q, -delta, delta, right, factor);
}

// The end of a row.
static void look_at_end(int row, const step *last, int i, const row_seen *seen)
{
    const int D = e.s->head_dim, q = query_of(row), n = seen->tiles;
    const float *sum = last->P->after + i * D, *O = e.out[0] + (size_t)row * (size_t)D;
    const double end = seen->m, l = seen->l, size = dot_of(O, O, D), slack = e.problem->on_host ? 2e-3 : 0.01;
    double lane[4] = {0}, size_of_lane[4] = {0};
    const char *where = n == 1 ? "finalize|accumulate|softmax|empty rows|logit"
                               : "finalize|accumulate|rescale|softmax|empty rows|logit";
    const double L_keys = (end + log2(l)) * LN2;
    form terms[MAX_FORMS] = {0};
    const int term_count = e.sink_logits ? logit_forms(head_of(row), L_keys, terms) : 0;
    const double term = terms[0].is;
    if (!isfinite(size)) {
        find(BY_SUM, "", where, "O of query %d is not finite, though the sum of its weights is %.4g", q, l);
        return;
    }
    const double factor = 1 + term, used = size > 0 ? dot_of(sum, O, D) / size : INFINITY;
    double off = 0, largest = 0, spread = 0, smallest = 0;
    for (int d = 0; d < D; d++) {
        off = fmax(off, fabs(O[d] - sum[d] / (l * factor))), spread = fmax(spread, fabs(O[d] - sum[d] / used)),
        largest = fmax(largest, fabs(O[d])), smallest = fmax(smallest, fabs(sum[d] / (l * factor)));
        lane[d % 8 / 2] += (double)sum[d] * O[d], size_of_lane[d % 8 / 2] += (double)O[d] * O[d];
    }
    if (size == 0 && smallest < 1e-30) return;
    const bool O_wrong = !(off <= slack * fmax(largest, smallest) + 1e-30);
    if (O_wrong && size > 0 && spread > slack * largest) {
        double parts = 0;
        for (int p = 0; p < 4; p++) parts += size_of_lane[p] > 0 ? lane[p] / size_of_lane[p] : 0;
        if (!e.problem->on_host &&
            (near_to(parts, l, 0.03) || near_to(parts, seen->plain, 0.03) || near_to(parts, seen->weights, 0.03)))
            find(BY_SUM, "l_of_a_lane", where,
                 "O of query %d is divided by another number in each lane's columns: l is not summed up over the four "
                 "lanes of a row",
                 q);
        else
            find(BY_SUM, "", where, "what comes out as O of query %d is not the sum of P V divided by one number", q);
        return;
    }
    const double right = L_keys + log1p(term), log_l = log(l);
    // clang-format off
    const form sums[] = {
        {"", "", l}, {"not_divided", ": it is not divided", 1},
        {"l_completed_twice", ": l is completed twice over the four lanes of a row", 4 * l},
        {"l_of_the_last_tile", ": l has the last tile alone", seen->weights},
        {"l_not_rescaled", ": l was not rescaled when the maximum grew", seen->plain},
        {"l_of_raw_scores", ": that is the sum of S = q k, not of its weights", seen->raw},
        {"l_of_old_max", ": the tile's weights were added to l under the old maximum", seen->under_old}};
    const form forms[] = {
        {"", "", right}, {"L_in_base_2", ": that is in base 2", end + log2(l)},
        {"L_m_in_base_2", ": m has to be multiplied by ln(2)", end + log_l}, {"L_without_m", ": m is missing", log_l}};
    // clang-format on
    for (int f = 0; f < term_count; f++) terms[f].is = (float)(l * (1 + terms[f].is));  // float32 overflows early
    if (!e.sink_logits)
        fit_see(&fit_l, used, 0.012 * fabs(used), FORMS(sums),
                "the weights of query %d sum up to %.4g, but O is divided by %.4g", q, l, used);
    else if (isfinite(term))
        fit_see(&fit_logit_l, used, slack * fmax(l * (1 + term), used), terms, term_count,
                "the weights of query %d sum up to %.4g; with the sink's term that is %.4g, but O is divided by %.4g",
                q, l, l * factor, used);
    if (O_wrong || !e.out[1]) return;
    const double L = e.out[1][row];
    if (e.sink_logits) logit_forms(head_of(row), L_keys, terms);
    for (int f = 0; f < term_count; f++) terms[f].is = L_keys + log1p(terms[f].is);
    if (!e.sink_logits)
        fit_see(&fit_L, L, 0.004 + 0.003 * fabs(right), FORMS(forms),
                "O of query %d is right, and its L should be ln(2) (m + log2(l)) = %.4g with m = %.4g and l = %.4g, "
                "but is %.4g",
                q, right, end, l, L);
    else if (isfinite(term))
        fit_see(&fit_logit_L, L, 0.002 + 0.001 * fabs(right), terms, term_count,
                "L of query %d, which is %.4g of the keys alone, should be %.4g with the sink, but is %.4g", q, L_keys,
                right, L);
}

void see_empty_row(int row)
{
    const double L = e.out[1] ? e.out[1][row] : -INFINITY;
    bool zero = true;
    for (int d = 0; d < e.s->head_dim; d++) zero &= e.out[0][(size_t)row * (size_t)e.s->head_dim + (size_t)d] == 0;
    if (!zero || L != -INFINITY)
        find(BY_SUM, !zero ? "empty_rows_O" : "empty_rows_L", "empty rows|finalize",
             "query %d of head %d sees no key: its O should be 0 and its L -infinity; O is %s, and L is %.4g",
             query_of(row), head_of(row), zero ? "0" : "not 0 (or not finite)", L);
}

static void look_at_row(int i)
{
    static row_seen seen;
    const int row = steps[0].S->a_row[i], q = query_of(row);
    int last = -1;
    double run = -INFINITY, all = -INFINITY;
    seen.tiles = seen.keys = 0, seen.m = -INFINITY;
    seen.l = seen.plain = seen.under_old = seen.raw = 0;
    if (row < 0) return;
    for (int t = 0; t < step_count; t++) {
        const product *S = steps[t].S, *PV = steps[t].P;
        double tile = -INFINITY, weights = 0, scores = 0;
        int visible = 0, given = 0;
        if (!PV) return;
        if (t == 0 && isnan(PV->before[i * e.s->head_dim])) {
            find(BY_RESCALING, "rescaled_by_nan", "rescale|max|softmax",
                 "O of query %d is 0 before its first tile, but rescaled it is NaN: the factor is not finite, where it "
                 "should be 2^(old maximum - new maximum)",
                 q);
            return;
        }
        for (int c = 0; c < S->cols; c++) {
            const double score = S->after[i * S->cols + c] * s2;
            weights += PV->a[i * PV->depth + c], all = fmax(all, score);
            if (!sees(row, key_of(S->b_row[c]))) continue;
            visible++, tile = fmax(tile, score), scores += S->after[i * S->cols + c];
        }
        if (visible < S->cols) scores = -INFINITY;  // what is hidden is that
        seen.runs[t] = run = fmax(run, tile), seen.tile[t] = tile, seen.keys += visible;
        const double now = subtracted(&steps[t], i, &given);
        if (given == 0) {
            if (visible && weights == 0 && tile > run - 60)
                find(BY_MAXIMUM + 1, "", "accumulate|max|rescale|softmax|mask|tail",
                     "query %d gives no weight at all to the tile of keys from %d on, of which it sees %d", q,
                     steps[t].first, visible);
            if (visible) return;
            continue;
        }
        if (isnan(now)) return;
        const double old = seen.m, alpha = seen.tiles++ ? exp2(old - now) : 1;
        look_at_maximum(q, t, now, old, all, seen.runs, seen.tile);
        if (last >= 0 && last == t - 1) look_at_rescaling(q, last, &steps[last], &steps[t], i, old, now, seen.l);
        seen.m = now, seen.weights = weights, seen.l = seen.l * alpha + weights;
        seen.plain += weights, seen.raw += scores;
        seen.under_old = seen.under_old * alpha + weights / alpha, last = t;
    }
    if (seen.tiles > 0 && last == step_count - 1) look_at_end(row, &steps[last], i, &seen);
    if (seen.tiles == 0 && seen.keys == 0) see_empty_row(row);
}

void look_at_softmax(const record *r)
{
    int *walks = allocate((size_t)all_rows(), sizeof *walks);  // of each row: what several share is no walk of its own
    s2 = base2_scale();
    EACH_WALK (r, n) {
        for (int i = 0; step_count && i < steps[0].S->rows; i++)
            if (steps[0].S->a_row[i] >= 0) walks[steps[0].S->a_row[i]]++;
    }
    EACH_WALK (r, n) {
        for (int i = 0; step_count && i < steps[0].S->rows; i++)
            if (steps[0].S->a_row[i] >= 0 && walks[steps[0].S->a_row[i]] == 1) look_at_row(i);
    }
    free(walks);
}

void conclude_softmax(void)
{
    const char *all = "max|rescale|accumulate|softmax", *sum = "finalize|accumulate|rescale|softmax|empty rows";
    const form *l = fit_form(&fit_l);
    if (is_one_of(l, "not_divided"))
        sum = "finalize|empty rows";
    else if (l && !is_one_of(l, "l_completed_twice"))
        sum = "accumulate|rescale|softmax";
    fit_conclude(&fit_slope, BY_EXPONENT, "accumulate|softmax", NULL, ": that is ");
    fit_conclude(&fit_m, BY_MAXIMUM, all, NULL, "");
    fit_conclude(&fit_alpha, BY_RESCALING, "rescale|softmax|overlap", "rescale|max|accumulate|softmax|overlap", "");
    fit_conclude(&fit_l, BY_SUM, sum, NULL, "");
    const char *of_logit[2];  // whose logit it is, and its number, are the gap's that reads it
    const fit *const of[] = {&fit_logit_l, &fit_logit_L};
    for (int n = 0; n < 2; n++)
        of_logit[n] =
            is_one_of(fit_form(of[n]), "logit_of_key_head logit_is_0 zero_is_no_logit") ? "logit" : "finalize|logit";
    fit_conclude(&fit_logit_l, BY_SUM, of_logit[0], NULL, "");
    fit_conclude(&fit_L, BY_L, "finalize|empty rows", NULL, "");
    fit_conclude(&fit_logit_L, BY_L, of_logit[1], NULL, "");
}
