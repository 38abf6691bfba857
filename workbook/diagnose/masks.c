// masks.c - which rule a mask follows: the pairs that it hides, over all its tiles, against a list of rules.
//
// A rule is put together: hidden if the key comes after the query (or a variant of that), or lies before its window (or a variant) and is no
// sink (or a variant). That rule is named which differs in the fewest parts and hides what was hidden, to the pair. A rule that is right may
// run in the wrong tiles: those in which nothing is hidden say where.
#include "evidence.h"

#include <stdio.h>

// A pair as a kernel may count it: i, j in their head; r, c in the warp's tile; R: the query in its block.
typedef struct pair {
    int i, j, r, c, R;
    const pairs *t;
} pair;

// A tile that was kept: with it what should be hidden, and the numbers of its case.
typedef struct kept_tile {
    pairs at;
    bool *hide, needs, bare, wrong, whole,
        ran;  // of the whole tile: something is to be hidden; though nothing is; something is wrong; all is to be hidden; something is hidden, or to be
    int W, sinks, N, wide, D, number;
} kept_tile;

static struct {
    kept_tile *tiles;
    int count, room;
    bool wrong;
} masks[MASKS];
static char cases[64][WB_CASE_TEXT];
static int case_count;

static int W, sinks, N, wide, D;  // of the tile at hand; keys in the widest tile of its case

enum { TAILS = 9, CAUSALS = 27, WINDOWS = 26, SINKINGS = 12, SHAPES = 8 };
// clang-format off
// Of a mask that hides what does not exist, and nothing else.
static const form tail_forms[TAILS] = {
    {"", "j >= Nk"}, {"tail_by_Nk", "c >= Nk, with c the key's number in its tile: it has to be compared with the keys that are left there"},
    {"tail_by_row", "r >= the keys that are left, with r the query's number in its tile, where the key's is meant"},
    {"tail_off_by_one", "j > Nk: the first key that does not exist is seen"}, {"tail_off_by_one", "j >= Nk - 1: the last key is hidden"},
    {"tail_reversed", "j < Nk"}, {"tail_complement", "c >= BC less the keys that are left, with c the key's number in its tile"},
    {"tail_by_query", "i >= Nk, with i the query, where the key is meant"}, {"tail_twice", "j >= the keys that are left in the tile"}};
static bool tail(int rel, const pair *p)
{
    const int left = N - p->t->key0;
    switch (rel) {
    case 1: return p->c >= N; case 2: return p->r >= left; case 3: return p->j > N; case 4: return p->j >= N - 1;
    case 5: return p->j < N; case 6: return p->c >= wide - left; case 7: return p->i >= N; case 8: return p->j >= left;
    default: return p->j >= N;
    }
}

static const form causal_forms[CAUSALS] = {
    {"", "j > i"}, {"no_causal", ""}, {"self_hidden", "j >= i"}, {"one_future_key", "j > i + 1"}, {"causal_reversed", "j < i"},
    {"causal_reversed_equal", "j <= i"}, {"causal_local", "c > r, both counted in their tile"},
    {"causal_key_local", "c > i, with c the key's number in its tile"},
    {"causal_query_local", "j > r, with r the query's number in its warp's tile"},
    {"causal_query_in_block", "j > R, with R the query's number in its block"},
    {"causal_without_warp", "j > i less the warp's place in its block"},
    {"causal_of_first_row", "j comes after the first query of the tile"},
    {"causal_of_last_row", "j comes after the last query of the tile"},
    {"causal_exchanged", "j > i with rows and columns of the tile exchanged"},
    {"causal_of_block", "j comes after the last query of the block"}, {"causal_of_first_key", "the tile's first key comes after i"},
    {"causal_local_R", "c > R, with c counted in its tile, R in its block"}, {"causal_self_local", "c >= r, both counted in their tile"},
    {"two_future_keys", "j > i + 2"}, {"missing_keys_alone", "there is no key j: only keys that do not exist are hidden"},
    {"keys_from_the_diagonal", "j > i, with j counted from the block's first tile on the diagonal"},
    {"keys_from_the_first_tile", "j > i, with j counted from the first tile that the block meets"},
    {"tile_for_key", "j > i, with the tile's number in the place of its first key's"},
    {"origins_exchanged", "j > i, with r counted from the tile's first key and c from its first query"},
    {"row_of_cols", "j > i, but where the tile's rows were as long as it has keys: they are as long as a whole tile has"},
    {"row_of_D", "j > i, but where the tile's rows had D elements: they have as many as a whole tile has keys"},
    {"row_of_rows", "j > i, but where a row had as many elements as the tile has rows"}};
// What was hidden if the rows of the tile are taken to be `stride` apart.
static bool by_stride(int stride, const pair *p)
{
    const int at = p->r * wide + p->c, r = at / stride, c = at % stride;
    return r < p->t->queries && c < p->t->keys && p->t->key0 + c > p->t->query[0] + r;
}

static bool causal(int rel, const pair *p)
{
    const int r = p->r, c = p->c, i0 = p->t->query[0], j0 = p->t->key0, last_i = i0 + p->t->queries - 1;
    const int block_i = p->t->block_query, block_j = p->t->block_key;
    const bool sideways = block_j >= 0;
    switch (rel) {
    case 0: return p->j > p->i; case 2: return p->j >= p->i; case 3: return p->j > p->i + 1; case 4: return p->j < p->i;
    case 5: return p->j <= p->i; case 6: return c > r; case 7: return c > p->i; case 8: return p->j > r; case 9: return p->j > p->R;
    case 10: return sideways ? block_j + c > p->i : p->j > block_i + r; case 11: return p->j > i0;
    case 12: return p->j > last_i; case 13: return j0 + r > i0 + c;
    case 14: return p->j > block_i + 127 || (p->j > last_i && p->j >= N); case 15: return j0 > p->i; case 16: return c > p->R;
    case 17: return c >= r; case 18: return p->j > p->i + 2;
    case 19: return p->j >= N; case 20: return p->j - (block_i + 1) / wide * wide > p->i; case 21: return p->t->turn * wide + c > p->i;
    case 22: return j0 / wide + c > p->i; case 23: return i0 + c > j0 + r; case 24: return by_stride(p->t->keys, p);
    case 25: return by_stride(D, p); case 26: return by_stride(p->t->queries, p);
    default: return false;
    }
}

static const form window_forms[WINDOWS] = {
    {"", "j <= i - W"}, {"no_window", ""}, {"window_one_more", "j < i - W"}, {"window_one_less", "j <= i - W + 1"},
    {"window_two_less", "j <= i - W + 2"}, {"window_reversed", "j > i - W"},
    {"window_query_local", "j <= r - W, with r the query's number in its warp's tile"},
    {"window_key_local", "c <= i - W, with c the key's number in its tile"}, {"window_local", "c <= r - W, both counted in their tile"},
    {"window_of_first_row", "j <= the tile's first query - W"}, {"window_of_last_row", "j <= the tile's last query - W"},
    {"window_of_block", "j <= the block's first query - W"}, {"window_exchanged", "j <= i - W with rows and columns of the tile exchanged"},
    {"window_without_warp", "j <= i - W less the warp's place in its block"}, {"window_half", "j <= i - W / 2"},
    {"window_twice", "j <= i - 2 W"}, {"window_reversed_equal", "j >= i - W"}, {"window_plus_sinks", "j <= i - W - sinks"},
    {"window_minus_sinks", "j <= i - W + sinks"}, {"window_half_up", "j <= i - (W + 1) / 2"}, {"window_swapped", "i <= j - W"}, {"window_from_the_end", "j < N - W: the window does not slide"},
    {"window_from_the_start", "j >= W: the window does not slide"},
    {"window_from_the_first_tile", "j <= i - W, with j counted from the first tile that the block meets"},
    {"window_tile_for_key", "j <= i - W, with the tile's number in the place of its first key's"}, {"window_without_query", "j <= W"}};
static bool window(int rel, const pair *p)
{
    const int r = p->r, c = p->c, i0 = p->t->query[0], j0 = p->t->key0, last_i = i0 + p->t->queries - 1;
    const int block_i = p->t->block_query, block_j = p->t->block_key;
    const bool sideways = block_j >= 0;
    switch (rel) {
    case 0: return p->j <= p->i - W; case 2: return p->j < p->i - W; case 3: return p->j <= p->i - W + 1;
    case 4: return p->j <= p->i - W + 2; case 5: return p->j > p->i - W; case 6: return p->j <= r - W; case 7: return c <= p->i - W;
    case 8: return c <= r - W; case 9: return p->j <= i0 - W; case 10: return p->j <= last_i - W;
    case 11: return p->j <= block_i - W; case 12: return j0 + r <= i0 + c - W;
    case 13: return sideways ? block_j + c <= p->i - W : p->j <= block_i + r - W; case 14: return p->j <= p->i - W / 2;
    case 15: return p->j <= p->i - 2 * W; case 16: return p->j >= p->i - W; case 17: return p->j <= p->i - W - sinks;
    case 18: return p->j <= p->i - W + sinks; case 19: return p->j <= p->i - (W + 1) / 2;
    case 20: return p->i <= p->j - W; case 21: return p->j < N - W; case 22: return p->j >= W;
    case 23: return p->t->turn * wide + c <= p->i - W; case 24: return j0 / wide + c <= p->i - W; case 25: return p->j <= W;
    default: return false;
    }
}

// Of what is too old: which of it is hidden.
static const form sink_forms[SINKINGS] = {
    {"", "j >= sinks"}, {"sinks_hidden", ""}, {"one_sink_more", "j > sinks"}, {"one_sink_less", "j >= sinks - 1"},
    {"sinks_reversed", "j < sinks"}, {"sinks_local", "c >= sinks, with c the key's number in its tile"},
    {"sinks_query", "i >= sinks, of the query"}, {"tile_of_sinks_whole", "the tile's first key is no sink"},
    {"sinks_reversed_equal", "j <= sinks"}, {"sinks_query_local", "r >= sinks, with r the query's number in its tile"},
    {"sinks_by_key_tiles", "j >= sinks, with j counted as if all tiles were as wide as those of the window"},
    {"sinks_exchanged", "j >= sinks with rows and columns of the tile exchanged"}};
static bool no_sink(int rel, const pair *p)
{
    switch (rel) {
    case 0: return p->j >= sinks; case 1: return true; case 2: return p->j > sinks; case 3: return p->j >= sinks - 1;
    case 4: return p->j < sinks; case 5: return p->c >= sinks; case 6: return p->i >= sinks; case 7: return p->t->key0 >= sinks;
    case 8: return p->j <= sinks; case 9: return p->r >= sinks; case 11: return p->t->key0 + p->r >= sinks;
    default: return p->t->key0 / 16 * wide + p->c >= sinks;
    }
}

// How the parts are put together.
static const form shapes[SHAPES] = {
    {"", "%s or (%s and %s)"}, {"brackets", "(%s or %s) and %s"}, {"and_for_or", "%s and %s and %s"}, {"or_for_and", "%s or %s or %s"},
    {"inverted", "not (%s or (%s and %s))"}, {"sinks_alone", "%3$s"}, {"future_of_sinks_seen", "(%s and %3$s) or %2$s"},
    {"all_hidden", "ever"}};
static bool hides(int shape, bool after, bool before, bool none)
{
    switch (shape) {
    case 0: return after || (before && none); case 1: return (after || before) && none; case 2: return after && before && none;
    case 3: return after || before || none; case 4: return !(after || (before && none)); case 5: return none;
    case 6: return (after && none) || before;
    default: return true;
    }
}
// clang-format on

typedef struct rule {
    int causal, window, sinks, shape;
} rule;

static pair pair_of(const pairs *t, int a, int b)
{
    return (pair){t->query[a], t->key[b], a, b, t->query[a] - t->block_query, t};
}

static bool counts(const pairs *t, int a, int b) { return t->query[a] >= 0 && t->key[b] >= 0; }

pairs pairs_new(int queries, int keys)
{
    pairs p = {.queries = queries, .keys = keys, .block_key = -1};
    p.query = allocate((size_t)(queries + keys), sizeof *p.query), p.fate = allocate((size_t)(queries * keys), 1);
    p.key = p.query + queries;
    return p;
}

pairs pairs_of(const step *t, int first_row, int last_row)
{
    const product *S = t->S;
    pairs p = by_keys ? pairs_new(S->cols, S->rows) : pairs_new(S->rows, S->cols);
    const int *q = by_keys ? S->b_row : S->a_row, *k = by_keys ? S->a_row : S->b_row;
    p.row0 = q[0], p.key0 = by_keys ? key_of(k[0]) : t->first;
    p.block_query = by_keys ? query_of(q[0]) : first_row, p.block_key = by_keys ? first_row : -1;
    p.last_query = by_keys ? 1 << 30 : last_row, p.turn = (int)(t - steps), p.turns = step_count;
    for (int a = 0; a < p.queries; a++) p.query[a] = q[a] >= 0 && head_of(q[a]) == head_of(q[0]) ? query_of(q[a]) : -1;
    for (int b = 0; b < p.keys; b++) {
        const bool other = k[b] >= 0 && k[0] >= 0 && key_head_of(k[b]) != key_head_of(k[0]);
        const bool none = k[b] < 0 && (e.problem->signature == WB_BACKWARD || p.key0 + b < keys_of(p.row0));
        p.key[b] = other || none || k[b] == NOBODYS_ROW ? -1 : k[b] < 0 ? p.key0 + b : key_of(k[b]);
    }
    return p;
}

void add_to_mask(mask_kind kind, const pairs *tile)
{
    if (masks[kind].count == masks[kind].room) {
        masks[kind].room = 2 * masks[kind].room + 64;
        masks[kind].tiles = realloc(masks[kind].tiles, (size_t)masks[kind].room * sizeof *masks[kind].tiles);
        if (!masks[kind].tiles) exit(2);
    }
    if (!case_count || strcmp(cases[case_count - 1], e.text))
        snprintf(cases[case_count < 63 ? case_count++ : 63], WB_CASE_TEXT, "%s", e.text);
    kept_tile *k = &masks[kind].tiles[masks[kind].count++];
    *k = (kept_tile){.at = *tile,
                     .N = e.s->kv_len,
                     .wide = e.problem->on_host ? max_int(e.widest, e.problem->tile)
                             : e.widest         ? e.widest
                                                : tile->keys,
                     .D = e.s->head_dim,
                     .number = case_count - 1,
                     .bare = true,
                     .whole = true};
    k->W = e.problem->window ? e.s->window : 4 * (e.s->kv_len + e.s->q_len),
    k->sinks = e.problem->sinks ? e.s->sinks : 0;
    k->hide = allocate((size_t)(tile->queries * tile->keys), 1);
    EACH_PAIR (a, tile->queries, b, tile->keys) {
        const int at = a * tile->keys + b, got = tile->fate[at];
        if (!counts(tile, a, b)) continue;
        k->hide[at] = !sees(head_of(tile->row0) * e.s->q_len + tile->query[a], tile->key[b]);
        k->needs |= k->hide[at] && got != UNCLEAR, k->whole &= k->hide[at], k->bare &= got != HIDDEN,
            k->ran |= k->hide[at] || got == HIDDEN, k->wrong |= got == (k->hide[at] ? WEIGHT : HIDDEN);
    }
    k->bare &= k->needs, masks[kind].wrong |= k->wrong;
}

static void take_numbers(const kept_tile *k) { W = k->W, sinks = k->sinks, N = k->N, wide = k->wide, D = k->D; }

// Whether the rule hides what was hidden, in all tiles; bare: but in those that hide nothing and should.
static bool explains(const rule *u, mask_kind kind, bool bare)
{
    bool clear = false;
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        const pairs *t = &k->at;
        take_numbers(k);
        if ((bare && k->bare) || !k->ran) continue;
        EACH_PAIR (a, t->queries, b, t->keys) {
            const int got = t->fate[a * t->keys + b];
            if (!counts(t, a, b) || got == UNCLEAR) continue;
            const pair p = pair_of(t, a, b);
            const bool hidden = kind == MASK_TAIL ? tail(u->causal, &p)
                                                  : hides(u->shape, causal(u->causal, &p), window(u->window, &p),
                                                          no_sink(u->sinks, &p));
            if (hidden != (got == HIDDEN)) return false;
            clear = true;
        }
    }
    return clear;
}

static bool allowed(const rule *u, mask_kind kind)
{
    if (!e.problem->on_host && u->causal >= 24) return false;  // a tile in registers has no rows in memory
    const bool has_window = e.problem->window, has_sinks = e.problem->sinks;
    if (kind == MASK_TAIL) return u->causal < TAILS && !u->window && !u->sinks && !u->shape;
    if (!has_window && (u->window || u->sinks || (u->shape && u->shape != 4 && u->shape != 7))) return false;
    if (!has_sinks && (u->sinks || u->window == 17 || u->window == 18 || u->shape == 1 || u->shape == 3 ||
                       u->shape == 5 || u->shape == 6))
        return false;
    if (u->shape == 7) return !u->causal && !u->window && !u->sinks;
    if (u->shape == 5) return !u->causal && !u->window;
    return true;
}

// One place or number that is counted in another way in both parts is one deviation.
static int deviates(const rule *u)
{
    static const int alike[][2] = {{4, 20}, {6, 8},   {7, 7},   {8, 6},   {10, 13},
                                   {11, 9}, {12, 10}, {13, 12}, {21, 23}, {22, 24}};
    int count = !!u->causal + !!u->window + !!u->sinks + !!u->shape;
    for (size_t n = 0; n < sizeof alike / sizeof *alike; n++)
        count -= u->causal == alike[n][0] && u->window == alike[n][1];
    return count - (u->causal == 13 && u->sinks == 11);
}

static void describe(const rule *u, mask_kind kind, char *text, size_t size)
{
    if (kind == MASK_TAIL) {
        snprintf(text, size, "%s", tail_forms[u->causal].says);
        return;
    }
    const char *C = causal_forms[u->causal].says, *V = window_forms[u->window].says, *S = sink_forms[u->sinks].says;
    if (!e.problem->window) V = "";
    if (!e.problem->sinks) S = "";
    char old[160];
    const bool both = *V && *S && u->shape != 1;
    const char *alone = u->window ? "" : S;
    snprintf(old, sizeof old, both ? "(%s and %s)" : "%s%s", *V ? V : alone, both ? S : "");
    if (u->shape == 0 || u->shape == 4)
        snprintf(text, size, "%s%s%s%s%s", u->shape ? "not (" : "", C, *C && *old ? " or " : "",
                 *C || *old ? old : "never", u->shape ? ")" : "");
    else if (u->shape == 2 && !*S)
        snprintf(text, size, "%s and %s", C, V);
    else
        snprintf(text, size, shapes[u->shape].says, *C ? C : "never", *V ? V : "never", *S ? S : "always");
}

// The rules with the fewest deviations that explain what was seen, the first two; how many there are.
static int search(mask_kind kind, bool bare, rule found[2])
{
    for (int most = 0, some = 0; most <= 2 && !some; most++) {
        rule u;
        for (u.shape = 0; u.shape < SHAPES; u.shape++)
            for (u.causal = 0; u.causal < CAUSALS; u.causal++)
                for (u.window = 0; u.window < WINDOWS; u.window++)
                    for (u.sinks = 0; u.sinks < SINKINGS; u.sinks++)
                        if (deviates(&u) == most && allowed(&u, kind) && explains(&u, kind, bare) && some++ < 2)
                            found[some - 1] = u;
        // A part that is missing is likelier than one that is there and hides nothing.
        if (some && (found[0].causal == 1 || found[0].window == 1 || found[0].sinks == 1)) return 1;
        if (some) return some;
    }
    return 0;
}

// In which tiles a mask runs, of those that need it. The right condition: in all of them.
enum { PLACES = 25 };
// clang-format off
static const form places[PLACES] = {
    {"", ""}, {"runs_nowhere", "nowhere"},
    {"runs_behind_last_query", "only where a key comes after the tile's last query: an earlier one may have to be hidden from its first"},
    {"runs_from_first_key", "only where the tile's first key comes after its first query: its last key may, too"},
    {"runs_after_the_queries", "only where the tile's first key comes after its last query: it hides whole tiles alone"},
    {"runs_after_the_block", "only where a key comes after the block's last query: the block's first query sees less"},
    {"runs_on_the_diagonal", "only where a key comes after a query: the edge of the window is not asked for"},
    {"runs_at_the_window", "only where a key is too old for a query: the diagonal is not asked for"},
    {"runs_at_both_edges", "only where keys come after a query and others are too old, both at once"},
    {"window_by_first_query", "at the window's edge only where the tile's first key is too old for its first query: the last query's window begins later"},
    {"window_by_last_key", "at the window's edge only where the tile's last key is too old for its last query: it is the first key that is too old first"},
    {"window_if_all_are_old", "at the window's edge only where all keys are too old for all queries"},
    {"runs_in_first_tile", "only in the first tile that is met"}, {"runs_but_in_first_tile", "in all tiles but the first that is met"},
    {"runs_in_last_tile", "only in the last tile that is met"}, {"runs_but_in_last_tile", "in all tiles but the last that is met"},
    {"runs_if_all_hidden", "only where all pairs of the tile are hidden"}, {"runs_unless_all_hidden", "in no tile of which all pairs are hidden"},
    {"runs_at_the_end", "only where keys do not exist"}, {"runs_but_at_the_end", "in no tile that has keys which do not exist"},
    {"runs_behind_sinks", "only where the tile's first key is no sink"}, {"runs_before_key_0", "in all tiles but the first of the keys"},
    {"runs_from_window", "only where a key is at least W before the block's first query"},
    {"runs_in_blocks_first_tile", "only in the first tile that the block meets"},
    {"runs_behind_first_query", "only in tiles that begin behind the block's first query"}};
static bool runs(int rel, const kept_tile *k)
{
    const pairs *t = &k->at;
    const int q0 = t->query[0], q1 = q0 + t->queries - 1, k0 = t->key0, k1 = k0 + t->keys - 1;
    const bool after = k1 > q0, old = k0 <= q1 - k->W;
    switch (rel) {
    case 1: return false; case 2: return k1 > q1 || old; case 3: return k0 > q0 || old; case 4: return k0 > q1 || old;
    case 5: return k1 > t->last_query || old; case 6: return after; case 7: return old; case 8: return after && old;
    case 9: return after || k0 <= q0 - k->W; case 10: return after || k1 <= q1 - k->W; case 11: return after || k1 <= q0 - k->W;
    case 12: return t->turn == 0; case 13: return t->turn > 0; case 14: return t->turn == t->turns - 1;
    case 15: return t->turn < t->turns - 1; case 16: return k->whole; case 17: return !k->whole; case 18: return k1 >= k->N;
    case 19: return k1 < k->N; case 20: return k0 >= k->sinks; case 21: return k0 > 0; case 22: return k0 <= t->block_query - k->W;
    case 23: return k0 == (t->block_query - k->W + 1 > 0 ? (t->block_query - k->W + 1) / t->keys * t->keys : 0);
    case 24: return k0 > t->block_query || old;
    default: return true;
    }
}
// clang-format on

// The condition that explains in which of the tiles that need it nothing is hidden: 0 if none does.
static int place_of(mask_kind kind)
{
    for (int rel = 1; rel < PLACES; rel++) {
        bool fits = true;
        for (int n = 0; n < masks[kind].count && fits; n++) {
            const kept_tile *k = &masks[kind].tiles[n];
            fits = !k->needs || runs(rel, k) != k->bare;
        }
        if (fits) return rel;
    }
    return 0;
}

static void conclude(mask_kind kind)
{
    // clang-format off
    static const struct { const char *gaps, *where; } of[MASKS] = {
        {"mask of the diagonal|bounds|mask|tail|overlap", "in tiles on the diagonal "}, {"mask of the window", "in tiles left of the diagonal "},
        {"mask of the sinks|sink tiles", "in tiles of sinks "}, {"tail|mask|packed rows|overlap", ""},
        {"mask of dK and dV|recompute", "in the kernel of dK and dV "}, {"mask of dQ|recompute for dQ", "in the kernel of dQ "}};
    // clang-format on
    const char *what = kind <= MASK_WINDOW && !e.problem->window ? "" : of[kind].where;
    int shown = 0, lost = 0, to_hide = 0, ghosts = 0, needed = 0, bares = 0, wrongs = 0, number = -1;
    int sq = 0, sk = 0, lq = 0, lk = 0, all_needed = 0, all_bare = 0;
    bool only_bare = true;
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        only_bare &= !k->wrong || k->bare, all_needed += k->needs, all_bare += k->bare;
        if (k->wrong && number < 0) number = k->number;
    }
    for (int n = 0; n < masks[kind].count; n++) {  // the first case with a wrong tile is shown
        const kept_tile *k = &masks[kind].tiles[n];
        const pairs *t = &k->at;
        if (k->number != number) continue;
        needed += k->needs, bares += k->bare, wrongs += k->wrong, N = k->N, W = k->W, sinks = k->sinks;
        EACH_PAIR (a, t->queries, b, t->keys) {
            const int at = a * t->keys + b;
            if (!counts(t, a, b)) continue;
            to_hide += k->hide[at];
            if (k->hide[at] && t->fate[at] == WEIGHT) {
                if (shown++ == 0) sq = t->query[a], sk = t->key[b];
                ghosts += t->key[b] >= k->N;
            }
            if (!k->hide[at] && t->fate[at] == HIDDEN && lost++ == 0) lq = t->query[a], lk = t->key[b];
        }
    }
    snprintf(e.text, sizeof e.text, "%s", cases[number]);
    char seen[300] = "", says[500], right[160], numbers[80] = "";
    int at = 0;
    if (shown)
        at = snprintf(seen, sizeof seen, "of the %d pairs to be hidden %d get a weight, as query %d and key %d",
                      to_hide, shown, sq, sk);
    if (lost)
        snprintf(seen + at, sizeof seen - (size_t)at,
                 "%s%d pairs that should be seen are hidden, as query %d and key %d", at ? ", and " : "", lost, lq, lk);
    if (e.problem->sinks)
        snprintf(numbers, sizeof numbers, " (W = %d, sinks = %d)", W, sinks);
    else if (e.problem->window)
        snprintf(numbers, sizeof numbers, " (W = %d)", W);
    rule found[2];
    const rule none = {0, 0, 0, 0};
    describe(&none, kind, right, sizeof right);
    if (kind == MASK_SINKS) snprintf(right, sizeof right, "j >= sinks");
    if (all_bare == all_needed && only_bare) {
        const bool tails = ghosts == shown;
        const char *why =
            tails ? "" : "; its condition never holds here, in front of it or in it: two that exclude each other?";
        find(BY_MASK, tails ? "tail_seen" : "nothing_hidden", of[kind].gaps,
             "%s%s, in none of the %d tiles that need it: %s%s%s", what,
             tails ? "no key is hidden that does not exist" : "the mask hides nothing", needed, seen, numbers, why);
        return;
    }
    int some = search(kind, false, found);
    const bool among = !some && all_bare && (some = search(kind, true, found)) > 0;
    const int place = all_bare ? place_of(kind) : 0;
    char where[300] = "";
    if (place && (among || only_bare)) snprintf(where, sizeof where, "; it runs %s", places[place].says);
    const bool right_rule = some && !deviates(&found[0]);
    if (right_rule || (only_bare && (!some || among)))
        find(BY_MASK, place ? places[place].id : "", of[kind].gaps,
             "%sthe mask is right where it hides anything, but in %d of the %d tiles that need it it hides nothing%s: "
             "%s%s",
             what, bares, needed, where, seen, numbers);
    else if (some > 0 && some <= 3) {
        describe(&found[0], kind, says, sizeof says);
        const size_t used = strlen(says);
        char other[200];
        describe(&found[some > 1], kind, other, sizeof other);
        if (some > 1) snprintf(says + used, sizeof says - used, " (or, which is the same here, if %s)", other);
        if (only_bare && place) snprintf(where, sizeof where, "; or it is right, but runs %s", places[place].says);
        const rule *u = &found[0];
        const char *id = u->sinks ? sink_forms[u->sinks].id : shapes[u->shape].id;
        if (u->window) id = window_forms[u->window].id;
        if (u->causal) id = kind == MASK_TAIL ? tail_forms[u->causal].id : causal_forms[u->causal].id;
        find(BY_MASK, id, of[kind].gaps, "%s%skey j is hidden from query i if %s, where it should be if %s%s%s; %s",
             what, among ? "where anything is hidden " : "", says, right, numbers, where, seen);
    } else
        find(BY_MASK, "", of[kind].gaps, "%s%s, in %d of %d tiles%s", what, seen, wrongs, needed, numbers);
}

void conclude_masks(void)
{
    for (int kind = 0; kind < MASKS; kind++)
        if (masks[kind].wrong) conclude((mask_kind)kind);
}
