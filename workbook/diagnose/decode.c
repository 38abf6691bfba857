// decode.c - what 13 and 14 have of their own: which pages are read, how parts are merged, which scales meet which
// products.
#include "evidence.h"
#include "worker/exchange.h"

static fit fit_pages, fit_merge[2], fit_logs[2], fit_scales, fit_scaled_l;  // [2]: of one part, or more

enum { PARTS = 256 };

static int heads(void) { return e.s->kv_heads; }
static int page_size(void) { return e.c->page; }

static const char page_names[] =
    "|those that the table has for sequence 0|those of a table without the columns that a sequence does not use|those "
    "in the first columns alone: the column is counted in tiles of 64 keys, not in pages|the numbers of the "
    "columns: the table is not asked";
// The page in column k of sequence b by each form, which uses `used` pages; -1: none. Returns how many forms there are.
static int page_forms(int b, int k, int used, form *forms)
{
    const int needed = (e.s->kv_len + page_size() - 1) / page_size() + 1;
    const int most = e.c->max_pages ? e.c->max_pages : needed, all = most * e.s->batch, at = b * most + k;
    const bool in_tiles = k < (e.kv_len[b] + 63) / 64;  // a tile has 64 keys
#define PAGE(at) ((at) < all && (at) >= 0 ? e.table[at] : -1)
    const double is[] = {PAGE(at), PAGE(k), PAGE(b * used + k), in_tiles ? PAGE(at) : -1, k};
#undef PAGE
    return list_forms(&fit_pages, forms, page_names, is);
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
        form forms[MAX_FORMS], of_column[MAX_FORMS];
        const int used = (e.kv_len[b] + page_size() - 1) / page_size(), count = page_forms(b, 0, used, forms);
        char text[160] = "";  // the right pages
        for (int f = 0; f < count && some; f++) {
            bool same = true, others = false;
            memset(by, 0, sizeof by);
            for (int k = 0; k < used; k++) {
                page_forms(b, k, used, of_column);
                const int page = (int)of_column[f].is;
                if (page >= 0 && page < MOST) by[page] = true;
            }
            for (int page = 0; page < MOST; page++) same &= by[page] == read[page], others |= read[page] && !by[page];
            if (f == 0) APPEND(text, "%s", list_of(by, MOST, 100));
            // That pages are missing is for the walk to say, unless all tiles were met.
            if (f == 0 && met >= e.kv_len[b]) others |= !same;
            forms[f].is = f == 0 ? others : !same;
        }
        if (!some) continue;
        fit_see(&fit_pages, 0, 0, forms, count,
                "the keys of sequence %d lie in pages %s, and the kernel reads pages %s", b, text,
                list_of(read, MOST, 100));
        right &= forms[0].is == 0;
    }
    return right;
}

// Where the scale of a key is looked for: key `row` of `head` in `page`, the row of K with this number.
enum { AT_KEY, FIRST_HEAD, FIRST_ROWS, FIRST_PAGES, PAGES_OF_ONE_HEAD, PLACES };
static int scale_at(int place, int raw)
{
    const int size = page_size(), H = heads(), page = raw / H / size, head = raw % H, row = raw / H % size;
    const int first = page * H * size, at = head * size;
    switch (place) {
    case FIRST_HEAD: return first + row;
    case FIRST_ROWS: return first + at + row % 16;  // a tile's rows begin at a multiple of 16
    case FIRST_PAGES: return at + row;
    case PAGES_OF_ONE_HEAD: return page * size + at + row;
    default: return first + at + row;
    }
}

double scale_of_key(int row) { return 64 * e.K_scale[scale_at(AT_KEY, row)]; }

typedef struct part {
    double L, O[WB_MAX_HEAD_DIM], V_scale;  // V_scale: the mean under the weights
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
            parts[count++] = (part){.L = -INFINITY, .block = r->walks[n].block};
        }
        part *p = &parts[count - 1];
        read_steps(&r->walks[n]);
        for (int t = 0; t < step_count; t++) {
            const product *S = steps[t].S, *PV = steps[t].P;
            for (int d = 0; d < D && PV; d++) p->strange |= !isfinite(PV->after[i * D + d]);
            for (int c = 0; c < S->cols; c++) {
                const int raw = S->b_row[c], key = key_of(raw);
                if (!sees(row, key)) continue;
                const int at = e.K_scale ? scale_at(0, raw) : 0;
                const double k = e.K_scale ? e.K_scale[at] : 1, v = e.V_scale ? e.V_scale[at] : 1;
                const double x = S->after[i * S->cols + c] * s2 * k, m = fmax(p->L, x), old = exp(p->L - m),
                             now = exp(x - m), all = old + now;
                p->V_scale = (p->V_scale * old + now * v) / all;
                for (int d = 0; d < D; d++)
                    p->O[d] = (p->O[d] * old + now * v * unit * e.V[(size_t)raw * (size_t)D + (size_t)d]) / all;
                p->L = m + log(all);
            }
        }
    }
    return count;
}

// What came out of a row, against its parts: of one, what finalize makes of it.
void look_at_merge(const record *r)
{
    static part parts[PARTS];
    const int D = e.s->head_dim;
    for (int row = 0; row < all_rows(); row++) {
        const int count = parts_of(r, row, parts, PARTS);
        if (count == 0 || count > PARTS || (count == 1 && (e.K_scale || parts[0].strange))) continue;
        const float *out = e.out[0] + (size_t)row * (size_t)D, got_L = e.out[1][row];
        bool written = false;
        for (size_t n = 0; n < sizeof got_L; n++) written |= ((const unsigned char *)&got_L)[n] != WB_NAN_BYTE;
        if (count == 1 && !written) continue;
        if (count == 1 && parts[0].L == -INFINITY) {
            see_empty_row(row);
            continue;
        }
        double *O_of[PARTS], L_of[PARTS];
        char where[60];
        for (int n = 0; n < count; n++) O_of[n] = parts[n].O, L_of[n] = parts[n].L;
        snprintf(where, sizeof where, "query %d of head %d", query_of(row), head_of(row));
        const double slack = 0.01 + 0.002 * fabs(L_of[0]);
        see_merge(&fit_merge[count > 1], &fit_logs[count > 1], O_of, L_of, count, 8, out, got_L, slack, where);
    }
}

static size_t scale_count(void)
{
    wb_tensor tensors[WB_MAX_TENSORS];
    const int count = wb_case_tensors(e.problem, e.c, tensors);
    return tensors[wb_tensor_named(tensors, count, "K_scale")].count;
}

// What scores (A) and weights (B) may be multiplied by, and where scales may lie. Meetings are ways to do it: the right
// one; another for the scores, or for the weights, or both exchanged; or another place.
enum { FACTORS = 7, OTHER = 2, EXCHANGED = 2 * FACTORS - 1, MEETINGS = EXCHANGED + PLACES };
// clang-format off
static const char *const factors_are[FACTORS] = {
    "", "by nothing", "by the other's scale", "by their scale twice", "by 1 / their scale", "by the other's scale, too",
    "by the scale of the tile's first key"};
static const char *const places_are[PLACES] = {
    "", "those of key head 0", "those of the page's first keys: the row in the page is left out", "those of page 0",
    "looked for as if a page of scales had page_size for all heads: it has so many for each"};
// clang-format on
static double factor(int what, double own, double other, double first)
{
    return (double[]){own, 1, other, own * own, 1 / own, own * other, first}[what];
}

// False if there is no such scale.
static bool factors(int n, const product *S, int c, double *A, double *B)
{
    const int what_A = n == EXCHANGED ? OTHER : n < FACTORS ? n : 0;
    const int what_B = n == EXCHANGED ? OTHER : n >= FACTORS && n < EXCHANGED ? n - FACTORS + 1 : 0;
    const int at = scale_at(max_int(0, n - EXCHANGED), S->b_row[c]);
    const int first = S->b_row[0] >= 0 ? scale_at(AT_KEY, S->b_row[0]) : -1;
    if (at < 0 || (size_t)at >= scale_count() || first < 0) return false;
    const double k = e.K_scale[at], v = e.V_scale[at];
    *A = factor(what_A, k, v, e.K_scale[first]);
    *B = factor(what_B, v, k, e.V_scale[first]);
    return true;
}

// How many rows of tiles do not have weights 2^(scale log2(e) S A - m) B with one m, which is the largest so far, or
// was.
static int misfits(const record *r, int meeting, int *rows, int *query)
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
                bool strange = false, unclear = false;
                int count = 0;
                for (int c = 0; c < S->cols && S->a_row[i] >= 0; c++) {
                    const double P = PV->a[i * S->cols + c];
                    if (S->b_row[c] < 0 || !sees(S->a_row[i], key_of(S->b_row[c]))) continue;
                    const bool there = factors(meeting, S, c, &A, &B);
                    strange |= there && isnan(P) && !isnan(A) && !isnan(B);
                    unclear |= !there || isnan(A) || isnan(B);  // as it may be where no scale is
                    if (unclear) break;
                    run = fmax(run, S->after[i * S->cols + c] * s2 * A);
                    if (!(P > 1e-25) || !isfinite(P)) continue;
                    const double m = S->after[i * S->cols + c] * s2 * A + log2(B) - log2(P);
                    low = fmin(low, m), high = fmax(high, m), count++;
                }
                runs[t] = run;
                if (unclear) break;
                if (count < 4 && !strange) continue;
                bool known = false;
                for (int k = 0; k <= t; k++) known |= fabs(runs[k] - (low + high) / 2) < 0.03 + 2e-4 * fabs(low);
                (*rows)++;
                if ((strange || !known || high - low > 0.03 + 2e-4 * fabs(low)) && misses++ == 0) *query = S->a_row[i];
            }
    }
    return misses;
}

static int seen_misfits[MEETINGS], seen_rows[MEETINGS];  // in all cases

bool look_at_scales(const record *r)
{
    int rows, query, other;
    const bool wrong = misfits(r, 0, &rows, &query) > rows / 20;  // a row that keeps an old maximum may not fit
    form forms[MAX_FORMS] = {{"", 0}};
    int count = 1;
    for (int n = 0; n < MEETINGS; n++) {
        if (n > EXCHANGED)
            add_form(&fit_scales, forms, &count, wrong, "the scales are %s", places_are[n - EXCHANGED]);
        else if (n == EXCHANGED)
            add_form(&fit_scales, forms, &count, wrong, "K's and V's scale are exchanged");
        else if (n)
            add_form(&fit_scales, forms, &count, wrong, "%s are multiplied %s", n < FACTORS ? "scores" : "weights",
                     factors_are[n < FACTORS ? n : n - FACTORS + 1]);
        if (wrong || fit_scales.wrong) seen_misfits[n] += misfits(r, n, &rows, &other), seen_rows[n] += rows;
    }
    fit_see(&fit_scales, wrong, 0, forms, count,
            "the weights of query %d are not 2^(scale log2(e) S K_scale - m) V_scale", query_of(query));
    // l, of rows whose keys one block has.
    static part parts[PARTS];
    for (int row = 0; row < all_rows() && !wrong; row++) {
        if (parts_of(r, row, parts, PARTS) != 1 || parts[0].L == -INFINITY) continue;
        const double L = parts[0].L;
        form of_l[MAX_FORMS];
        const int of = list_forms(
            &fit_scaled_l, of_l,
            "|l is summed up after the weights were multiplied by V's scale|l is four times as large: the sum "
            "of a row is completed in each tile, and once more at the end",
            (double[]){L, L + log(parts[0].V_scale), L + log(4)});
        fit_see(&fit_scaled_l, e.out[1][row], 0.01 + 0.002 * fabs(L), of_l, of,
                "the weights of query %d are right, but L, which is m + log(l), is %.4g where %.4g is right",
                query_of(row), (double)e.out[1][row], L);
    }
    return !wrong;
}

void conclude_decode(void)
{
    fit_conclude(&fit_pages, BY_HEADS, "page lookup", NULL, ": the pages are ");
    for (int many = 0; many < 2; many++) {
        const char *gaps = many ? "merge" : "finalize", *others = many ? "merge|weights" : NULL;
        fit_conclude(&fit_merge[many], many ? BY_END : BY_SUM, gaps, others, ": ");
        fit_conclude(&fit_logs[many], many ? BY_END : BY_SUM, gaps, others, ": that is ");
    }
    for (int n = 1; n < MEETINGS; n++)
        if (seen_misfits[n] > seen_rows[n] / 50 || seen_rows[n] < seen_rows[0] / 2)
            fit_scales.misses[n] = fit_scales.wrong;
    const form *scales = fit_form(&fit_scales);
    const int n = scales ? (int)(scales - fit_scales.forms) : 0;
    const bool place = n > EXCHANGED;
    fit_conclude(&fit_scales, BY_SCALES, place ? "scales sent" : "scores|weights|scales sent",
                 "scores|weights|scales sent", ": ");
    fit_conclude(&fit_scaled_l, BY_SUM, "weights", NULL, ": ");
}
