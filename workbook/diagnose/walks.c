// walks.c - which tiles of keys each block of a forward meets, against those that its queries see: where its walk begins and where it ends.
#include "forward.h"

#include <stdio.h>

enum { BLOCKS = 1024 };

// A block of one head: its queries, and the tiles of each width that its warps met, [begin, end) in keys, beside those that it needs.
typedef struct block {
    int low, high, head, walk;
    int begin, end, sink_end;  // of what was met; begin > end: nothing
} block;

static block blocks[BLOCKS];
static int block_count, rows_of_block, width, sink_width;

static void read_blocks(const record *r)
{
    block_count = 0, rows_of_block = 0, width = e.widest, sink_width = 0;
    EACH_WALK (r, n) {
        if (!step_count || steps[0].S->a_row[0] < 0) continue;
        block *b = NULL;
        const int head = head_of(steps[0].S->a_row[0]);
        for (int k = 0; k < block_count; k++)
            if (r->walks[blocks[k].walk].block == r->walks[n].block && blocks[k].head == head) b = &blocks[k];
        if (!b && block_count == BLOCKS) continue;
        if (!b) {
            b = &blocks[block_count++];
            *b = (block){0, 0, head, n, 1 << 30, 0, 0};
            block_of(r, n, &b->low, &b->high);
            rows_of_block = max_int(rows_of_block, b->high - b->low + 1);
        }
        for (int t = 0; t < step_count; t++) {
            const int from = steps[t].key0, cols = steps[t].S->cols;
            if (from == NO_ROW) continue;
            if (e.problem->sinks && cols < width)
                b->sink_end = max_int(b->sink_end, from + cols), sink_width = cols;
            else
                b->begin = min_int(b->begin, from), b->end = max_int(b->end, from + cols);
        }
    }
    for (int k = 0; k < block_count; k++) {  // the last block of a head may have fewer queries
        const block *b = &blocks[k];
        for (int other = 0; other < block_count; other++)
            if (blocks[other].head == b->head && blocks[other].low > b->low &&
                rows_of_block > blocks[other].low - b->low)
                rows_of_block = blocks[other].low - b->low;
    }
}

// The tiles of the walk that has query `row` on its left, for people.
static const char *walk_of(const record *r, int row)
{
    static char text[400];
    size_t at = 0;
    *text = 0;
    for (int n = 0; n < r->walk_count; n++) {
        const walk *w = &r->walks[n];
        bool has = false;
        for (int i = 0; w->first && i < w->first->rows; i++) has |= w->first->a_row[i] == row;
        if (!has) continue;
        int low, high;
        block_of(r, n, &low, &high);
        read_steps(w);
        at += (size_t)snprintf(text + at, sizeof text - at,
                               at ? "; another goes on with"
                                  : "; its block has queries %d to %d, its warp met tiles of keys that begin at",
                               low, high);
        for (int t = 0; t < step_count && t <= 13 && at + 40 < sizeof text; t++)
            at += (size_t)(t > 12 ? snprintf(text + at, sizeof text - at, " ...")
                                  : snprintf(text + at, sizeof text - at, steps[t].key0 != NO_ROW ? " %d" : " (none)",
                                             steps[t].key0));
        if (at + 80 >= sizeof text || !e.table) return text;
    }
    return *text ? text : "; its block meets no tile of keys at all";
}

static int up(int x, int unit) { return (x + unit - 1) / unit * unit; }
static int down(int x, int unit) { return max_int(0, x) / unit * unit; }

// clang-format off
static const form end_forms[] = {
    {"", ""}, {"end_one_tile_early", "one tile too early, in each block"},
    {"end_before_the_diagonal", "before the tile of the block's first query"},
    {"end_of_first_query", "with the tile of the block's first query: its other queries see more"},
    {"end_rounded_down", "at the last whole tile: the one that is seen in part is left out"},
    {"end_one_tile_late", "one tile too late, in each block"}, {"end_of_all_keys", "with the last key of all, whatever the block sees"},
    {"whole_tiles_alone", "with the last whole tile of all keys"}, {"end_one_key_short", "one key short"},
    {"one_tile_alone", "after one tile"}};
static const form begin_forms[] = {
    {"", ""}, {"begins_one_tile_late", "one tile too late, in each block"},
    {"begin_of_last_query", "where the window of the block's last query begins: its first query sees earlier keys"},
    {"begins_at_0", "at key 0, though a window hides the first tiles"},
    {"begin_rounded_up", "at the first tile that lies in the window whole: the one that is seen in part is left out"},
    {"begins_one_tile_early", "one tile too early, in each block"},
    {"begins_at_the_block", "at the block's first query: no key before it is met"},
    {"begin_of_keys", "at a tile whose number is that of a key: it has to be divided by the keys in a tile"}};
static const form sink_forms[] = {
    {"", ""}, {"no_sink_tiles", "no tile of sinks is met"},
    {"sinks_rounded_down", "whole tiles of sinks alone are met: the last is left out"},
    {"sinks_twice", "all sinks are met there, those too that lie in the tiles of the window"},
    {"one_sink_tile", "one tile of sinks is met, whatever their number"}, {"sink_tile_more", "one tile of sinks too many is met"},
    {"sinks_to_the_block", "sinks are met there up to the block's first query"},
    {"sinks_by_key_tiles", "sinks are counted in tiles of keys, which are wider"}, {"sink_tile_short", "one tile of sinks too few is met"}};
// clang-format on

static fit fit_end = {FIT(end_forms)}, fit_begin = {FIT(begin_forms)}, fit_sinks = {FIT(sink_forms)};

// Where the walks of all blocks of this case begin and end.
static void add_bounds(void)
{
    const int Nk = e.s->kv_len, B = width, U = e.problem->on_host ? 1 : B, S = sink_width ? sink_width : 16;
    const bool causal = e.problem->mask == WB_CAUSAL || e.s->causal;
    for (int k = 0; k < block_count && !e.table && e.problem->signature == WB_FORWARD; k++) {
        const block *b = &blocks[k];
        const int last = causal ? min_int(Nk, b->high + 1) : Nk, right_end = up(last, U);
        const int first = e.problem->window ? max_int(0, b->low - e.s->window + 1) : 0, right = down(first, B);
        const int late = max_int(0, b->low + rows_of_block - e.s->window), n = e.problem->sinks ? e.s->sinks : 0,
                  most = min_int(n, right), sink_end = up(most, S);
        VALUES(ends, end_forms, right_end, right_end - B, down(b->low, B), up(b->low + 1, U), down(last, B),
               right_end + B, up(Nk, U), down(Nk, B), up(last - 1, U), right + B);
        VALUES(begins, begin_forms, right, right + B, down(late, B), 0, up(first, B), right - B, down(b->low, B),
               (double)first * B);
        VALUES(sinks, sink_forms, sink_end, 0, down(most, S), up(n, S), most ? S : 0, sink_end + S,
               up(min_int(n, b->low), S), (double)((most + B - 1) / B) * S, sink_end - S);
        fit_add(&fit_end, b->end, ends, 0);
        if (e.problem->window && b->end > 0) fit_add(&fit_begin, b->begin, begins, 0);
        if (e.problem->sinks) fit_add(&fit_sinks, b->sink_end, sinks, 0);
    }
}

// Rows of Q that no block takes, or more than one.
static bool look_at_rows(const record *r)
{
    const int rows = all_rows();
    int *taken = allocate((size_t)rows, sizeof *taken);
    int left = 0, twice = 0, first = -1, second = -1;
    for (int n = 0; n < r->walk_count; n++)
        for (int i = 0; r->walks[n].first && i < r->walks[n].first->rows; i++)
            if (r->walks[n].first->a_row[i] >= 0) taken[r->walks[n].first->a_row[i]]++;
    for (int row = 0; row < rows; row++) {
        bool any = false;
        for (int j = 0; j < e.s->kv_len && !any && !taken[row]; j++) any = sees(row, j);
        if (!taken[row] && any && left++ == 0) first = row;
        if (taken[row] > 1 && twice++ == 0) second = row;
    }
    free(taken);
    if (!left && !twice) return true;
    const char *gaps = "order|fetch|bounds|lists|share";
    if (left)
        find(BY_HEADS, "queries_left_out", gaps,
             "no block takes query %d of head %d (of %d queries, over all heads, %d are left out%s)", query_of(first),
             head_of(first), rows, left, twice ? ", and others are taken twice" : "");
    else
        find(BY_WASTE, "queries_twice", gaps, "query %d of head %d is taken by two blocks", query_of(second),
             head_of(second));
    return !left;
}

// The first that was seen of each kind, in its case.
enum { MISSING, TWICE, VAIN, SEEN };
static fit seen_walks[SEEN];

void look_at_walk(const record *r)
{
    const int rows = all_rows(), Nk = e.s->kv_len;
    unsigned char *met = allocate((size_t)rows * (size_t)Nk, 1), *given = allocate((size_t)rows * (size_t)Nk, 1);
    if (!e.table && e.problem->signature != WB_BLOCK_MASK) look_at_rows(r);  // else a row may have no tile to meet
    read_blocks(r);
    add_bounds();
    int no_product = -1;
    EACH_WALK (r, n) {
        for (int t = 0; t < step_count; t++) {
            const product *S = steps[t].S, *PV = steps[t].PV;
            if (!PV && S->a_row[0] >= 0 && steps[t].key0 != NO_ROW) no_product = S->a_row[0];
            EACH_PAIR (i, S->rows, c, S->cols) {
                const int j = key_of(S->b_row[c]);
                if (S->a_row[i] < 0 || j < 0 || j >= Nk) continue;
                const size_t at = (size_t)S->a_row[i] * (size_t)Nk + (size_t)j;
                met[at]++;
                if (PV) given[at] += PV->a[i * PV->depth + c] != 0;
            }
            bool seen = S->a_row[0] < 0 || e.table;
            for (int m = 0; m < r->walk_count && !seen; m++) {
                const product *of = r->walks[m].first;
                if (!of || r->walks[m].block != r->walks[n].block) continue;
                EACH_PAIR (i, of->rows, c, seen || head_of(of->a_row[i]) != head_of(S->a_row[0]) ? 0 : S->cols)
                    seen |= sees(of->a_row[i], key_of(S->b_row[c]));
            }
            if (!seen && !*seen_walks[VAIN].says) {
                const int key0 = steps[t].key0;
                fit_says(&seen_walks[VAIN],
                         "the block of query %d goes through the tile of keys from %d on, of which none of its queries "
                         "sees one%s",
                         query_of(S->a_row[0]), key0, walk_of(r, S->a_row[0]));
                read_steps(&r->walks[n]);
            }
        }
    }
    for (int row = 0; row < rows; row++) {
        int missing = 0, twice = 0, from = 0, to = 0, twice_from = 0, twice_to = 0;
        for (int j = 0; j < Nk; j++) {
            const size_t at = (size_t)row * (size_t)Nk + (size_t)j;
            if (!sees(row, j)) continue;
            if (met[at] == 0) from = missing++ ? from : j, to = j;
            if (given[at] > 1) twice_from = twice++ ? twice_from : j, twice_to = j;
        }
        if (missing && e.problem->signature != WB_BLOCK_MASK && !*seen_walks[MISSING].says)
            fit_says(&seen_walks[MISSING], "query %d never meets keys %d to %d, which it sees%s", query_of(row), from,
                     to, walk_of(r, row));
        if (twice && !*seen_walks[TWICE].says)
            fit_says(&seen_walks[TWICE], "query %d counts keys %d to %d more than once, from several tiles%s",
                     query_of(row), twice_from, twice_to, walk_of(r, row));
    }
    free(met), free(given);
    if (no_product >= 0)
        find(BY_WALK, "product_left_out", "overlap|skip",
             "of query %d a tile has scores, but no product of its weights with V follows", query_of(no_product));
}

void conclude_walks(void)
{
    static const int ranks[SEEN] = {BY_WALK, BY_WALK, BY_WASTE};
    static const char *const ids[SEEN] = {"keys_missing", "keys_twice", "tile_in_vain"};
    static const char *const bounds[] = {"; the walks end ", "; the walks begin ", "; "};
    const fit *const fits[] = {&fit_end, &fit_begin, &fit_sinks};
    char text[500] = "";
    const char *id = NULL;
    for (int which = 0; which < 3; which++) {
        const form *f = fit_form(fits[which]);
        if (f) id = f->id, snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", bounds[which], f->says);
    }
    for (int kind = 0; kind < SEEN; kind++) {
        if (!*seen_walks[kind].says) continue;
        snprintf(e.text, sizeof e.text, "%s", seen_walks[kind].shown);
        find(ranks[kind], id ? id : ids[kind],
             "bounds|bound|first tile|sink tiles|share|lists|first key|skip|fetch|overlap", "%s%s",
             seen_walks[kind].says, text);
    }
}
