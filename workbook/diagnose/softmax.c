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

// l with the term of the head's sink logit s, and what may stand for that term; m in base e.
static const char sink_names[] =
    "+ l|+ exp(s - m)| exp(s of the key head - m)| exp(s - m), where s is not 0| exp(scale s - m)| exp(ln(2) s - m)| "
    "exp(-s - m)| exp(0 - m)| l 2^(s - L)| exp(s)| exp(s - m) (2 + exp(s - m) / l)";
static bool add_sink(fit *f, int head, double m, double l, double seen, double part)
{
    const int heads = e.s->q_heads, h = head % heads;
    const double s = e.sink_logits[h], key = e.sink_logits[h / (heads / e.s->kv_heads)], term = exp(s - m);
    const double is[] = {l,
                         term,
                         exp(key - m),
                         s == 0 ? 0 : term,
                         exp(e.s->scale * s - m),
                         exp(LN2 * s - m),
                         exp(-s - m),
                         exp(-m),
                         l * exp2(s - m - log(l)),
                         exp(s),
                         term * (2 + term / l)};
    return sum_add(f, seen, part * fmax(l + term, seen), sink_names, is);
}

static bool known(const double *runs, int count, double m)
{
    for (int n = 0; n < count; n++)
        if (fabs(runs[n] - m) < 0.012 + 1e-4 * fabs(m)) return true;
    return false;
}

// What was seen of a row, tile by tile: its largest score so far, and in the tile. Up to the last tile: what it
// subtracts, by how much that grew last, the tile's weights, and their sum, as it is right and as it may be wrong.
typedef struct row_seen {
    double runs[STEPS], tile[STEPS], m, weights, l, plain, under_old, raw;
    int tiles, keys;
} row_seen;

static void look_at_maximum(int q, int t, double m, double before, double all, const double *runs, const double *tile)
{
    const double run = runs[t], top = tile[t];
    const double to_S = s2 != 0 ? 1 / s2 : 1;
    // m may stay until a score exceeds it by 8; where a warp's other row ends that, it grows to this tile's maximum.
    const bool fresh = fabs(m - run) < 0.012 + 1e-4 * fabs(run);
    const bool stays = t > 0 && fabs(m - before) < 0.012;
    if (!fresh && m > run - 8.1 && (stays || known(runs, t + 1, m) || (m > before && known(&tile[t], 1, m)))) return;
    const double is_0 = fabs(m - (t > 0 ? before : 0)) < 0.012 ? m : fmax(run, 0);  // it may stay, too
#define OTHERS                                                                                                         \
    "(max of S in this tile alone)| (the larger of that and 0, with which m begins)| (max of S, hidden ones too)| "    \
    "(what it was)"
    if (sum_add(&fit_m, m, 0.012 + 2e-4 * fabs(m),
                e.problem->on_host ? "+ (max of S so far)| " OTHERS : "+sl (max of S so far)| " OTHERS,
                (double[]){run * to_S, top * to_S, is_0 * to_S, all * to_S, t > 0 ? before * to_S : 0}))
        fit_says(
            &fit_m,
            "in tile %d of its walk query %d subtracts %.4g from its scores in base 2, the largest of which, scale "
            "log2(e) max S, is %.4g so far",
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
    if (sum_add(&fit_alpha, factor > 0 ? log2(factor) : -1e9, 0.025, "+ (m_old - m_new)| log2(l)",
                (double[]){delta, l > 0 ? log2(l) : 0.0}))
        fit_says(&fit_alpha,
                 "from tile %d to tile %d of its walk the number that query %d subtracts grows by %.4g, so O has to be "
                 "multiplied by 2^%.4g = %.4g; it is multiplied by %.4g",
                 t, t + 1, q, -delta, delta, right, factor);
}

static const char sum_names[] =
    "+ l| 1| (the sum of the last tile alone)| (l that is never rescaled)| (the sum of S = q k)| (l with each tile "
    "under the old maximum)";
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
    const double term = e.sink_logits ? exp(e.sink_logits[head_of(row) % e.s->q_heads] - L_keys) : 0;
    const double factor = 1 + term, used = size > 0 ? dot_of(sum, O, D) / size : INFINITY;
    double off = 0, largest = 0, spread = 0, smallest = 0;
    for (int d = 0; d < D; d++) {
        off = fmax(off, fabs(O[d] - sum[d] / (l * factor))), spread = fmax(spread, fabs(O[d] - sum[d] / used)),
        largest = fmax(largest, fabs(O[d])), smallest = fmax(smallest, fabs(sum[d] / (l * factor)));
        lane[d % 8 / 2] += (double)sum[d] * O[d], size_of_lane[d % 8 / 2] += (double)O[d] * O[d];
    }
    if (size == 0 && smallest < 1e-30) return;
    const bool O_wrong = !(off <= slack * fmax(largest, smallest) + 1e-30);
    if (!isfinite(size) || (O_wrong && size > 0 && spread > slack * largest)) {
        double parts = 0, apart = 0;  // apart: of columns from what their lane has
        for (int p = 0; p < 4; p++) parts += size_of_lane[p] > 0 ? lane[p] / size_of_lane[p] : 0;
        for (int d = 0; d < D; d++)
            apart = fmax(apart, fabs(O[d] - sum[d] * size_of_lane[d % 8 / 2] / lane[d % 8 / 2]));
        if (!e.problem->on_host && apart <= slack * largest &&
            (near_to(parts, l, 0.03) || near_to(parts, seen->plain, 0.03) || near_to(parts, seen->weights, 0.03)))
            find(BY_SUM, "l_of_a_lane", where,
                 "O of query %d is divided by another number in each lane's columns: l is not summed up over the four "
                 "lanes of a row",
                 q);
        else
            find(BY_SUM, "", where, "what comes out as O of query %d is not the sum of P V divided by one number", q);
        return;
    }
    const double right = L_keys + log1p(term);
    const bool sink = e.sink_logits && l * term < 1e30;  // float32 overflows early
    if (!e.sink_logits && sum_add(&fit_l, used, 0.012 * fabs(used), sum_names,
                                  (double[]){l, 1, seen->weights, seen->plain, seen->raw, seen->under_old}))
        fit_says(&fit_l, "the weights of query %d sum up to %.4g, but O is divided by %.4g", q, l, used);
    if (sink && add_sink(&fit_logit_l, head_of(row), end * LN2, l, used, slack))
        fit_says(&fit_logit_l,
                 "the weights of query %d sum up to %.4g; with the sink's term that is %.4g, but O is divided by %.4g",
                 q, l, l * factor, used);
    if (O_wrong || !e.out[1]) return;
    const double L = e.out[1][row];
    if (!e.sink_logits &&
        sum_add(&fit_L, L, 0.004 + 0.003 * fabs(right), "+n m|+n log2(l)| l", (double[]){end, log2(l), l}))
        fit_says(&fit_L,
                 "O of query %d is right, and its L should be ln(2) (m + log2(l)) = %.4g with m = %.4g and l = %.4g, "
                 "but is %.4g",
                 q, right, end, l, L);
    if (sink && add_sink(&fit_logit_L, head_of(row), end * LN2, l, l * exp(L - L_keys), 0.002 + 0.001 * fabs(right)))
        fit_says(
            &fit_logit_L,
            "L of query %d, which is %.4g of the keys alone, should be %.4g with the sink, but is %.4g: exp(L - m) "
            "should be l + exp(s - m)",
            q, L_keys, right, L);
}

void see_empty_row(int row)
{
    const double L = e.out[1] ? e.out[1][row] : -INFINITY;
    bool zero = true;
    for (int d = 0; d < e.s->head_dim; d++) zero &= e.out[0][(size_t)row * (size_t)e.s->head_dim + (size_t)d] == 0;
    if (!zero || L != -INFINITY)
        find(BY_SUM, !zero ? "empty_rows_O" : "empty_rows_L", "empty rows|finalize",
             "query %d of head %d sees no key: its O should be 0 and its L -infinity; O is %s, and L is %.4g%s",
             query_of(row), head_of(row), zero ? "0" : "not 0 (or not finite)", L,
             L < -1e38f && isfinite(L) ? ", made of the m that it begins with and an l that is not 0" : "");
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
            if (visible) return;
            continue;
        }
        if (isnan(now)) return;
        const double old = seen.m;
        const double alpha = seen.tiles++ ? exp2(old - now) : 1;
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
    if (l && !strcmp(l->says, "1"))
        sum = "finalize|empty rows";
    else if (l && strstr(l->says, "("))
        sum = "accumulate|rescale|softmax";
    fit_conclude(&fit_slope, BY_EXPONENT, "accumulate|softmax", NULL, ": that is ");
    fit_conclude(&fit_m, BY_MAXIMUM, all, NULL, ": that is ");
    const form *alpha = fit_form(&fit_alpha);
    const bool stays = alpha && !strcmp(alpha->says, "0");
    fit_conclude(&fit_alpha, BY_RESCALING, "rescale|softmax|overlap", "rescale|max|accumulate|softmax|overlap",
                 stays ? ": O is not rescaled, or by 2 to the power of " : ": that is 2 to the power of ");
    fit_conclude(&fit_l, BY_SUM, sum, NULL, ": that is ");
    fit_conclude(&fit_logit_l, BY_SUM, "finalize|logit", NULL, ": that is ");
    fit_conclude(&fit_logit_L, BY_L, "finalize|logit", NULL, ", and is ");
    fit_conclude(&fit_L, BY_L, "finalize|empty rows", NULL, ": that is ");
}
