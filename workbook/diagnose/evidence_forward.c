// evidence_forward.c - what a forward did in each tile: which keys it met, what it hid, what it subtracted, how it rescaled, by what it divided.
//
// The record has Q K^T before the mask, the weights P, and O before and after P V was added. From these follow m (of the scores in base 2, less
// the logarithm of their weights), the factor by which O was rescaled (from after one product to before the next), and l (O at the end by what came out).
#include "mistakes_model.h"

#include "evidence_record.h"

#include <stdio.h>

enum {
    BY_HEADS = 10,
    BY_WALK = 20,
    BY_MASK = 30,
    BY_VALUE = 35,
    BY_EXPONENT = 40,
    BY_MAXIMUM = 45,
    BY_RESCALING = 50,
    BY_SUM = 55,
    BY_L = 58,
    BY_WASTE = 60
};

// A tile of a walk: its scores and the product with V that follows.
typedef struct step {
    const product *S, *PV;
    int key0;  // its first key
} step;

enum { STEPS = 1024 };

static const evidence *e;
static const attention_shape *s;
static judge_of_gaps may;
static finding *best;
static double s2;   // scores in base 2: S times this
static int widest;  // keys in the widest tile
static step steps[STEPS];
static int step_count;
static unsigned char *met, *given;  // [B, Hq, Nq, Nk]: in how many tiles a pair was, in how many it got a weight

static int query_of(int row) { return row % s->q_len; }
static int head_of(int row) { return row / s->q_len; }  // through all batches
static bool sees(int row, int j) { return j >= 0 && oracle_visible(e->in.problem, s, query_of(row), j); }
static int key_of(int row) { return row >= 0 ? row % s->kv_len : row; }

static void read_steps(const walk *w)
{
    step_count = 0;
    for (const product *p = w->at; p < w->at + w->count; p++) {
        if (p->scores && step_count < STEPS) steps[step_count++] = (step){p, NULL, NO_ROW};
        if (!p->scores && step_count && !steps[step_count - 1].PV && p->depth == steps[step_count - 1].S->cols)
            steps[step_count - 1].PV = p;
    }
    for (int n = 0; n < step_count; n++) {
        const product *S = steps[n].S;
        for (int c = S->cols - 1; c >= 0; c--)
            if (S->b_row[c] >= 0) steps[n].key0 = key_of(S->b_row[c]) - c;
        widest = max_int(widest, S->cols);
    }
}

// K and V: which of their heads a query head reads. False if that is wrong.
static bool look_at_heads(const record *r, bool of_V)
{
    int reads[256], wrong = 0, nobodys = 0;
    const int heads = min_int(256, s->batch * s->q_heads);
    for (int h = 0; h < heads; h++) reads[h] = -1;
    for (int n = 0; n < r->walk_count; n++) {
        read_steps(&r->walks[n]);
        const int q = step_count ? steps[0].S->a_row[0] : -1, h = q >= 0 ? head_of(q) : heads;
        for (int t = 0; t < step_count && h < heads; t++) {
            const product *p = of_V ? steps[t].PV : steps[t].S;
            const int right = kv_head(s, MAP_RIGHT, h / s->q_heads, h % s->q_heads);
            for (int c = 0; p && c < (of_V ? p->depth : p->cols); c++) {
                nobodys += p->b_row[c] == NOBODYS_ROW;
                if (p->b_row[c] < 0) continue;
                const int head = p->b_row[c] / s->kv_len;
                if (reads[h] < 0 || head != right) reads[h] = head;
                wrong += head != right;
            }
        }
    }
    if (!wrong && !nobodys) return true;
    char list[2][200] = {"", ""};
    for (int h = 0; h < heads && h < 16; h++) {
        const size_t n = strlen(list[0]), m = strlen(list[1]);
        snprintf(list[0] + n, sizeof list[0] - n, reads[h] < 0 ? " ?" : " %d", reads[h]);
        snprintf(list[1] + m, sizeof list[1] - m, " %d", kv_head(s, MAP_RIGHT, h / s->q_heads, h % s->q_heads));
    }
    if (wrong)
        find(best, may, BY_HEADS, "head mapping",
             "query heads 0, 1, 2 ... read %c of key heads%s, where%s are right (counted through the batches; ?: of "
             "none)",
             of_V ? 'V' : 'K', list[0], list[1]);
    else
        find(best, may, BY_HEADS, "head mapping|first tile|sink tiles",
             "what it reads as rows of %c are none: the address is not a multiple of D from the beginning, or outside "
             "of it",
             of_V ? 'V' : 'K');
    return false;
}

static const char *bounds_of(void) { return "bounds|bound|first tile|sink tiles"; }

// The tiles of the walk that has query `row` on its left, for people.
static void describe_walk(const record *r, int row, char *text, size_t size)
{
    *text = 0;
    for (int n = 0; n < r->walk_count; n++) {
        const walk *w = &r->walks[n];
        bool has = false;
        int low = s->q_len, high = 0;
        for (int i = 0; w->first && i < w->first->rows; i++) has |= w->first->a_row[i] == row;
        if (!has) continue;
        for (int m = 0; m < r->walk_count; m++)
            for (int i = 0; r->walks[m].first && r->walks[m].block == w->block && i < r->walks[m].first->rows; i++) {
                const int q = r->walks[m].first->a_row[i];
                if (q >= 0) low = min_int(low, query_of(q)), high = max_int(high, query_of(q));
            }
        read_steps(w);
        size_t at = (size_t)snprintf(
            text, size, "; its block has queries %d to %d, its warp met tiles of keys that begin at", low, high);
        for (int t = 0; t < step_count && at + 40 < size; t++)
            at += (size_t)snprintf(text + at, size - at, steps[t].key0 >= 0 ? " %d" : " (none)", steps[t].key0);
        return;
    }
    snprintf(text, size, "; its block meets no tile of keys at all");
}

// Which pairs were met, and which got a weight. Whether a pair of a query and a key got none or two.
static void look_at_pairs(const record *r)
{
    const int rows = s->batch * s->q_heads * s->q_len, Nk = s->kv_len;
    met = calloc((size_t)rows * (size_t)Nk + 1, 1), given = calloc((size_t)rows * (size_t)Nk + 1, 1);
    if (!met || !given) exit(2);
    for (int n = 0; n < r->walk_count; n++) {
        read_steps(&r->walks[n]);
        for (int t = 0; t < step_count; t++) {
            const product *S = steps[t].S, *PV = steps[t].PV;
            for (int i = 0; i < S->rows; i++)
                for (int c = 0; c < S->cols; c++) {
                    if (S->a_row[i] < 0 || S->b_row[c] < 0) continue;
                    const size_t at = (size_t)S->a_row[i] * (size_t)Nk + (size_t)key_of(S->b_row[c]);
                    met[at]++;
                    if (PV) given[at] += PV->a[i * PV->depth + c] != 0;
                }
        }
    }
    char text[400];
    int missing = 0, twice = 0, row_missing = -1, row_twice = -1, from = 0, to = 0, twice_from = 0, twice_to = 0;
    for (int row = 0; row < rows; row++)
        for (int j = 0; j < Nk; j++) {
            const size_t at = (size_t)row * (size_t)Nk + (size_t)j;
            if (!sees(row, j)) continue;
            if (met[at] == 0) {
                if (missing++ == 0) row_missing = row, from = j;
                if (row == row_missing) to = j;
            }
            if (given[at] > 1) {
                if (twice++ == 0) row_twice = row, twice_from = j;
                if (row == row_twice) twice_to = j;
            }
        }
    if (missing) {
        describe_walk(r, row_missing, text, sizeof text);
        find(best, may, BY_WALK, bounds_of(), "query %d never meets keys %d to %d, which it sees%s",
             query_of(row_missing), from, to, text);
    }
    if (twice) {
        describe_walk(r, row_twice, text, sizeof text);
        find(best, may, BY_WALK, bounds_of(), "query %d counts keys %d to %d twice, from two tiles%s",
             query_of(row_twice), twice_from, twice_to, text);
    }
}

// The masks of 04 to 07 by what they are for: of the sinks, of the window left of the diagonal, of the diagonal.
static const char *mask_of(const record *r, const walk *w, const step *t)
{
    if (e->in.problem->mask == WB_NO_MASK) return "tail";
    if (e->in.problem->on_host) return "mask";
    if (e->in.problem->sinks && t->S->cols < widest) return "mask of the sinks|sink tiles";
    int block_row = s->q_len;
    for (int m = 0; m < r->walk_count; m++)
        for (int i = 0; r->walks[m].block == w->block && r->walks[m].first && i < r->walks[m].first->rows; i++)
            if (r->walks[m].first->a_row[i] >= 0) block_row = min_int(block_row, query_of(r->walks[m].first->a_row[i]));
    const bool diagonal = t->key0 / t->S->cols >= (block_row + 1) / t->S->cols || t->key0 < 0;
    return diagonal                ? "mask of the diagonal|bounds"
           : e->in.problem->window ? "mask of the window"
                                   : "bounds|mask of the diagonal";
}

static void look_at_mask(const record *r)
{
    double largest[256];  // of a row, of all scores that it sees: weights far below underflow
    for (int n = 0; n < r->walk_count; n++) {
        const walk *w = &r->walks[n];
        read_steps(w);
        for (int i = 0; step_count && i < steps[0].S->rows && i < 256; i++) {
            largest[i] = -INFINITY;
            for (int t = 0; t < step_count; t++)
                for (int c = 0; c < steps[t].S->cols; c++)
                    if (sees(steps[t].S->a_row[i], key_of(steps[t].S->b_row[c])))
                        largest[i] = fmax(largest[i], steps[t].S->after[i * steps[t].S->cols + c] * s2);
        }
        for (int t = 0; t < step_count; t++) {
            const product *S = steps[t].S, *PV = steps[t].PV;
            if (!PV) continue;
            int hidden = 0, shown = 0, lost = 0, row = -1, key = 0, low = 1 << 30, high = -low, ghosts = 0,
                lost_row = -1, lost_key = 0;
            bool alive = !may("max|accumulate");  // where the weights are given code, it is the mask that leaves none
            for (int at = 0; at < S->rows * S->cols; at++) alive |= PV->a[at] != 0;
            for (int i = 0; i < S->rows; i++) {
                // Where the weights are the student's, a key is hidden if a smaller score of its row has one.
                double lowest = may("max|accumulate") ? INFINITY : -INFINITY;
                for (int c = 0; c < S->cols && S->a_row[i] >= 0 && lowest > -INFINITY; c++)
                    if (PV->a[i * PV->depth + c] > 0) lowest = fmin(lowest, S->after[i * S->cols + c]);
                for (int c = 0; c < S->cols && S->a_row[i] >= 0; c++) {
                    const int q = S->a_row[i], j = key_of(S->b_row[c]);
                    const double P = PV->a[i * PV->depth + c];
                    if (j == NOBODYS_ROW || (j == NO_ROW && steps[t].key0 + c < s->kv_len)) continue;
                    const bool right = sees(q, j);
                    hidden += !right;
                    if (!right && P > 0 && isfinite(P)) {  // what is no weight is looked at below
                        if (shown++ == 0) row = q, key = steps[t].key0 + c;
                        ghosts += j < 0;
                        if (j >= 0) low = min_int(low, j - query_of(q)), high = max_int(high, j - query_of(q));
                    }
                    if (right && P == 0 && alive && S->after[i * S->cols + c] >= lowest &&
                        !given[(size_t)q * (size_t)s->kv_len + (size_t)j] &&
                        S->after[i * S->cols + c] * s2 > largest[i & 255] - 60) {
                        if (lost++ == 0) lost_row = q, lost_key = j;
                    }
                }
            }
            char text[300] = "";
            if (shown > ghosts && e->in.problem->mask != WB_NO_MASK) {
                int at = snprintf(text, sizeof text,
                                  "; of the %d pairs to be hidden in this tile %d are not, with j - i from %d to %d",
                                  hidden, shown, low, high);
                if (e->in.problem->window) at += snprintf(text + at, sizeof text - (size_t)at, " (W = %d", s->window);
                if (e->in.problem->sinks) at += snprintf(text + at, sizeof text - (size_t)at, ", sinks = %d", s->sinks);
                if (e->in.problem->window) snprintf(text + at, sizeof text - (size_t)at, ")");
            }
            if (shown && key >= s->kv_len)
                find(best, may, BY_MASK, mask_of(r, w, &steps[t]),
                     "query %d gives a weight to key %d, which does not exist: there are %d%s", query_of(row), key,
                     s->kv_len, text);
            else if (shown)
                find(best, may, BY_MASK, mask_of(r, w, &steps[t]),
                     "query %d gives a weight to key %d, which is hidden from it, in the tile of keys from %d on%s",
                     query_of(row), key, steps[t].key0, text);
            else if (lost)
                find(best, may, BY_MASK, mask_of(r, w, &steps[t]),
                     "query %d gives no weight to key %d, which it sees, in the tile of keys from %d on, where %d "
                     "pairs are hidden in the same way",
                     query_of(lost_row), lost_key, steps[t].key0, lost);
        }
    }
}

// What a row subtracts from its scores in base 2, from its weights in one tile; NaN if it has none.
static double subtracted(const step *t, int i, int *weights)
{
    double x[256], y[256], lane[4] = {0}, sum = 0, off = 0;
    int count = 0, in_lane[4] = {0};
    const product *S = t->S, *PV = t->PV;
    const int q = query_of(S->a_row[i]);
    for (int c = 0; c < S->cols && c < 256; c++) {
        const double P = PV->a[i * PV->depth + c], score = S->after[i * S->cols + c];
        if (!isfinite(P) && sees(S->a_row[i], key_of(S->b_row[c]))) {
            find(best, may, BY_VALUE, "accumulate|max|rescale",
                 "query %d has a weight that is %s in the tile of keys from %d on: what is subtracted from its scores "
                 "is no maximum of them",
                 q, isnan(P) ? "NaN" : "infinite", t->key0);
            *weights = 0;
            return NAN;
        }
        if (P < 0) {
            find(best, may, BY_VALUE, "accumulate",
                 "query %d has a weight of %.4g in the tile of keys from %d on, column %d: a score that was not raised",
                 q, P, t->key0, c);
            *weights = 0;
            return NAN;
        }
        if (!(P > 1e-30) || P > 1e30) continue;
        x[count] = score, y[count] = log2(P);
        const double m = score * s2 - y[count++];
        sum += m, lane[c % 8 / 2] += m, in_lane[c % 8 / 2]++;
    }
    *weights = count;
    if (count == 0) return NAN;
    const double m = sum / count;
    for (int n = 0; n < count; n++) off = fmax(off, fabs(x[n] * s2 - y[n] - m));
    const double slack = e->in.problem->on_host ? 2e-3 : 0.012;
    if (off <= slack + 1e-4 * fabs(m)) return m;
    bool by_lanes = !e->in.problem->on_host;
    for (int c = 0, n = 0; c < S->cols && n < count; c++) {
        const double P = PV->a[i * PV->depth + c];
        if (!(P > 1e-30) || P > 1e30) continue;
        by_lanes &= fabs(x[n] * s2 - y[n] - lane[c % 8 / 2] / in_lane[c % 8 / 2]) < slack + 1e-4 * fabs(m);
        n++;
    }
    const line l = line_through(x, y, count);
    const named_number factors[] = {
        {1, "the scores as they are"}, {s->scale, "scale, without log2(e)"}, {LOG2E, "log2(e), without scale"},
        {s2 * LOG2E, "log2(e) twice"}, {s2 * s->scale, "scale twice"},       {s2 * s2, "scale * log2(e) twice"},
        {-s2, "the wrong sign"}};
    const char *factor = name_of(l.slope, factors, sizeof factors / sizeof *factors, 0.02);
    if (by_lanes)
        find(best, may, BY_EXPONENT, "rescale|max",
             "query %d subtracts different numbers from the scores of one tile, each lane its own: the maximum is not "
             "brought together over the lanes of the row",
             q);
    else if (count >= 6 && fabs(l.slope) > 0.02 * s2 && l.off <= slack + 1e-4 * fabs(m))
        find(best, may, BY_EXPONENT, "accumulate",
             "the weights of query %d are 2^(%.4g S - ...), where scale * log2(e) = %.4g belongs before S = q k%s%s", q,
             l.slope, s2, *factor ? ": that is " : "", factor);
    else
        find(best, may, BY_EXPONENT, "accumulate|max|rescale",
             "the weights of query %d in the tile of keys from %d on are not 2^(scale log2(e) S - m) with one m for "
             "the row",
             q, t->key0);
    return NAN;
}

// Sums of x y over a row.
static double dot_of(const float *x, const float *y, int D)
{
    double sum = 0;
    for (int d = 0; d < D; d++) sum += (double)x[d] * y[d];
    return sum;
}

static bool known(const double *runs, int count, double m)
{
    for (int n = 0; n < count; n++)
        if (fabs(runs[n] - m) < 0.012 + 1e-4 * fabs(m)) return true;
    return false;
}

static void look_at_maximum(int q, int t, double m, double tile, const double *runs)
{
    const double run = runs[t], before = t > 0 ? runs[t - 1] : -INFINITY;
    if (known(runs, t + 1, m) && m > run - 8.1) return;
    const named_number numbers[] = {{tile, ": that is the largest of this tile alone"},
                                    {before, ": that was the largest before this tile"},
                                    {run * s2, ": it is multiplied by scale * log2(e) twice"},
                                    {run / s2, ": S = q k has to be multiplied by scale * log2(e) there, too"},
                                    {run * LN2, ": log2(e) is missing in it"},
                                    {run / s->scale, ": scale is missing in it"},
                                    {run * LOG2E, ": log2(e) is in it twice"},
                                    {run * s->scale, ": scale is in it twice"},
                                    {-run, ": it has the wrong sign"}};
    const char *name = fabs(m) < 0.01 ? ": nothing" : name_of(m, numbers, sizeof numbers / sizeof *numbers, 0.01);
    find(best, may, BY_MAXIMUM, "max|rescale|accumulate",
         "in tile %d of its walk query %d subtracts %.4g from its scores in base 2, the largest of which is %.4g so "
         "far%s",
         t, q, m, run, name);
}

static void look_at_rescaling(int q, int t, const step *from, const step *to, int i, double delta)
{
    const int D = s->head_dim;
    const float *x = from->PV->after + i * D, *y = to->PV->before + i * D;
    const double size = dot_of(x, x, D), right = exp2(delta);
    if (!(size > 0) || !isfinite(size) || right < 1e-6) return;
    const double factor = dot_of(x, y, D) / size;
    double off = 0, largest = 0;
    for (int d = 0; d < D; d++) off = fmax(off, fabs(y[d] - right * x[d])), largest = fmax(largest, fabs(x[d]));
    if (off <= 0.015 * right * largest + 1e-6 * largest) return;
    double spread = 0;
    for (int d = 0; d < D; d++) spread = fmax(spread, fabs(y[d] - factor * x[d]));
    const named_number numbers[] = {
        {1, ": O is not rescaled"},
        {0, ": O begins anew"},
        {1 / right, ": old and new maximum are exchanged"},
        {right * right, ": that is done twice"},
        {exp2(delta * LN2), ": 2^ takes a maximum in base e"},
        {exp2(delta * LOG2E), ": e^ takes a maximum in base 2"},
        {exp2(delta * s2), ": that maximum is multiplied by scale * log2(e) twice, or subtracted so"},
        {exp2(delta / s2), ": the maximum in that factor has not the unit of the scores in base 2"}};
    const char *name =
        fabs(factor) < 1e-9 ? ": O begins anew" : name_of(factor, numbers, sizeof numbers / sizeof *numbers, 0.02);
    if (spread > 0.01 * fmax(1, fabs(factor)) * largest)
        find(best, may, BY_RESCALING, "rescale",
             "from tile %d to tile %d of its walk O of query %d is not multiplied by one number, where %.4g is right "
             "in all columns",
             t, t + 1, q, right);
    else
        find(best, may, BY_RESCALING,
             *name && name != numbers[6].says && name != numbers[7].says ? "rescale" : "rescale|max|accumulate",
             "from tile %d to tile %d of its walk the number that query %d subtracts grows by %.4g, so O has to be "
             "multiplied by 2^%.4g = %.4g; it is multiplied by %.4g%s",
             t, t + 1, q, -delta, delta, right, factor, name);
}

// The end of a row: w[t], the weights' sum under m[t], in tiles 0 ... count - 1.
static void look_at_end(int row, const step *last, int i, const double *w, const double *m, int count)
{
    const int D = s->head_dim;
    const float *sum = last->PV->after + i * D, *O = e->out[0] + (size_t)row * (size_t)D;
    const double end = m[count - 1], size = dot_of(O, O, D);
    double l = 0, plain = 0, first_kept = 0, lane[4] = {0}, size_of_lane[4] = {0}, late = 0;
    for (int t = 0; t < count; t++) {
        l += w[t] * exp2(m[t] - end), plain += w[t];
        if (t < count - 1) late += w[t] * exp2(m[t] - end);
        first_kept = t == 0 ? w[0] : first_kept;
    }
    if (!isfinite(size) || size == 0) return;
    const double used = dot_of(sum, O, D) / size, slack = e->in.problem->on_host ? 2e-3 : 0.01;
    double off = 0, largest = 0, spread = 0;
    for (int d = 0; d < D; d++) {
        off = fmax(off, fabs(O[d] - sum[d] / l)), spread = fmax(spread, fabs(O[d] - sum[d] / used)),
        largest = fmax(largest, fabs(O[d]));
        lane[d % 8 / 2] += (double)sum[d] * O[d], size_of_lane[d % 8 / 2] += (double)O[d] * O[d];
    }
    const char *where = count == 1 ? "finalize|accumulate" : "finalize|accumulate|rescale";
    const int q = query_of(row);
    if (off > slack * largest) {
        bool lanes = !e->in.problem->on_host && spread > slack * largest;
        double parts = 0;
        for (int p = 0; p < 4; p++) parts += size_of_lane[p] > 0 ? lane[p] / size_of_lane[p] : 0;
        lanes &= near_to(parts, l, 0.03) || near_to(parts, plain, 0.03) || near_to(parts, w[count - 1], 0.03);
        const named_number numbers[] = {{1, ": it is not divided"},
                                        {1 / l, ": it is multiplied by l"},
                                        {4 * l, ": l is completed twice over the four lanes of a row"},
                                        {l * l, ": that is done twice"},
                                        {w[count - 1], ": l has the last tile alone"},
                                        {plain, ": l was not rescaled when the maximum grew"},
                                        {late, ": l lacks the last tile"},
                                        {first_kept, ": l has the first tile alone"},
                                        {sqrt(l), ""}};
        const char *name = name_of(used, numbers, sizeof numbers / sizeof *numbers - 1, 0.015);
        if (lanes)
            find(best, may, BY_SUM, where,
                 "O of query %d is divided by another number in each lane's columns: l is not summed up over the four "
                 "lanes of a row",
                 q);
        else if (spread > slack * largest)
            find(best, may, BY_SUM, where,
                 "what comes out as O of query %d is not the sum of P V divided by one number", q);
        else
            find(best, may, BY_SUM,
                 name == numbers[5].says   ? "rescale|accumulate"
                 : name == numbers[4].says ? "accumulate|rescale"
                                           : where,
                 "the weights of query %d sum up to %.4g, but O is divided by %.4g%s", q, l, used, name);
        return;
    }
    if (!e->out[1]) return;
    const double L = e->out[1][row], right = (end + log2(l)) * LN2;
    const named_number numbers[] = {{end + log2(l), ": that is in base 2"},
                                    {end * LN2 + log2(l), ": log2(l) has to be multiplied by ln(2), too"},
                                    {end + log(l), ": m has to be multiplied by ln(2)"},
                                    {end * LN2, ": log(l) is missing"},
                                    {log(l), ": m is missing"},
                                    {log2(l), ": m is missing"},
                                    {end * LN2 + l, ": l is added, not its logarithm"},
                                    {end * LN2 - log(l), ": log(l) is subtracted"},
                                    {end, ": that is m alone, in base 2"},
                                    {right * LN2, ": ln(2) is in it twice"},
                                    {end * LN2 + log(4 * l), ": l is completed twice"}};
    if (fabs(L - right) <= 0.004 + 0.003 * fabs(right)) return;
    find(best, may, BY_L, "finalize",
         "O of query %d is right, and L should be ln(2) (m + log2(l)) = %.4g with m = %.4g and l = %.4g, but is %.4g%s",
         q, right, end, l, L, name_of(L, numbers, sizeof numbers / sizeof *numbers, 0.004));
}

static void look_at_row(int i)
{
    static double m[STEPS], w[STEPS], runs[STEPS];
    const int row = steps[0].S->a_row[i];
    if (row >= 0 && steps[0].S->rows > 256) return;
    int count = 0, last = -1;
    double run = -INFINITY;
    bool doubtful = row < 0;
    for (int t = 0; t < step_count && !doubtful; t++) {
        const product *S = steps[t].S, *PV = steps[t].PV;
        double tile = -INFINITY, weights = 0;
        int visible = 0, given = 0;
        if (!PV) return;
        if (t == 0 && isnan(PV->before[i * s->head_dim])) {
            find(best, may, BY_RESCALING, "rescale|max",
                 "O of query %d is 0 before its first tile, but rescaled it is NaN: the factor is not finite, where it "
                 "should be 2^(old maximum - new maximum)",
                 query_of(row));
            return;
        }
        for (int c = 0; c < S->cols; c++) {
            weights += PV->a[i * PV->depth + c];
            if (!sees(row, key_of(S->b_row[c]))) continue;
            visible++, tile = fmax(tile, S->after[i * S->cols + c] * s2);
        }
        runs[t] = run = fmax(run, tile);
        const double now = subtracted(&steps[t], i, &given);
        if (given == 0) {
            if (visible && weights == 0 && tile > run - 60)
                find(best, may, BY_VALUE, "accumulate|max|rescale|mask|tail",
                     "query %d gives no weight at all to the tile of keys from %d on, of which it sees %d",
                     query_of(row), steps[t].key0, visible);
            doubtful |= visible > 0;
            continue;
        }
        if (isnan(now)) return;
        look_at_maximum(query_of(row), t, now, tile, runs);
        if (last >= 0 && last == t - 1)
            look_at_rescaling(query_of(row), last, &steps[last], &steps[t], i, m[count - 1] - now);
        m[count] = now, w[count++] = weights, last = t;
    }
    if (!doubtful && count > 0 && last == step_count - 1) look_at_end(row, &steps[last], i, w, m, count);
}

// Tiles that no query of the block sees: right results, but the walk is too long.
static void look_at_waste(const record *r)
{
    for (int n = 0; n < r->walk_count; n++) {
        read_steps(&r->walks[n]);
        for (int t = 0; t < step_count; t++) {
            bool seen = false;
            for (int m = 0; m < r->walk_count && !seen; m++)
                for (int i = 0;
                     r->walks[m].first && r->walks[m].block == r->walks[n].block && i < r->walks[m].first->rows; i++)
                    for (int c = 0; c < steps[t].S->cols && r->walks[m].first->a_row[i] >= 0; c++)
                        seen |= sees(r->walks[m].first->a_row[i], key_of(steps[t].S->b_row[c]));
            if (!seen && steps[t].S->a_row[0] >= 0)
                find(best, may, BY_WASTE, bounds_of(),
                     "the block of query %d goes through the tile of keys from %d on, of which none of its queries "
                     "sees one",
                     query_of(steps[t].S->a_row[0]), steps[t].key0);
        }
    }
}

void evidence_of_forward(const evidence *evidence, judge_of_gaps may_say, finding *found)
{
    record r;
    e = evidence, s = e->in.shape, may = may_say, best = found;
    s2 = e->in.problem->on_host ? 1 : s->scale * LOG2E;
    widest = 0;
    if (!record_read(e, &r)) return;
    for (int n = 0; n < r.walk_count; n++) read_steps(&r.walks[n]);
    if (look_at_heads(&r, false)) look_at_heads(&r, true);
    look_at_pairs(&r);
    look_at_mask(&r);
    for (int n = 0; n < r.walk_count; n++) {
        read_steps(&r.walks[n]);
        for (int i = 0; step_count && i < steps[0].S->rows; i++) look_at_row(i);
    }
    look_at_waste(&r);
    free(met), free(given);
}
