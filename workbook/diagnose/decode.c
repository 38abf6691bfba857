// decode.c - what 13 and 14 have of their own: which pages are read, how parts are merged, which scales are used.
#include "evidence.h"

static fit fit_scales =
    FIT(BY_SCALES, "scores|weights", .others = "scales sent|scores|weights", .joint = "; it follows ",
        .by = {{"with the", "scales sent|scores|weights"},
               {"log2(V_scale) + ", "scores|scales sent"},
               {"scale log2(e) S K_scale", "weights|scales sent"},
               {"S / K_scale", "scores"}});
static fit fit_scaled_l = FIT(BY_SUM, "weights", .joint = ": ");

enum { PARTS = 256 };

// Whether all pages of K that are read for a sequence are its own. That some are missing is for the walk to say.
bool look_at_pages(const record *r)
{
    const int most = e.c->max_pages ? e.c->max_pages : (e.s->kv_len + e.c->page - 1) / e.c->page + 1;
    for (int n = 0; n < r->count; n++) {
        const product *p = &r->products[n];
        if (!p->scores || p->right != OF_K || p->a_row[0] < 0) continue;
        const int b = head_of(p->a_row[0]) / e.s->q_heads, pages = (e.kv_len[b] + e.c->page - 1) / e.c->page;
        for (int c = 0; c < p->cols; c++) {
            const int page = p->b_row[c] / e.s->kv_heads / e.c->page;
            bool listed = p->b_row[c] < 0;
            for (int k = 0; k < pages; k++) listed |= e.table[b * most + k] == page;
            if (listed) continue;
            const int of = key_head_of(p->b_row[c]);
            find(BY_HEADS - 1, "", "page lookup",
                 "the kernel reads page %d for sequence %d, although page_table has it for sequence %d (-1: none)",
                 page, b, of < 0 ? -1 : of / e.s->kv_heads);
            return false;
        }
    }
    return true;
}

static int scale_at(int row)
{
    const int size = e.c->page, H = e.s->kv_heads, page = row / H / size;
    return (page * H + row % H) * size + row / H % size;
}

double scale_of_key(int row) { return 64 * e.K_scale[scale_at(row)]; }

typedef struct part {
    double L, O[WB_MAX_HEAD_DIM], V_scale;  // V_scale: the mean under the weights
    double m;                               // the largest that its walks subtract in the end
    int block;
    bool strange;  // what it has of O is not finite, before anything is divided
} part;

// The keys that a block has met for a row, as one part: of the scores in the record, and the inputs.
static int parts_of(const record *r, int row, part *parts, int room)
{
    const int D = e.s->head_dim;
    const double unit = e.K_scale ? 64 : 1, s2 = e.s->scale * unit;
    int count = 0;
    for (int n = 0; n < r->walk_count; n++) {
        const product *first = r->walks[n].first;
        int i = 0;
        while (first && i < first->rows && first->a_row[i] != row) i++;
        if (!first || i == first->rows) continue;
        if (count == 0 || parts[count - 1].block != r->walks[n].block) {
            if (count == room) return room + 1;
            parts[count++] = (part){.L = -INFINITY, .m = -INFINITY, .block = r->walks[n].block};
        }
        part *p = &parts[count - 1];
        double subtracted = -INFINITY;
        read_steps(&r->walks[n]);
        EACH_STEP(t)
        {
            const product *S = t->S, *PV = t->P;
            for (int d = 0; d < D && PV; d++) p->strange |= !isfinite(PV->after[i * D + d]);
            for (int c = 0; c < S->cols; c++) {
                const int raw = S->b_row[c], key = key_of(raw);
                if (!sees(row, key)) continue;
                const int at = e.K_scale ? scale_at(raw) : 0;
                const double k = e.K_scale ? e.K_scale[at] : 1, v = e.V_scale ? e.V_scale[at] : 1;
                const double x = S->after[i * S->cols + c] * s2 * k, m = fmax(p->L, x), old = exp(p->L - m),
                             now = exp(x - m), all = old + now, P = PV ? weight_at(t, i, c) : 0;
                if (P > 1e-25 && P < 1e25) subtracted = x - log(P);
                p->V_scale = (p->V_scale * old + now * v) / all;
                for (int d = 0; d < D; d++) p->O[d] = (p->O[d] * old + now * v * unit * e.V[raw * D + d]) / all;
                p->L = m + log(all);
            }
        }
        p->m = fmax(p->m, subtracted);
    }
    return count;
}

// What came out of a row, against its parts: of one, what finalize makes of it.
void look_at_merge(const record *r)
{
    static part parts[PARTS];
    for (int row = 0; row < all_rows(); row++) {
        const int count = parts_of(r, row, parts, PARTS);
        if (count == 0 || count > PARTS) continue;
        if (count == 1 && (e.K_scale || parts[0].strange || !was_written(row_of_O(row)))) continue;
        if (count == 1 && parts[0].L == -INFINITY) {
            see_empty_row(row);
            continue;
        }
        double *O_of[PARTS], L_of[PARTS];
        for (int n = 0; n < count; n++) O_of[n] = parts[n].O, L_of[n] = parts[n].L;
        const double slack = 0.01 + 0.002 * fabs(L_of[0]);
        if (!see_merge(O_of, L_of, parts[0].m, count, row_of_O(row), e.out[1][row], slack, name_of(row))) mute_merge();
    }
}

static int scaled_pairs, scaled_misses;  // in all cases

#define OF "(S K_scale + the term of V_scale), with the scales of "
// What scores and weights are multiplied by, from a row's first weight in a tile to others. False: many are wrong.
bool look_at_scales(const record *r)
{
    enum { SCALED = 12 };
    int misses = 0, count = 0;
    const int pages = wb_pages_make(e.c).shape.pages;
    EACH_WALK (r, w) {
        EACH_PAIR (t, step_count, i, steps[t].S->rows) {
            const product *S = steps[t].S, *PV = steps[t].P;
            double first[SCALED] = {0}, first_P = 0;
            int first_key = -1;
            for (int c = 0; PV && c < S->cols; c++) {
                const double P = weight_at(&steps[t], i, c), score = score_at(&steps[t], i, c) * 64;
                if (S->b_row[c] < 0 || !sees(S->a_row[i], key_of(S->b_row[c])) || P <= 1e-25 || isinf(P)) continue;
                const int at = scale_at(S->b_row[c]), H = e.s->kv_heads, h = S->b_row[c] % H, row = at % e.c->page;
                const double k = e.K_scale[at], v = e.V_scale[at], b2 = base2_scale();
                const int page = e.c->page, of_page = at / page / H * H * page;
                if (isnan(P))
                    find(BY_SCALES, "", "scales sent|scores|weights",
                         "%s gives the weight NaN to key %d, although its score and scales are numbers",
                         name_of(S->a_row[i]), key_of(S->b_row[c]));
                if (isnan(P)) continue;
                const int next = of_page / H / page + 1 < pages ? of_page + H * page : of_page;
                const int other[] = {at - page * h, of_page + (h + 1) % H * page + row, next + at - of_page};
                double is[SCALED] = {score * k, log2(v),   score,   score * k * k,           score * k * v,
                                     score / k, score * v, log2(k), score * v + log2(k) / b2};
                for (int n = 0; n < COUNT(other); n++)
                    is[SCALED - COUNT(other) + n] = score * e.K_scale[other[n]] + log2(e.V_scale[other[n]]) / b2;
                if (first_key < 0) {
                    memcpy(first, is, sizeof is), first_P = log2(P), first_key = key_of(S->b_row[c]);
                    continue;
                }
                for (int n = 0; n < SCALED; n++) is[n] -= first[n];
                const double right = b2 * is[0] + is[1], seen = log2(P) - first_P;
                const double slack = 0.03 + 2e-4 * (fabs(right) + fabs(b2 * first[0]));
                count++, misses += !(fabs(seen - right) <= slack);
                see_sum(&fit_scales, seen, slack,
                        "+sl S K_scale|+ log2(V_scale)| S| S K_scale^2| S K_scale V_scale| S / K_scale| S V_scale"
                        "| log2(K_scale)| (S K_scale + the term of V_scale), with the two scales exchanged"
                        "| " OF "key head 0| " OF "the next key head| " OF "the next page",
                        is,
                        "the weights of %s are not 2^(scale log2(e) S K_scale - m) V_scale: from key %d to key "
                        "%d their log2 should change by %.4g, but changes by %.4g",
                        name_of(S->a_row[i]), first_key, key_of(S->b_row[c]), right, seen);
            }
        }
    }
    scaled_pairs += count, scaled_misses += misses, fit_scales.mute = scaled_misses <= scaled_pairs / 50;
    const bool wrong = misses > count / 20;
    // l, of rows whose keys one block has.
    static part parts[PARTS];
    for (int row = 0; row < all_rows() && !wrong; row++) {
        if (parts_of(r, row, parts, PARTS) != 1 || parts[0].L == -INFINITY) continue;
        const double L = parts[0].L;
        const form of_l[] = {{"", L},
                             {"l is summed after the weights were multiplied by V's scale", L + log(parts[0].V_scale)}};
        see(&fit_scaled_l, e.out[1][row], 0.01 + 0.002 * fabs(L), of_l, COUNT(of_l),
            "the weights of %s are correct, but its L is %.4g, and should be m + log(l) = %.4g", name_of(row),
            (double)e.out[1][row], L);
    }
    return !wrong;
}
