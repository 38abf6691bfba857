// softmax.c - what each row of a forward makes of its scores: m, from scores and weights; how it rescales O, from O
// after a product and before the next; and l, from O at the end and what came out.
#include "evidence.h"

#define STEPS_OF_m "rescale|max|accumulate|softmax"
#define MASK_GAPS  "mask of the diagonal|mask of the window|mask of the sinks|mask|tail|packed rows"

static fit fit_slope = FIT(
    BY_EXPONENT, "accumulate|softmax", .others = "accumulate|max|rescale|softmax", .joint = "; the exponent contains ",
    .zero = "; they are the same for all scores: is m far from every score?", .by = {{"=0", STEPS_OF_m}});
static fit fit_lanes = FIT(BY_EXPONENT, STEPS_OF_m, .joint = ": each of the four lanes that share the row ");
static fit fit_m =
    FIT(BY_MAXIMUM, "max|rescale|accumulate|softmax", .joint = "; c is ", .zero = "; no maximum is subtracted",
        .by = {{"=0", "accumulate|max|softmax"},
               {"=max of S in this tile alone", "max|accumulate"},
               {"in this tile alone)", STEPS_OF_m},
               {"before the mask", MASK_GAPS},
               {"kept so far", "rescale|accumulate|softmax"}});  // that is m_new
// A factor of the weights that is no m.
static fit fit_early = FIT(BY_MAXIMUM, "accumulate|rescale|finalize|softmax",
                           .joint = ", but these divided by their sum over ", .pinned = true);
static fit fit_alpha = FIT(BY_RESCALING, "rescale|softmax|overlap", .others = "rescale|max|accumulate|softmax|overlap",
                           .joint = ", which equals 2 to the power of ", .zero = "; O is not rescaled",
                           .by = {{"log2(l)", "rescale|finalize|softmax"}});
static fit fit_l =
    FIT(BY_SUM, "logit|accumulate|finalize|rescale|softmax|empty rows", .zero = "; nothing was added to l, which is 0",
        .by = {{"=1", "finalize|empty rows"},
               {"rescaled", "rescale|accumulate|finalize|softmax|empty rows"},
               {"=l", "finalize|logit"},
               {" exp(s - m)", "finalize|logit"}});
static fit fit_L = FIT(BY_L, "finalize|empty rows");  // the logit is right in O

static fit at_start = {.mute = true};  // the first sentence about a row that begins with another m
static double start;                   // that m
static double lowest = INFINITY;       // what a row begins with that is right
static int starts;                     // of how many rows, if all of them have it; or below 0

static double s2, sink2;  // the scale; the logit of a row's sink, in base 2
static double dot_of(const float *x, const float *y)
{
    double sum = 0;
    for (int d = 0; d < e.s->head_dim; d++) sum += (double)x[d] * y[d];
    return sum;
}

// A row of a tile lies with four lanes, each of which has two columns in eight. How far apart lanes' numbers are, if
// each has one for all of its columns; else -1.
static double apart_by_lane(const double *is, const int *column, int count, double close, double of[4])
{
    double least = INFINITY, most = -INFINITY;
    bool own = count > 5 && !e.problem->on_host;
    for (int k = 0; k < 4; k++) of[k] = NAN;
    for (int n = 0; n < count; n++) {
        double *const lane = &of[column[n] / 2 % 4];
        if (isnan(*lane)) *lane = is[n];
        own &= fabs(is[n] - *lane) <= 2 * close;
        least = fmin(least, is[n]), most = fmax(most, is[n]);
    }
    return own ? most - least : -1;
}

// Whether row i of a tile sees the key of column c; past the last key of a head begins another's.
static bool is_seen(const product *S, int i, int c)
{
    const int key = S->b_row[c], first = S->b_row[0];
    return sees(S->a_row[i], key_of(key)) && (e.kv_len || first < 0 || key_head_of(key) == key_head_of(first));
}

// A row without one m: lanes may have the largest score, or the sum, of their own columns. The first tile tells.
static void see_lanes(const step *t, int i, bool lanes, const char *q)
{
    bool largest = true, sum = true;
    for (int k = 0; k < 4 && t == steps; k++) {
        double most = 0, all = 0;
        for (int c = 2 * k; c < t->S->cols; c += c % 2 ? 7 : 1)
            most = fmax(most, weight_at(t, i, c)), all += weight_at(t, i, c);
        largest &= !all || near_to(most, 1, 0.02), sum &= !all || near_to(all, 1, 0.02);
    }
    const form forms[] = {{"", 0},
                          {"subtracts its own maximum", lanes && largest},
                          {"divides by the sum of its own columns", lanes && sum},
                          {"has a number of its own", lanes}};
    see(&fit_lanes, 1, 0, forms, COUNT(forms), "the weights of %s in the tile that starts at key %d do not share one m",
        q, t->first);
}

// What a row subtracts from its scores in base 2, by its weights in a tile; NaN: it has none, or not one number.
static double subtracted(const step *t, int i, int *weights)
{
    double x[256], y[256], is[256], own[4], m = 0;
    int count = 0, column[256];
    const product *S = t->S;
    const char *const q = name_of(S->a_row[i]);
    *weights = 0;
    for (int c = 0; c < S->cols && c < 256; c++) {
        const double P = weight_at(t, i, c), score = score_at(t, i, c);
        const bool seen = is_seen(S, i, c);
        if (!isfinite(P) && seen) {
            find(BY_MAXIMUM + 1, isnan(P) ? "" : "weights_infinite", STEPS_OF_m,
                 "%s has a weight that is %s in the tile that starts at key %d%s", q, isnan(P) ? "NaN" : "infinite",
                 t->first,
                 isnan(P) ? "; infinity minus infinity is NaN, and so is 0 times infinity"
                          : ": its scores' maximum is not subtracted");
            return NAN;
        }
        if (!(P > 1e-30) || P > 1e30 || !seen) continue;
        x[count] = score, y[count] = log2(P), is[count] = score * s2 - y[count], column[count++] = c;
    }
    *weights = count;
    if (count == 0) return NAN;
    for (int n = 0; n < count; n++) m += is[n] / count;
    const double close = (e.problem->on_host ? 2e-3 : 0.012) + 1e-4 * fabs(m);
    bool one = true;
    for (int n = 0; n < count; n++) one &= fabs(is[n] - m) <= close;
    const double apart = one ? -1 : apart_by_lane(is, column, count, close, own);
    if (!one) see_lanes(t, i, apart > 4 * close, q);
    if (apart >= 0) return NAN;
    for (int n = 1; n < count && !one; n++)
        see_sum(&fit_slope, y[n] - y[0], 2 * close, e.problem->on_host ? "+ S" : "+sl S", (double[]){x[n] - x[0]},
                "the weights of %s in the tile that starts at key %d are not 2^(scale log2(e) S - m) with one m", q,
                t->first);
    return one ? m : NAN;
}

// l with the term of the head's sink logit s, and what may stand for that; m and L, of the keys, in base e.
static void see_sink(fit *f, int head, double m, double l, double seen, double part, const char *says)
{
    const int heads = e.s->q_heads, h = head % heads;
    const double s = e.sink_logits[h], key = e.sink_logits[h / (heads / e.s->kv_heads)], term = exp(s - m);
    const double L = m + log(l);
    double is[6 + POWERS] = {l, term, exp(key - m), exp(e.s->scale * s - m), term * step_count, s, l * power(1, s, L)};
    for (int n = 1; n < POWERS; n++) is[6 + n] = power(n, s, m);
    see_sum(f, seen, part * fmax(l + term, seen),
            "+ l|+ exp(s - m)| exp(s of the key head - m)| exp(scale s - m)| exp(s - m) for each tile| s| l 2^(s - L)"
            "| " POWERS_OF("s", "m", ""),
            is, "%s", says);
}

// What was seen of a row: its largest score so far, and in this tile (top); what it subtracts, the tile's weights, and
// their sum, as it is right and without a rescaling.
typedef struct row_seen {
    double runs[STEPS], top, all, m, weights, l, plain;  // all: the largest score, of hidden keys, too
    int tiles, keys;
} row_seen;

#define SUBTRACTS "in tile %d, weights of %s are 2^(S - c) in base 2 with c = %.4g, but its largest S so far is %.4g"
static bool same_m(double a, double b) { return fabs(a - b) < 0.012 + 1e-4 * fabs(b); }

// stayed: the m of a row that grows when a score exceeds it by 8.
static void look_at_maximum(const char *q, int t, double m, double before, const row_seen *seen, double stayed)
{
    const double *const runs = seen->runs, run = runs[t], top = seen->top, to_S = s2 != 0 ? 1 / s2 : 1;
    // m may stay until a score exceeds it by 8; where another row ends that, it grows to this tile's maximum.
    const bool fresh = same_m(m, run), kept = t > 0 && fabs(m - before) < 0.012;
    bool known = kept || same_m(sink2, m) || (m > before && same_m(top, m));
    for (int n = 0; n <= t; n++) known |= same_m(runs[n], m);
    if (fresh && before == -INFINITY) lowest = fmin(lowest, m);
    if ((kept || !fresh) && m > run - 8.1 && known) return;
    if (!fresh && before == -INFINITY && run < m + 8.1) {
        if (!*at_start.says) start = m;
        starts = starts < 0 || fabs(m - start) > 0.04 ? -1 : starts + 1;
        see(&at_start, 0, 0, NULL, 0, SUBTRACTS, t, q, rounded(m), run);
    }
    if (starts > 0 && fabs(m - start) < 0.04 && run < m + 8.1) return;
    const form early[] = {{"", run},
                          {"all scores so far, l: the division by l belongs after the last tile", m + log2(seen->l)},
                          {"this tile: only the last l divides, after the last tile", m + log2(seen->weights)}};
    see(&fit_early, m, 0.012 + 2e-4 * fabs(m), early, COUNT(early), "in tile %d, weights of %s are not 2^(S - m)", t,
        q);
    see_sum(&fit_m, m, 0.012 + 2e-4 * fabs(m),
            e.problem->on_host ? "+ max of S so far| max of S in this tile alone| max of S so far, before the mask"
                               : "+sl (max of S so far)| (max of S in this tile alone)| (max of S so far, before the "
                                 "mask)| (the larger of this tile's maximum and the m kept so far)",
            (double[]){run * to_S, top * to_S, seen->all * to_S, fmax(top, stayed) * to_S}, SUBTRACTS, t, q, rounded(m),
            run);
}

double rescaled_by(const step *from, const step *to, int i)
{
    const int D = e.s->head_dim;
    if (!to->P) return 0;
    const float *x = from->P->after + i * D, *y = to->P->before + i * D;
    const double size = dot_of(x, x), factor = size > 0 ? dot_of(x, y) / size : 0;
    double off = 0;
    for (int d = 0; d < D; d++) off += pow(y[d] - factor * x[d], 2);
    if (!isfinite(off)) return -INFINITY;
    return off <= 1e-4 * size * fmax(1, factor * factor) ? factor : NAN;
}

static void look_at_rescaling(const char *q, int t, const step *from, const step *to, int i, double old, double m,
                              double l)
{
    const float *x = from->P->after + i * e.s->head_dim;
    const double delta = old - m, right = exp2(delta), factor = rescaled_by(from, to, i);
    if (!(dot_of(x, x) > 0) || right < 1e-6 || !isfinite(factor)) return;
    see_sum(&fit_alpha, factor > 0 ? log2(factor) : -1e9, 0.025, "+ (m_old - m_new)| log2(l)",
            (double[]){delta, log2(l)},
            "from tile %d to tile %d, m of %s grows by %.4g, so O must be multiplied by 2^%.4g = %.4g, but is by %.4g",
            t, t + 1, q, -delta, delta, right, factor);
}

// Whether what this row of O should be is in another.
static bool is_elsewhere(int row, const float *sum, double l, double slack)
{
    const int D = e.s->head_dim;
    bool there = false;
    int at = -1;
    while (!there && ++at < all_rows()) {
        there = at != row;
        for (int d = 0; d < D && there; d++)
            there = fabs(row_of_O(at)[d] - sum[d] / l) <= slack * fabs(sum[d] / l) + 1e-6;
    }
    return there && (find(BY_SUM - 1, "stored elsewhere", "order|share",
                          "the result of row %d of O [B Hq Nq, D] was stored in row %d", row, at),
                     true);
}

// Whether each lane of a row divides by a sum of its own, of which l is the sum.
static bool divided_by_lane(const float *sum, const float *O, double l)
{
    double is[WB_MAX_HEAD_DIM], own[4], all = 0;
    int column[WB_MAX_HEAD_DIM], count = 0;
    for (int d = 0; d < e.s->head_dim; d++)
        if (isfinite(O[d]) && O[d] != 0) is[count] = log2(sum[d] / O[d]), column[count++] = d;
    const bool apart = apart_by_lane(is, column, count, 0.01, own) > 0.04;
    for (int k = 0; k < 4; k++) all += isnan(own[k]) ? 0 : exp2(own[k]);
    return apart && fabs(all - l) <= 0.02 * l;
}

static void look_at_end(int row, const step *last, int i, const row_seen *seen)
{
    const char *const q = name_of(row);
    const int D = e.s->head_dim;
    const float *sum = last->P->after + i * D, *O = row_of_O(row);
    const double end = seen->m, l = seen->l, size = dot_of(O, O), slack = e.problem->on_host ? 2e-3 : 0.01;
    const bool sink = e.sink_logits;
    const double L_keys = (end + log2(l)) * LN2, term = sink ? exp2(sink2 - L_keys * LOG2E) : 0;
    const double factor = 1 + term, used = size > 0 ? dot_of(sum, O) / size : INFINITY;
    double off = 0, largest = 0, spread = 0, smallest = 0;
    bool divided_by_0 = true, is_nan = true;
    for (int d = 0; d < D; d++) {
        off = fmax(off, fabs(O[d] - sum[d] / (l * factor))), spread = fmax(spread, fabs(O[d] - sum[d] / used)),
        largest = fmax(largest, fabs(O[d])), smallest = fmax(smallest, fabs(sum[d] / (l * factor)));
        divided_by_0 &= isfinite(sum[d]) && (sum[d] == 0 || O[d] == sum[d] * INFINITY);
        is_nan &= isnan(O[d]) && isfinite(sum[d]);
    }
    const double right = L_keys + log1p(term), L = e.out[1] ? e.out[1][row] : right;
    const bool clear = !sink || l * term < 1e30;  // float32 overflows early
    if (!clear && *overflow_of(L, log(term)))
        find(BY_L, "exp(s - L)", "finalize|logit", "L of %s should be %.4g%s", q, right, overflow_of(L, log(term)));
    if (size == 0 && smallest < 1e-30) return;
    const bool O_wrong = !(off <= slack * fmax(largest, smallest) + 1e-30);
    if (divided_by_0 && !sink)
        see_sum(&fit_l, 0, 1e-30, "+ l| 1", (double[]){l, 1},
                "the weights of %s have the sum %.4g, but O is divided by 0", q, l);
    if (divided_by_0) return;
    if (!isfinite(size) || (O_wrong && size > 0 && spread > slack * largest)) {
        if (is_elsewhere(row, sum, l * factor, slack)) return;
        if (is_nan)
            find(BY_END, "l is NaN", "logit|finalize|accumulate|rescale|softmax|empty rows",
                 "O of %s is NaN, although its sum of P V is finite and its weights have the sum %.4g: so l%s is NaN",
                 q, l, sink ? ", or the sink's term," : "");
        if (is_nan) return;
        const bool own = divided_by_lane(sum, O, l);
        find(BY_SUM - 1, own ? "l of each lane" : "", "finalize|accumulate|softmax|rescale|empty rows|logit",
             "O of %s is not its sum of P V divided by one number for all columns%s", q,
             own ? ": each of the four lanes that share the row divides by the sum of its own columns" : "");
        return;
    }
    char with_sink[60] = "", says[400];
    if (sink) snprintf(with_sink, sizeof with_sink, ", and %.4g with the sink's term", l * factor);
    snprintf(says, sizeof says, "the weights of %s have the sum l = %.4g%s, but O is divided by %.4g", q, l, with_sink,
             used);
    if (!clear) return;
    if (sink)
        see_sink(&fit_l, head_of(row), end * LN2, l, used, slack, says);
    else
        see_sum(&fit_l, used, 0.012 * fabs(used),
                "+ l| 1| (the sum of the last tile alone)| (l that is never rescaled)",
                (double[]){l, 1, seen->weights, seen->plain}, "%s", says);
    if (O_wrong || !e.out[1]) return;
    snprintf(says, sizeof says,
             "O of %s is correct, but L = ln(2) (m + log2(l%s)), with m = %.4g and l = %.4g%s, should be %.4g, and is "
             "%.4g%s",
             q, sink ? " with the sink's term" : "", end, l, with_sink, right, L, overflow_of(L, right));
    if (sink)
        see_sink(&fit_L, head_of(row), end * LN2, l, l * exp(L - L_keys), 0.002 + 0.001 * fabs(right), says);
    else
        see_sum(&fit_L, L, 0.004 + 0.003 * fabs(right), "+n m|+n log2(l)| l", (double[]){end, log2(l), l}, "%s", says);
}

void see_empty_row(int row)
{
    const float *const O = row_of_O(row), L = e.out[1] ? e.out[1][row] : -INFINITY;
    int d = e.s->head_dim - 1;  // the last column that is not 0
    for (int j = 0; j < e.s->kv_len; j++)
        if (sees(row, j)) return;
    while (d > 0 && O[d] == 0) d--;
    if (O[d] != 0 || L != -INFINITY)
        find(BY_SUM, O[d] != 0 ? "empty_rows_O" : "empty_rows_L",
             was_written(O) ? "empty rows|finalize" : "lists|empty rows|finalize",
             "%s sees no key: its O should be 0 and its L -infinity; O[%d] is %.4g%s, and L is %.4g%s", name_of(row), d,
             isnan(O[d]) ? NAN : O[d], was_written(O + d) ? "" : " (not written)", isnan(L) ? NAN : L,
             L > -1e38f || !isfinite(L) ? "" : ", from the initial m and an l that is not 0");
}

// Hidden keys with one weight, whatever their scores, or one too low. run: the row's maximum, with these.
static void look_at_hidden(const char *q, const step *t, int i, double run)
{
    int count = 0;
    const product *S = t->S;
    double weight = 0, least = INFINITY, most = -INFINITY;
    for (int c = 0; c < S->cols; c++) {
        const double P = weight_at(t, i, c), score = score_at(t, i, c) * s2;
        if (S->b_row[c] == NOBODYS_ROW || sees(S->a_row[i], key_of(S->b_row[c]))) continue;
        if (!(P > 1e-30 && P < 1e30) || (weight > 0 && P != weight)) return;
        weight = P, count++, least = fmin(least, score), most = fmax(most, score);
    }
    run = fmax(run, most);
    if (count > 1 && (most - least > 0.1 || (isfinite(run) && weight < 0.8 * exp2(least - run))))
        find(BY_MASK, "hidden by a number", MASK_GAPS,
             "%s gives the weight %.3g to each hidden key of the tile that starts at key %d%s; use -INFINITY", q,
             weight, t->first, most - least > 0.1 ? ", whatever its score: hidden scores are a finite number" : "");
}

static void look_at_row(int i)
{
    static row_seen seen;
    const int row = steps[0].S->a_row[i];
    int last = -1;
    double run = -INFINITY, stayed = -INFINITY;
    seen.tiles = seen.keys = 0, seen.m = seen.all = -INFINITY, seen.l = seen.plain = 0;
    const char *const q = name_of(row);
    sink2 = e.sink_logits && row >= 0 ? e.sink_logits[head_of(row) % e.s->q_heads] * LOG2E : NAN;
    for (int t = 0; t < step_count; t++) {
        const product *S = steps[t].S, *PV = steps[t].P;
        double tile = -INFINITY, weights = 0;
        int visible = 0, given = 0;
        if (!PV) return;
        if (t == 0 && isnan(PV->before[i * e.s->head_dim])) {
            bool some = false, finite = true;
            for (int c = 0; c < S->cols; c++)
                some |= is_seen(S, i, c), finite &= (bool)isfinite(weight_at(&steps[t], i, c));
            best.relation |=
                find(BY_RESCALING, "rescaled_by_nan", some && finite ? "rescale|softmax" : "rescale|max|softmax",
                     "O of %s must be 0 where its first product is added, but is NaN%s", q,
                     some && finite ? ": does it begin at 0? 2^(m_old - m_new) is 0 there, its inverse infinite"
                     : some         ? ", and so are its weights: m_new is not finite"
                                    : ": it sees no key of that tile, whose maximum is -infinity. Is m_new, too?") &&
                some && finite;
            return;
        }
        for (int c = 0; c < S->cols; c++) {
            const double score = score_at(&steps[t], i, c) * s2;
            weights += weight_at(&steps[t], i, c);
            if (S->b_row[c] >= 0) seen.all = fmax(seen.all, score);
            if (is_seen(S, i, c)) visible++, tile = fmax(tile, score);
        }
        seen.runs[t] = run = fmax(run, tile), seen.top = tile, seen.keys += visible;
        look_at_hidden(q, &steps[t], i, fmax(run, seen.all));
        const double now = subtracted(&steps[t], i, &given);
        if (given ? isnan(now) : visible) return;
        if (!given) continue;
        const double old = seen.m, before = seen.l, alpha = seen.tiles++ ? exp2(old - now) : 1;
        if (tile > stayed + 8) stayed = run;
        seen.weights = weights, seen.l = seen.l * alpha + weights;
        look_at_maximum(q, t, now, old, &seen, stayed);
        if (last >= 0 && last == t - 1) look_at_rescaling(q, last, &steps[last], &steps[t], i, old, now, before);
        seen.m = now, seen.plain += weights, last = t;
    }
    if (seen.tiles > 0 && last == step_count - 1) look_at_end(row, &steps[last], i, &seen);
    if (seen.tiles == 0 && seen.keys == 0) see_empty_row(row);
}

void look_at_softmax(const record *r)
{
    int *walks = allocate((size_t)all_rows(), sizeof *walks);  // of each row: what several share is no walk of its own
    s2 = base2_scale();
    for (int counted = 0; counted < 2; counted++)
        EACH_WALK (r, n)
            for (int i = 0; i < rows_of_walk(); i++) {
                const int row = steps[0].S->a_row[i];
                if (row >= 0 && !counted) walks[row]++;
                if (row >= 0 && counted && walks[row] == 1) look_at_row(i);
            }
    for (int row = 0; row < all_rows(); row++)
        if (!walks[row]) see_empty_row(row);
}

void settle_softmax(void)
{
    memcpy(e.text, at_start.shown, sizeof e.text);
    const bool high = !(start > lowest);
    char says[100] = "";
    if (high) snprintf(says, sizeof says, ": m is never below %.3g. Does it begin there?", rounded(start));
    if (starts > 2 && !fit_m.wrong)
        find(BY_MAXIMUM, high ? "m starts too high" : "", fit_m.gaps, "%s%s", at_start.says, says);
    if (e.problem->sink_logits) fit_L.joint = "; exp(L - ln(2) m) is ";
}
