// decode.c - what 13 and 14 have of their own: which pages are read, how parts are merged, which scales meet which products.
#include "evidence.h"

#include <stdio.h>

// What may be seen of each step.
// clang-format off
static const form page_forms[] = {
    {"", ""}, {"first_sequence", "those that the table has for sequence 0"},
    {"table_packed", "those of a table without the columns that a sequence does not use"},
    {"no_table", "pages 0, 1, 2 ...: the table is not asked"}, {"no_table_columns", "pages from b * max_pages on: the table is not asked"},
    {"column_of_tile", "those in the first columns alone: the column is counted in tiles of 64 keys, not in pages"},
    {"next_column", "those in the next columns"},
    {"table_by_columns", "those of a table with a row a column: rows and columns are exchanged"},
    {"one_column", "that in the first column alone"}, {"next_sequence", "those of the next sequence"},
    {"table_row_of_pages", "those of a table with as many columns as a page has keys"},
    {"table_of_one_column", "those of a table with one column: the sequence's number has to be multiplied by max_pages"}};
static const form token_forms[] = {
    {"", ""}, {"row_of_tile", "the row's number in its tile is taken for its token's, without what comes before the tile"},
    {"row_not_reduced", "the number of the packed row is taken for that of its token"},
    {"tokens_before_heads", "packed rows are taken to have all heads of a token side by side: they have all tokens of a head"},
    {"one_key_less", "each token sees one key too few"}, {"one_key_more", "each token sees one key too many"},
    {"tokens_from_the_start", "tokens are taken to stand at the beginning of the sequence: they are its last"},
    {"all_tokens_seen", "a token sees all later tokens, too"}, {"first_token_for_all", "all tokens see what the first one sees"},
    {"token_reversed", "tokens are counted from the last"}, {"nothing_hidden", "no pair is hidden"},
    {"last_token_of_all", "the keys of the last token are hidden from all"}};
static const form merge_forms[] = {
    {"", ""}, {"mean_of_parts", "it is the mean of the parts' O: the weights exp(L - m) are missing"},
    {"merged_in_base_2", "parts are weighted by 2^(L - m), where L is to base e"}, {"first_part_left", "the first part is left out"},
    {"last_part_left", "the last part is left out"}, {"first_part_alone", "it is the first part alone"},
    {"last_part_alone", "it is the last part alone"},
    {"merge_O_not_rescaled", "O of the parts before is not multiplied by alpha when more parts come"},
    {"merge_l_not_rescaled", "l of the parts before is not multiplied by alpha when more parts come"},
    {"merge_nothing_rescaled", "O and l of the parts before are not multiplied by alpha when more parts come"},
    {"merge_upside_down", "O and l of the parts before are multiplied by 1 / alpha when more parts come"},
    {"merge_O_unweighted", "the parts' O are added up without their weights, which are in l"},
    {"merge_l_counts_parts", "l counts the parts, where their weights belong in it"},
    {"merge_last_eight", "what the parts before the last eight have is lost"},
    {"merge_first_eight", "no more than the first eight parts count"},
    {"merge_max_of_the_last", "m is that of the last parts alone, not the largest so far"},
    {"merge_m_old", "the parts are weighted under the old m, before the larger one was taken"},
    {"merge_one_of_eight", "one part of each eight counts, the first"},
    {"merge_seven_of_eight", "the last part of each eight is left out"},
    {"l_of_the_last_tile", "l has the last tile of each part alone"},
    {"merge_first_weight", "all parts of each eight have the weight of their first"},
    {"merge_first_O", "O of the first part of each eight is taken for all of them"}};
static const form place_forms[] = {
    {"", ""}, {"scales_of_first_head", "they are those of key head 0"},
    {"scales_of_first_rows", "they are those of the first keys of the page: the row in the page is left out"},
    {"scales_of_first_page", "they are those of page 0: the page is left out"},
    {"scales_of_one_head", "a page is taken to have the scales of one key head"},
    {"scales_by_rows", "they are looked for at (page * page_size + row) * heads + head, as keys are; their order is page, head, row"},
    {"scales_without_table", "the pages of the table are not used: they are those of the cache's first pages"},
    {"scales_of_key", "they are looked for by the key's number in its sequence, where its number in its page is right"},
    {"scales_of_next_row", "they are those of the next key"}, {"scales_of_two_heads", "head and page are exchanged"}};
static const form use_forms[] = {
    {"", ""}, {"K_scale_forgotten", "scores are not multiplied by K's scale"},
    {"V_scale_on_scores", "scores are multiplied by V's scale, where K's is right"},
    {"V_scale_forgotten", "weights are not multiplied by V's scale"},
    {"K_scale_on_weights", "weights are multiplied by K's scale, where V's is right"},
    {"both_scales_on_weights", "K's scale is multiplied into the weights, too"},
    {"K_scale_moved", "K's scale is multiplied into the weights, not into the scores"},
    {"scales_exchanged", "K's and V's scale are exchanged"}, {"V_scale_twice", "weights are multiplied by V's scale twice"},
    {"K_scale_twice", "scores are multiplied by K's scale twice"}, {"weights_divided", "weights are divided by V's scale"},
    {"scores_divided", "scores are divided by K's scale"},
    {"K_scale_by_row", "scores are multiplied by K's scale with the number of the row, where that of the column is right"},
    {"V_scale_by_row", "weights are multiplied by V's scale with the number of the row, where that of the column is right"},
    {"K_scale_of_first", "scores are multiplied by K's scale of the tile's first key"},
    {"V_scale_of_first", "weights are multiplied by V's scale of the tile's first key"},
    {"V_scale_on_both", "V's scale is multiplied into the scores, too"}};
static const form scaled_l_forms[] = {
    {"", ""}, {"V_scale_in_l", "l is summed up after the weights were multiplied by V's scale"}, {"l_of_nothing", "nothing is added to l"},
    {"l_completed_in_each_tile", "l is four times as large: the sum of a row is completed in each tile, and once more at the end"},
    {"K_scale_in_l", "l is summed up with K's scale"}, {"l_doubled", "l is twice as large"}};
// clang-format on
static fit fit_pages = {FIT(page_forms)}, fit_tokens = {FIT(token_forms)}, fit_merge = {FIT(merge_forms)},
           fit_use = {FIT(use_forms)}, fit_place = {FIT(place_forms)}, fit_scaled_l = {FIT(scaled_l_forms)};

enum { PARTS = 256 };

static int heads(void) { return e.s->kv_heads; }
static int page_size(void) { return e.c->page; }

// --------------------------------------------------------------------------------------------------------------------- pages

// The page in column k of sequence b by this form; -1: none.
static int page_by(int rel, int b, int k, int used)
{
    const int needed = (e.s->kv_len + page_size() - 1) / page_size() + 1;
    const int most = e.c->max_pages ? e.c->max_pages : needed, all = most * e.s->batch;
    int at = b * most + k;
    switch (rel) {
    // clang-format off
    case 1: at = k; break; case 2: at = b * used + k; break; case 3: return min_int(k, most * e.s->batch); case 4: return b * most + k;
    case 5: at = k < (e.kv_len[b] + 63) / 64 ? at : all; break;  // a tile has 64 keys
    case 6: at++; break; case 7: at = k * e.s->batch + b; break; case 8: at = b * most; break; case 9: at += most; break;
    case 10: at = b * page_size() + k; break; case 11: at = b + k; break;
    // clang-format on
    default: break;
    }
    return at < all ? e.table[at] : -1;
}

// Pages of K that are read for each sequence, against those of the table. False if they are not right.
bool look_at_pages(const record *r)
{
    bool right = true;
    enum { MOST = 4096 };
    static bool read[MOST], by[MOST];
    for (int b = 0; b < e.s->batch; b++) {
        memset(read, 0, sizeof read);
        bool some = false;
        int met = 0;  // keys, by the first query
        for (int n = 0; n < r->count; n++) {
            const product *p = &r->products[n];
            if (!p->scores || p->right != OF_K || p->a_row[0] < 0 || head_of(p->a_row[0]) / e.s->q_heads != b) continue;
            met += p->a_row[0] == b * e.s->q_heads * e.s->q_len ? p->cols : 0;
            for (int c = 0; c < p->cols; c++)
                if (p->b_row[c] >= 0 && p->b_row[c] / heads() / page_size() < MOST)
                    read[p->b_row[c] / heads() / page_size()] = some = true;
        }
        const int used = (e.kv_len[b] + page_size() - 1) / page_size();
        double values[COUNT(page_forms)];
        char text[2][160] = {"", ""};
        for (int f = 0; f < COUNT(page_forms) && some; f++) {
            bool same = true, others = false;
            memset(by, 0, sizeof by);
            for (int k = 0; k < used; k++) {
                const int page = page_by(f, b, k, used);
                if (page >= 0 && page < MOST) by[page] = true;
            }
            for (int page = 0; page < MOST; page++) {
                same &= by[page] == read[page], others |= read[page] && !by[page];
                for (int which = 0; which < 2 && f == 0; which++)
                    if ((which ? by : read)[page] && strlen(text[which]) < 60)
                        snprintf(text[which] + strlen(text[which]), sizeof text[which] - strlen(text[which]), " %d",
                                 page);
            }
            values[f] = f == 0 ? others : !same;  // that pages are missing is for the walk to say
        }
        const bool stranger = some && values[0] != 0, lost = some && !stranger && met >= e.kv_len[b] &&
                                                             strcmp(text[0], text[1]);  // all tiles, but not all pages
        if (lost) values[0] = 1;
        if (some)
            fit_see(&fit_pages, 0, values, 0, "the keys of sequence %d lie in pages%s, and the kernel reads pages%s", b,
                    text[1], text[0]);
        right &= !some || values[0] == 0;
    }
    return right;
}

// --------------------------------------------------------------------------------------------------------------- packed rows

void look_at_packed_rows(const pairs *t)
{
    const int group = e.s->q_heads / heads(), Nq = e.s->q_len, keys = keys_of(t->row0),
              first = head_of(t->row0) % group * Nq + query_of(t->row0);
    bool ran = false;  // tiles of which all is seen have no mask
    for (int at = 0; at < t->queries * t->keys; at++)
        ran |= t->fate[at] == HIDDEN ||
               (t->query[at / t->keys] >= 0 && t->key[at % t->keys] > keys - Nq + t->query[at / t->keys]);
    if (!ran) return;
    EACH_PAIR (a, t->queries, c, t->keys) {
        const int got = t->fate[a * t->keys + c], j = t->key[c], i = t->query[a], at = first + a, last = keys - Nq;
        if (i < 0 || j < 0 || got == UNCLEAR) continue;
        // clang-format off
            const int sees_to[COUNT(token_forms)] = {
                last + i, last + a % Nq, last + at, last + at / group, last + i - 1, last + i + 1, i, keys - 1, last, keys - 1 - i, 1 << 30,
                last - 1};
        // clang-format on
        double values[COUNT(token_forms)];
        for (int f = 0; f < COUNT(token_forms); f++) values[f] = j > sees_to[f];
        fit_see(&fit_tokens, got == HIDDEN, values, 0,
                "token %d of %d, in a sequence of %d keys, %s key %d, though it %s it", i, Nq, keys,
                got == HIDDEN ? "gives no weight to" : "gives a weight to", j, got == HIDDEN ? "sees" : "does not see");
    }
}

// --------------------------------------------------------------------------------------------------------------------- merge

typedef struct part {
    double L, last, O[WB_MAX_HEAD_DIM];  // last: L of the last tile of each of its warps
    int block;
} part;

// The keys that a block has met for a row, as one part: of the scores in the record, and the inputs.
static int parts_of(const record *r, int row, part *parts, int room)
{
    const int D = e.s->head_dim;
    const double s2 = e.s->scale * (e.K_scale ? 64 : 1);
    int count = 0;
    for (int n = 0; n < r->walk_count; n++) {
        const product *first = r->walks[n].first;
        int i = 0;
        while (first && i < first->rows && first->a_row[i] != row) i++;
        if (!first || i == first->rows) continue;
        if (count == 0 || parts[count - 1].block != r->walks[n].block) {
            if (count == room) return room + 1;
            parts[count++] = (part){.L = -INFINITY, .last = -INFINITY, .block = r->walks[n].block};
        }
        part *p = &parts[count - 1];
        read_steps(&r->walks[n]);
        for (int t = 0; t < step_count; t++) {
            const product *S = steps[t].S;
            for (int c = 0; c < S->cols; c++) {
                const int raw = S->b_row[c], key = key_of(raw);
                if (!sees(row, key)) continue;
                const int scale =
                    (raw / heads() / page_size() * heads() + raw % heads()) * page_size() + raw / heads() % page_size();
                const double x = S->after[i * S->cols + c] * s2 * (e.K_scale ? e.K_scale[scale] : 1), m = fmax(p->L, x),
                             old = exp(p->L - m), now = exp(x - m), v = e.V_scale ? 64 * e.V_scale[scale] : 1;
                for (int d = 0; d < D; d++)
                    p->O[d] = (p->O[d] * old + now * v * e.V[(size_t)raw * (size_t)D + (size_t)d]) / (old + now);
                p->L = m + log(old + now);
                if (t == step_count - 1) p->last = fmax(p->last, x) + log1p(exp(-fabs(p->last - x)));
            }
        }
    }
    return count;
}

// O (column d) and L from parts, eight at a time, as this form merges them.
static void merged(int rel, const part *parts, int count, int d, double *O, double *L)
{
    double m = -INFINITY, l = 0, sum = 0;
    for (int from = 0; from < count; from += 8) {
        const int to = min_int(count, from + 8);
        double top = rel == 15 ? -INFINITY : m;
        for (int n = from; n < to; n++) top = fmax(top, parts[n].L);
        double alpha = m == -INFINITY ? 0 : rel == 2 ? exp2(m - top) : exp(m - top);
        if (rel == 10 && alpha > 0) alpha = 1 / alpha;
        if (rel == 13) alpha = 0;
        const double under = rel == 16 && m > -INFINITY ? m : top;
        m = top;
        l *= rel == 8 || rel == 9 ? 1 : alpha, sum *= rel == 7 || rel == 9 ? 1 : alpha;
        for (int n = from; n < to; n++) {
            const bool left = (rel == 3 && n == 0) || (rel == 4 && n == count - 1) || (rel == 5 && n) ||
                              (rel == 6 && n < count - 1) || (rel == 14 && n >= 8) || (rel == 17 && n > from) ||
                              (rel == 18 && n == from + 7);
            const double weight = left       ? 0
                                  : rel == 1 ? 1
                                  : rel == 2 ? exp2(parts[n].L - under)
                                             : exp(parts[n].L - under);
            const double first = exp(parts[from].L - under);
            l += rel == 12 ? 1 : rel == 19 ? exp(parts[n].last - under) : rel == 20 ? first : weight;
            sum += (rel == 11 ? 1 : rel == 20 ? first : weight) * parts[rel == 21 ? from : n].O[d];
        }
    }
    *O = l > 0 ? sum / l : 0, *L = m + log(l);
}

void look_at_merge(const record *r)
{
    static part parts[PARTS];
    const int D = e.s->head_dim;
    for (int row = 0; row < all_rows(); row++) {
        const int count = parts_of(r, row, parts, PARTS);
        if (count < 2 || count > PARTS) continue;
        double size = 0, L[COUNT(merge_forms)], O[COUNT(merge_forms)];
        for (int d = 0; d < D; d++) merged(0, parts, count, d, &O[0], &L[0]), size = fmax(size, fabs(O[0]));
        for (int d = -1; d < D; d++) {
            for (int rel = 0; rel < COUNT(merge_forms); rel++)
                merged(rel, parts, count, d < 0 ? 0 : d, &O[rel], &L[rel]);
            const double seen = d < 0 ? e.out[1][row] : e.out[0][(size_t)row * (size_t)D + (size_t)d],
                         *values = d < 0 ? L : O;
            fit_see(&fit_merge, seen, values, d < 0 ? 0.01 + 0.002 * fabs(L[0]) : 0.02 * size + 0.01 * fabs(seen),
                    "query %d of head %d has %d parts, and %s that is merged of them is %.4g where %.4g is right",
                    query_of(row), head_of(row), count, d < 0 ? "the L" : "an element of O", seen, values[0]);
        }
    }
}

// -------------------------------------------------------------------------------------------------------------------- scales

// Where a scale is looked for, and with what it meets scores (A) and weights (B).

static int scale_at(int place, int raw)
{
    const int size = page_size(), H = heads(), page = raw / H / size, head = raw % H, row = raw / H % size,
              key = key_of(raw);
    switch (place) {
    // clang-format off
    case 1: return page * H * size + row; case 2: return (page * H + head) * size + row % 16;  // a tile's rows begin at a multiple of 16
    case 3: return head * size + row; case 4: return (page + head) * size + row; case 5: return (page * size + row) * H + head;
    case 6: return (key / size * H + head) * size + row; case 7: return (page * H + head) * size + key;
    case 8: return (page * H + head) * size + row + 1; case 9: return (head * e.c->pages + page) * size + row;
    // clang-format on
    default: return (page * H + head) * size + row;
    }
}

static size_t scale_count(void)
{
    wb_tensor tensors[WB_MAX_TENSORS];
    const int count = wb_case_tensors(e.problem, e.c, tensors);
    return tensors[wb_tensor_named(tensors, count, "K_scale")].count;
}

// The two factors of a pair by its use; false if there is no such scale.
static bool factors(int place, int use, const product *S, int i, int c, double *A, double *B)
{
    const size_t all = scale_count();
    const int raw = S->b_row[c], at = scale_at(place, raw),
              of_row = i < S->cols && S->b_row[i] >= 0 ? scale_at(0, S->b_row[i]) : -1,
              of_first = S->b_row[0] >= 0 ? scale_at(0, S->b_row[0]) : -1;
    if (at < 0 || (size_t)at >= all || ((use == 12 || use == 13) && of_row < 0) || (use > 13 && of_first < 0))
        return false;
    const double k = e.K_scale[at], v = e.V_scale[at];
    VALUES(As, use_forms, k, 1, v, k, k, k, 1, v, k, k * k, k, 1 / k, of_row < 0 ? 1 : e.K_scale[of_row], k,
           of_first < 0 ? 1 : e.K_scale[of_first], k, k * v);
    VALUES(Bs, use_forms, v, v, v, 1, k, k * v, k * v, k, v * v, v, 1 / v, v, v, of_row < 0 ? 1 : e.V_scale[of_row], v,
           of_first < 0 ? 1 : e.V_scale[of_first], v);
    *A = As[use], *B = Bs[use];
    return true;
}

// How many rows of tiles do not have weights 2^(scale log2(e) S A - m) B with one m, which is the largest so far, or was.
static int misfits(const record *r, int place, int use, int *rows, int *query)
{
    static double runs[STEPS];
    int misses = 0;
    *rows = 0, *query = -1;
    const double s2 = e.s->scale * LOG2E * 64;
    EACH_WALK (r, n) {
        for (int i = 0; step_count && i < steps[0].S->rows; i++)
            for (int t = 0; t < step_count && steps[t].P; t++) {
                const product *S = steps[t].S, *PV = steps[t].P;
                double low = INFINITY, high = -INFINITY, run = t ? runs[t - 1] : -INFINITY, A, B;
                bool strange = false;
                int count = 0;
                for (int c = 0; c < S->cols && S->a_row[i] >= 0; c++) {
                    const double P = PV->a[i * S->cols + c];
                    if (S->b_row[c] < 0 || !sees(S->a_row[i], key_of(S->b_row[c]))) continue;
                    const bool there = factors(place, use, S, i, c, &A, &B);
                    strange |= !there || (isnan(P) && !isnan(A) && !isnan(B));
                    if (!there || isnan(A) || isnan(B)) continue;  // there may be NaN where no scale is
                    run = fmax(run, S->after[i * S->cols + c] * s2 * A);
                    if (!(P > 1e-25) || !isfinite(P)) continue;
                    const double m = S->after[i * S->cols + c] * s2 * A + log2(B) - log2(P);
                    low = fmin(low, m), high = fmax(high, m), count++;
                }
                runs[t] = run;
                if (count < 4 && !strange) continue;
                bool known = false;
                for (int k = 0; k <= t; k++) known |= fabs(runs[k] - (low + high) / 2) < 0.03 + 2e-4 * fabs(low);
                (*rows)++;
                if ((strange || !known || high - low > 0.03 + 2e-4 * fabs(low)) && misses++ == 0) *query = S->a_row[i];
            }
    }
    return misses;
}

void look_at_scales(const record *r)
{
    int rows, query, other;
    const bool wrong = misfits(r, 0, 0, &rows, &query) > rows / 200;
    double uses[COUNT(use_forms)] = {wrong}, places[COUNT(place_forms)] = {wrong};
    for (int use = 1; use < COUNT(use_forms) && (wrong || fit_use.wrong); use++)
        uses[use] = misfits(r, 0, use, &rows, &other) > rows / 200;
    for (int place = 1; place < COUNT(place_forms) && (wrong || fit_use.wrong); place++)
        places[place] = misfits(r, place, 0, &rows, &other) > rows / 200;
    fit_add(&fit_place, 0, places, 0);
    fit_see(&fit_use, 0, uses, 0, "the weights of query %d are not 2^(scale log2(e) S K_scale - m) V_scale",
            query_of(query));
    // l, of rows whose keys one block has.
    static part parts[PARTS];
    for (int row = 0; row < all_rows() && !wrong; row++) {
        if (parts_of(r, row, parts, PARTS) != 1 || parts[0].L == -INFINITY) continue;
        double with_V = 0, with_K = 0, all = 0;
        EACH_WALK (r, n) {
            EACH_PAIR (t, step_count, i, steps[t].S->rows)
                for (int c = 0; c < steps[t].S->cols && steps[t].S->a_row[i] == row; c++) {
                    const int raw = steps[t].S->b_row[c];
                    if (raw < 0 || !sees(row, key_of(raw))) continue;
                    const int at = scale_at(0, raw);
                    const double p =
                        exp(steps[t].S->after[i * steps[t].S->cols + c] * e.s->scale * 64 * e.K_scale[at] - parts[0].L);
                    all += p, with_V += p * e.V_scale[at], with_K += p * e.K_scale[at];
                }
        }
        const double L = parts[0].L;
        VALUES(values, scaled_l_forms, L, L + log(with_V / all), -INFINITY, L + log(4), L + log(with_K / all),
               L + log(2));
        fit_see(&fit_scaled_l, e.out[1][row], values, 0.01 + 0.002 * fabs(L),
                "the weights of query %d are right, but L, which is m + log(l), is %.4g where %.4g is right",
                query_of(row), (double)e.out[1][row], L);
    }
}

void conclude_decode(void)
{
    fit_conclude(&fit_pages, BY_HEADS, "page lookup", "page lookup", ": the pages are ");
    fit_conclude(&fit_tokens, BY_MASK, "packed rows", "packed rows", ": ");
    const form *merge = fit_form(&fit_merge);
    fit_conclude(&fit_merge, BY_END, merge == &merge_forms[19] ? "weights" : "merge", "merge|weights", ": ");
    const form *use = fit_form(&fit_use), *place = fit_form(&fit_place);
    memcpy(fit_place.says, fit_use.says, sizeof fit_place.says),
        memcpy(fit_place.shown, fit_use.shown, sizeof fit_place.shown);
    if (place && !use)
        fit_conclude(&fit_place, BY_SCALES, "scales sent", "scales sent", ": the scales are not those of the keys, ");
    else
        fit_conclude(&fit_use, BY_SCALES,
                     use && (use == &use_forms[2] || use == &use_forms[4] || use == &use_forms[7])
                         ? "scores|weights|scales sent"
                         : "scores|weights",
                     "scores|weights|scales sent", ": ");
    fit_conclude(&fit_scaled_l, BY_SUM, "weights", "weights", ": ");
}
