// walks.c - the steps of a walk, and which tiles each block meets, against those that it needs: where its walk begins
// and where it ends.
#include "evidence.h"

step steps[STEPS];
int step_count;
bool by_keys;

static bool backward(void) { return e.problem->signature == WB_BACKWARD; }

double base2_scale(void) { return e.problem->on_host ? 1 : (double)e.s->scale * LOG2E; }

void name_pair(const product *S, int i, int c, int *q, int *k)
{
    *q = by_keys ? S->b_row[c] : S->a_row[i], *k = by_keys ? S->a_row[i] : S->b_row[c];
}

// The number of the first key of a tile, or query where keys are on the left.
static int first_of(const product *S)
{
    for (int c = 0; c < S->cols; c++) {
        const int row = S->b_row[c], x = row < 0 ? row : by_keys ? query_of(row) : key_of(row);
        if (x >= 0) return x - c;
    }
    return NO_ROW;
}

static bool same_keys(const product *PV, const step *t) { return PV->b_row[0] == t->S->b_row[0]; }

// Products of P and V may come after the scores of the next tile: each belongs to the first tile that has none and the
// same keys.
static void read_forward(const product *p)
{
    if (p->scores && step_count < STEPS) steps[step_count++] = (step){.S = p, .first = first_of(p)};
    step *of = NULL;
    for (int n = 0; !p->scores && n < step_count; n++)
        if (!steps[n].P && p->depth == steps[n].S->cols && p->rows == steps[n].S->rows && p->cols == e.s->head_dim &&
            (!of || (same_keys(p, &steps[n]) && !same_keys(p, of))))
            of = &steps[n];
    if (of) of->P = p;
}

// Whether a sum begins with what the other ended with.
static bool goes_on(const product *from, const product *to)
{
    const size_t bytes = (size_t)to->rows * (size_t)to->cols * sizeof(float);
    bool zero = true;
    for (int n = 0; n < to->rows * to->cols; n++) zero &= to->before[n] == 0;
    return !zero && from->cols == to->cols && memcmp(from->after, to->before, bytes) == 0;
}

// Where a product of a backward belongs in a step: scores are dP, sums go by what they add up. Of two sums that meet
// the same rows one met the wrong ones.
static const product **place_in(step *t, const product *p)
{
    const product **own = by_keys && p->right == OF_dO ? &t->P : &t->dS, **other = own == &t->P ? &t->dS : &t->P;
    if (p->scores) return &t->dP;
    return by_keys && *own && !*other && (*own)->right == p->right && !goes_on(*own, p) ? other : own;
}

// It may come after the scores of the next tile: it belongs to the first step that lacks it, rather to one that has the
// same rows. A second product for one sum stands for both.
static void read_backward(const product *first, const product *p)
{
    const product **to = NULL;
    bool same = false;
    if (p->scores && p->left == first->left && p->right == first->right) {
        if (step_count < STEPS) steps[step_count++] = (step){.S = p, .first = first_of(p)};
        return;
    }
    if (!p->scores && p->right != (by_keys ? OF_Q : OF_K) && !(by_keys && p->right == OF_dO)) return;
    for (int n = 0; n < step_count; n++) {
        const product *S = steps[n].S, **at = place_in(&steps[n], p);
        const bool fits = p->scores ? p->cols == S->cols : p->depth == S->cols && p->cols == e.s->head_dim;
        const bool alike = p->b_row[0] == S->b_row[0];
        if (!fits || p->rows != S->rows || (*at && (p->scores || !goes_on(*at, p)))) continue;
        if (!to || (!*at && (*to || (alike && !same)))) to = at, same = alike;
    }
    if (to) *to = p;
}

// Whether a tile comes once more, and nothing of it gets a weight: that fills up a step of two.
static bool fills_up(const step *t)
{
    bool again = false;
    for (const step *s = steps; s < t; s++) again |= s->first == t->first;
    for (int n = 0; again && t->P && n < t->P->rows * t->P->depth; n++) again = t->P->a[n] == 0;
    return again && t->P;
}

bool has_negatives(const product *p)
{
    bool any = false;
    for (int n = 0; n < p->rows * p->depth; n++) any |= p->a[n] < 0;
    return any;
}

void read_steps(const walk *w)
{
    step_count = 0, by_keys = backward() && w->first && w->first->left == OF_K;
    for (const product *p = w->at; p < w->at + w->count; p++)
        if (!backward())
            read_forward(p);
        else if (w->first)
            read_backward(w->first, p);
    for (step *t = steps; t < steps + step_count && by_keys; t++)
        if (t->P && t->dS && t->P->right == t->dS->right && has_negatives(t->P) && !has_negatives(t->dS)) {
            const product *of_dS = t->P;
            t->P = t->dS, t->dS = of_dS;
        }
    if (step_count > 1 && !backward() && fills_up(&steps[step_count - 1])) step_count--;
}

enum { BLOCKS = 2048 };

// A block's queries, or keys, of one head, and the tiles that its warps met, [begin, end); sinks that lie before them
// apart.
typedef struct block {
    int low, high, head, begin, end, sink_end;
    bool several;  // its head has more blocks, so it is known how many rows one has
} block;

static block blocks[BLOCKS];
static int block_count, rows_of_block, rows_of_warp, width, sink_width;

static void read_blocks(const record *r, bool keys)
{
    block_count = 0, rows_of_block = 0, width = 0, sink_width = 0;
    EACH_WALK (r, n) {
        for (int t = 0; t < step_count && by_keys == keys; t++) width = max_int(width, steps[t].S->cols);
    }
    EACH_WALK (r, n) {
        const int row = step_count && by_keys == keys ? steps[0].S->a_row[0] : NO_ROW;
        if (row < 0) continue;
        const int head = keys ? key_head_of(row) : head_of(row);
        int low, high, k = 0;
        block_of(r, n, &low, &high);
        while (k < block_count && (blocks[k].head != head || blocks[k].low != low)) k++;
        if (k == BLOCKS) continue;
        if (k == block_count) blocks[block_count++] = (block){low, high, head, 1 << 30, 0, 0, false};
        rows_of_block = max_int(rows_of_block, high - low + 1), rows_of_warp = steps[0].S->rows;
        for (int t = 0; t < step_count; t++) {
            const int from = steps[t].first, cols = steps[t].S->cols;
            if (from == NO_ROW) continue;
            if (e.problem->sinks && !keys && (backward() ? from < e.s->sinks : cols < width))
                blocks[k].sink_end = max_int(blocks[k].sink_end, from + cols), sink_width = cols;
            else
                blocks[k].begin = min_int(blocks[k].begin, from), blocks[k].end = max_int(blocks[k].end, from + cols);
        }
    }
    EACH_PAIR (k, block_count, other, block_count)  // the last block of a head may have fewer queries
        if (blocks[other].head == blocks[k].head && blocks[other].low > blocks[k].low)
            rows_of_block = min_int(rows_of_block, blocks[other].low - blocks[k].low),
            blocks[k].several = blocks[other].several = true;
}

static int up(int x, int unit) { return (x + unit - 1) / unit * unit; }
static int down(int x, int unit) { return max_int(0, x) / unit * unit; }

static fit fit_end[2], fit_begin, fit_sinks;  // [2]: of walks over keys, and over queries

#define TILES_OFF    "|two tiles too early|one tile too early|one tile too late|two tiles too late"
#define OFF(x, tile) (x) - 2 * (tile), (x) - (tile), (x) + (tile), (x) + 2 * (tile)

static const char begin_names[] =
    "|where the window of the block's last query begins: its first query sees earlier keys|at key 0, though a window "
    "hides the first tiles|rounded up: the keys before are missing|at the tile whose number is that of its first "
    "key|at tile block_row / BC - W / BC, both rounded down" TILES_OFF;
static const char end_names[] =
    "|with the last whole tile: the number of tiles is rounded down|with the tile of the block's first query: its "
    "other queries see more|with the last key of the block's first warp|with the last key of all, whatever the block "
    "sees|after one tile|with the last whole tile of all keys|with as many keys as the block has "
    "queries|as if its last key were the one before|as if its last key were the one behind" TILES_OFF;
static const char sink_names[] =
    "|no tile of sinks is met|whole tiles of sinks alone are met: the last is left out|all tiles of sinks before the "
    "block's rows are met apart|tiles of sinks are counted as if they had as many keys as the others|all tiles of "
    "sinks are met apart, those that the window has, too|one tile of sinks is met, whatever their number";
// A walk over keys. That of dQ begins with any key; all others, with a tile.
static void add_bounds(const block *b)
{
    const int Nk = e.s->kv_len, B = width, from_any = backward(),
              n = e.problem->sinks ? min_int(e.s->sinks, 1 << 29) : 0;
    const int U = e.problem->on_host ? 1 : B, S = sink_width ? sink_width : 16, unit = from_any ? 1 : B;
    const bool causal = e.problem->mask == WB_CAUSAL || e.s->causal;
    const int last = causal ? min_int(Nk, b->high + 1) : Nk;
    const int first = e.problem->window ? max_int(0, b->low - e.s->window + 1) : 0, right = down(first, unit);
    const int late = e.problem->window ? max_int(0, b->low + rows_of_block - e.s->window) : 0;
    const int least = from_any ? up(n, B) : 0, most = min_int(n, right), sink_end = up(most, S);
    form begins[MAX_FORMS], ends[MAX_FORMS], sinks[MAX_FORMS];
    const int begin_count =
        list_forms(&fit_begin, begins, begin_names,
                   (double[]){right, down(late, unit), 0, up(first, unit), first * B,
                              e.problem->window ? max_int(0, b->low / B - e.s->window / B) * B : 0, OFF(right, B)});
    for (int f = 0; f < begin_count && from_any; f++) begins[f].is = fmin(fmax(begins[f].is, least), Nk);
    const int from = from_any ? (int)begins[0].is : 0, right_end = from + up(last - from, U);
    const int end_count = list_forms(
        &fit_end[0], ends, end_names,
        (double[]){right_end, from + down(last - from, U), causal ? from + up(b->low + 1 - from, U) : right_end,
                   from + up(min_int(last, b->low + rows_of_warp) - from, U), from + up(Nk - from, U), from + right + B,
                   fmin(right_end, from + up(down(Nk, B) - from, U)),
                   causal ? up(min_int(Nk, b->high - b->low + 1), U) : right_end,
                   causal ? from + up(last - 1 - from, U) : right_end,
                   causal ? from + up(last + 1 - from, U) : right_end, OFF(right_end, B)});
    for (int f = 0; f < end_count && from_any; f++) ends[f].is = fmin(ends[f].is, Nk);
    const int sinks_count = list_forms(&fit_sinks, sinks, sink_names,
                                       (double[]){sink_end, 0, down(most, S), up(min_int(n, b->low), S),
                                                  (most + B - 1) / B * S, up(n, S), most ? S : 0});
    const int end = from_any ? min_int(b->end, Nk) : b->end;
    if (!from_any || b->begin == begins[0].is) fit_add(&fit_end[0], end, 0, ends, end_count);
    if (e.problem->window && b->end > 0) fit_add(&fit_begin, b->begin, 0, begins, begin_count);
    if (from_any) {  // tiles of sinks are those that begin before their end
        for (int f = 2; f < sinks_count; f++) sinks[f].is = NAN;
        sinks[0].is = up(n, B);
        sinks[sinks_count - 1].is = fmin(sinks[0].is, B);
    }
    if (n && (!from_any || b->low > 0))
        fit_add(&fit_sinks, from_any ? up(b->sink_end, B) : b->sink_end, 0, sinks, sinks_count);
}

// A walk over the queries that see the keys of a block.
static void add_bounds_of_keys(const block *b)
{
    const int N = e.s->q_len, at = b->low, B = rows_of_block, W = e.problem->window ? min_int(e.s->window, N) : N;
    const int sinks = e.problem->sinks ? e.s->sinks : 0, plain = min_int(N, at + B - 1 + W),
              end = at < sinks ? N : plain;
    form ends[MAX_FORMS];
    const int count = list_forms(&fit_end[1], ends,
                                 "|with the last query that sees the block's first key: its last key is seen "
                                 "longer|with its window, unless all of the "
                                 "block's keys are sinks|with the last query of all, though the window ends before it",
                                 (double[]){end, at < sinks ? N : at + W, at + B <= sinks ? N : plain, N});
    for (int f = 0; f < count; f++) ends[f].is = fmin(N, at + ceil((ends[f].is - at) / width) * width);
    if (b->end <= 0) return;
    fit_add(&fit_end[1], min_int(N, b->end), 0, ends, count);
}

// Where the tiles begin of the walk that has this query, or key, on the left.
static const char *walk_of(const record *r, bool keys, int q, int k)
{
    static char text[200];
    *text = 0;
    EACH_WALK (r, n) {
        const product *S = r->walks[n].first;
        bool has = false;
        for (int i = 0; S && by_keys == keys && i < S->rows; i++)
            has |= !keys ? S->a_row[i] == q : key_of(S->a_row[i]) == k && key_head_of(S->a_row[i]) == head_of_query(q);
        for (int t = 0; has && t < step_count && strlen(text) < 60; t++) APPEND(text, " %d", steps[t].first);
    }
    return *text ? text : " nowhere";
}

// Rows of Q that no block takes; of which heads, and of which some are taken twice.
static void look_at_rows(const record *r)
{
    enum { HEADS = 256 };
    const int rows = all_rows(), N = e.s->q_len;
    int *taken = allocate((size_t)rows, sizeof *taken), first = -1;
    bool none[HEADS] = {false}, twice[HEADS] = {false};
    for (int n = 0; n < r->walk_count; n++)
        for (int i = 0; r->walks[n].first && i < r->walks[n].first->rows; i++)
            if (r->walks[n].first->a_row[i] >= 0) taken[r->walks[n].first->a_row[i]]++;
    for (int row = rows; row-- > 0;) {
        bool any = false;
        for (int j = 0; j < e.s->kv_len && !any && !taken[row]; j++) any = sees(row, j);
        if (any) first = row;
        none[row / N % HEADS] |= any, twice[row / N % HEADS] |= taken[row] > 1;
    }
    free(taken);
    if (first >= 0)
        find(BY_HEADS, "queries_left_out", "order|fetch|bounds|lists|share|head mapping|skip",
             "no block takes query %d of head %d. Queries are left out of heads %s, counted through the batches, and "
             "taken twice of heads %s, of 0 to %d",
             query_of(first), head_of(first), list_of(none, HEADS, 100), list_of(twice, HEADS, 100), rows / N - 1);
}

// A walk over the queries of a group: of each head that reads this key head, in turn, from the same query on.
static fit fit_group;
static const char groups[] =
    "|of the first head of its group alone|of as many heads as there are key heads|of two heads|of all heads";
static void look_at_order(void)
{
    const step *end = &steps[step_count - 1];
    if (step_count && steps[0].S->b_row[0] >= 0 && end->S->b_row[0] >= 0) {
        const int met = head_of(end->S->b_row[0]) - head_of(steps[0].S->b_row[0]) + 1;
        const double is[] = {e.s->q_heads / e.s->kv_heads, 1, e.s->kv_heads, 2, e.s->q_heads};
        form forms[MAX_FORMS];
        fit_see(&fit_group, met, 0, forms, list_forms(&fit_group, forms, groups, is),
                "the walk of the block of key %d meets the queries of %d heads, where %g read its key head",
                key_of(steps[0].S->a_row[0]), met, is[0]);
    }
    for (int t = 0; t < step_count; t++) {
        const int q = steps[t].S->b_row[0], k = steps[t].S->a_row[0], was = t ? steps[t - 1].S->b_row[0] : q;
        if (q < 0 || k < 0 || was < 0) continue;
        const bool goes_on =
            head_of(q) == head_of(was) || (head_of(q) == head_of(was) + 1 && query_of(q) == steps[0].first);
        if (!goes_on && head_of_query(was) == key_head_of(k))
            find(BY_HEADS, "next_head", "next head|queries|parts",
                 "the walk of the block of key %d goes from query %d of head %d to query %d of head %d; it should to "
                 "the next head, and there to query %d, with which the first began",
                 key_of(k), query_of(was), head_of(was), query_of(q), head_of(q), steps[0].first);
        else if (head_of_query(q) != key_head_of(k))
            find(
                BY_HEADS, "queries_of_others", "group|next head|queries",
                "the block of key %d of key head %d meets queries of head %d, which reads key head %d (counted through "
                "the batches)",
                key_of(k), key_head_of(k), head_of(q), head_of_query(q));
    }
}

// Whether any row of this walk's block sees anything of a step.
static bool is_seen(const record *r, int n, const product *S)
{
    int low, high, known = 0;
    const int mine = S->a_row[0];
    if (mine < 0) return true;
    block_of(r, n, &low, &high);
    EACH_PAIR (x, high - low + 1, c, S->cols) {
        const int left = mine - (by_keys ? key_of(mine) : query_of(mine)) + low + x, right = S->b_row[c];
        const int q = by_keys ? right : left, k = by_keys ? left : right;
        known += q >= 0 && (k >= 0 || !backward());
        if (q >= 0 && (!by_keys || head_of_query(q) == key_head_of(k)) && sees(q, key_of(k))) return true;
    }
    return !known;
}

// The first that was seen of each kind, in its case, of walks over keys and over queries.
enum { MISSING, TWICE, VAIN, SEEN };
static fit seen_walks[SEEN][2];

static void see_pair(int kind, const record *r, bool keys, int q, int k)
{
    static const char *const does[] = {"never meets", "counts more than once"};
    fit *f = &seen_walks[kind][keys];
    if (e.wrong && !*f->says)
        fit_says(f, "query %d of head %d %s key %d, which it sees; the tiles of the walk of that %s begin at%s",
                 query_of(q), head_of(q), does[kind], k, keys ? "key" : "query", walk_of(r, keys, q, k));
}

void look_at_walks(const record *r, bool keys)
{
    const int rows = all_rows(), Nk = e.s->kv_len;
    const bool listed = e.problem->signature == WB_BLOCK_MASK;
    unsigned char *met = allocate((size_t)rows * (size_t)Nk, 1), *given = allocate((size_t)rows * (size_t)Nk, 1);
    int walks = 0;
    if (!e.table && !listed && !backward()) look_at_rows(r);  // else a row may have no tile to meet
    read_blocks(r, keys);
    for (int k = 0; k < block_count && !e.table && !listed; k++)
        if (blocks[k].several) (keys ? add_bounds_of_keys : add_bounds)(&blocks[k]);
    EACH_WALK (r, n) {
        walks += step_count && by_keys == keys;
        if (keys && by_keys) look_at_order();
        for (int t = 0; t < step_count && by_keys == keys; t++) {
            const product *S = steps[t].S, *left = steps[t].dS ? steps[t].dS : steps[t].P;
            EACH_PAIR (i, S->rows, c, S->cols) {
                int q, k;
                name_pair(S, i, c, &q, &k);
                const int j = key_of(k);
                if (q < 0 || j < 0 || j >= Nk || head_of_query(q) != key_head_of(k)) continue;
                const size_t at = (size_t)q * (size_t)Nk + (size_t)j;
                met[at]++, given[at] += left && left->a[i * left->depth + c] != 0;
            }
            fit *vain = &seen_walks[VAIN][keys];
            if (*vain->says || e.table || is_seen(r, n, S)) continue;
            fit_says(vain, "the block of %s %d goes through the tile of %s from %d on, which has nothing that it needs",
                     keys ? "key" : "query", keys ? key_of(S->a_row[0]) : query_of(S->a_row[0]),
                     keys ? "queries" : "keys", steps[t].first);
        }
    }
    EACH_PAIR (q, rows, k, Nk) {
        const size_t at = (size_t)q * (size_t)Nk + (size_t)k;
        if (!sees(q, k) || (!walks && backward())) continue;
        if (met[at] == 0 && !listed) see_pair(MISSING, r, keys, q, k);
        if (given[at] > 1) see_pair(TWICE, r, keys, q, k);
    }
    free(met), free(given);
}

void conclude_walks(bool keys)
{
    if (fit_form(&fit_group) && keys)
        fit_conclude(&fit_group, BY_HEADS, "group|next head|queries|parts", NULL, ": it goes through the queries ");
    static const int ranks[SEEN] = {BY_WALK, BY_WALK, BY_WASTE};
    static const char *const ids[2][SEEN] = {{"keys_missing", "keys_twice", "tile_in_vain"},
                                             {"pairs_missing", "pairs_twice", "tile_in_vain"}};
    static const char *const bounds[] = {"; the walks begin ", "; the walks end ", "; "};
    const form *const forms[] = {keys ? NULL : fit_form(&fit_begin), fit_form(&fit_end[keys]),
                                 keys ? NULL : fit_form(&fit_sinks)};
    char text[500] = "";
    const char *id = NULL;
    for (int which = 0; which < COUNT(forms); which++) {
        if (!forms[which]) continue;
        id = forms[which]->says;
        APPEND(text, "%s%s", bounds[which], forms[which]->says);
    }
    const char *where = "", *gaps = "bounds|bound|first tile|sink tiles|share|lists|first key|skip|fetch|overlap";
    if (backward()) where = keys ? "in the kernel of dK and dV " : "in the kernel of dQ ";
    if (backward()) gaps = keys ? "queries|parts|group|next head" : "keys";
    for (int kind = 0; kind < SEEN; kind++) {
        if (!*seen_walks[kind][keys].says) continue;
        memcpy(e.text, seen_walks[kind][keys].shown, sizeof e.text);
        find(ranks[kind], id ? id : ids[backward()][kind], gaps, "%s%s%s", where, seen_walks[kind][keys].says, text);
    }
}
