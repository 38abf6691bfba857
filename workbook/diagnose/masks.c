// masks.c - which rule a mask follows: the pairs that it hides, over all its tiles, against a list of rules.
//
// A rule is put together: hidden if the key comes after the query (or a variant of that), or lies before its window (or a variant) and is no
// sink (or a variant). That rule is named which differs in the fewest parts and hides what was hidden, to the pair.
#include "evidence.h"

#include <stdio.h>

// A pair as a kernel may count it: i, j in their head; r, c in the warp's tile; R: the query in its block.
typedef struct pair {
    int i, j, r, c, R, i0, j0, block_i, block_j, last_i;
    bool sideways;
} pair;

// A tile that was kept: with it what should be hidden, and the numbers of its case.
typedef struct kept_tile {
    pairs at;
    bool *hide, needs, bare, wrong,
        ran;  // of the whole tile: something is to be hidden; though nothing is; something is wrong; something is hidden, or to be
    int W, sinks, N, wide, number;
} kept_tile;

static struct {
    kept_tile *tiles;
    int count, room;
    bool wrong;
} masks[MASKS];
static char cases[64][WB_CASE_TEXT];
static int case_count;

static int W, sinks, N, wide;  // of the tile at hand; keys in the widest tile of its case

enum { CAUSALS = 19, WINDOWS = 20, SINKINGS = 11, SHAPES = 8 };
// clang-format off
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
    {"two_future_keys", "j > i + 2"}};
static bool causal(int rel, const pair *p)
{
    const int r = p->r, c = p->c;
    switch (rel) {
    case 0: return p->j > p->i; case 2: return p->j >= p->i; case 3: return p->j > p->i + 1; case 4: return p->j < p->i;
    case 5: return p->j <= p->i; case 6: return c > r; case 7: return c > p->i; case 8: return p->j > r; case 9: return p->j > p->R;
    case 10: return p->sideways ? p->block_j + c > p->i : p->j > p->block_i + r; case 11: return p->j > p->i0;
    case 12: return p->j > p->last_i; case 13: return p->j0 + r > p->i0 + c;
    case 14: return p->j > p->block_i + 127 || (p->j > p->last_i && p->j >= N); case 15: return p->j0 > p->i; case 16: return c > p->R;
    case 17: return c >= r; case 18: return p->j > p->i + 2;
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
    {"window_minus_sinks", "j <= i - W + sinks"}, {"window_half_up", "j <= i - (W + 1) / 2"}};
static bool window(int rel, const pair *p)
{
    const int r = p->r, c = p->c;
    switch (rel) {
    case 0: return p->j <= p->i - W; case 2: return p->j < p->i - W; case 3: return p->j <= p->i - W + 1;
    case 4: return p->j <= p->i - W + 2; case 5: return p->j > p->i - W; case 6: return p->j <= r - W; case 7: return c <= p->i - W;
    case 8: return c <= r - W; case 9: return p->j <= p->i0 - W; case 10: return p->j <= p->last_i - W;
    case 11: return p->j <= p->block_i - W; case 12: return p->j0 + r <= p->i0 + c - W;
    case 13: return p->sideways ? p->block_j + c <= p->i - W : p->j <= p->block_i + r - W; case 14: return p->j <= p->i - W / 2;
    case 15: return p->j <= p->i - 2 * W; case 16: return p->j >= p->i - W; case 17: return p->j <= p->i - W - sinks;
    case 18: return p->j <= p->i - W + sinks; case 19: return p->j <= p->i - (W + 1) / 2;
    default: return false;
    }
}

// Of what is too old: which of it is hidden.
static const form sink_forms[SINKINGS] = {
    {"", "j >= sinks"}, {"sinks_hidden", ""}, {"one_sink_more", "j > sinks"}, {"one_sink_less", "j >= sinks - 1"},
    {"sinks_reversed", "j < sinks"}, {"sinks_local", "c >= sinks, with c the key's number in its tile"},
    {"sinks_query", "i >= sinks, of the query"}, {"tile_of_sinks_whole", "the tile's first key is no sink"},
    {"sinks_reversed_equal", "j <= sinks"}, {"sinks_query_local", "r >= sinks, with r the query's number in its tile"},
    {"sinks_by_key_tiles", "j >= sinks, with j counted as if all tiles were as wide as those of the window"}};
static bool no_sink(int rel, const pair *p)
{
    switch (rel) {
    case 0: return p->j >= sinks; case 1: return true; case 2: return p->j > sinks; case 3: return p->j >= sinks - 1;
    case 4: return p->j < sinks; case 5: return p->c >= sinks; case 6: return p->i >= sinks; case 7: return p->j0 >= sinks;
    case 8: return p->j <= sinks; case 9: return p->r >= sinks;
    default: return p->j0 / 16 * wide + p->c >= sinks;
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
    pair p = {.i = t->query[a], .j = t->key[b], .r = a, .c = b, .i0 = t->query[0], .j0 = t->key0};
    p.block_i = t->block_query, p.block_j = t->block_key, p.sideways = t->block_key >= 0;
    p.last_i = p.i0 + t->queries - 1, p.R = p.i - p.block_i;
    return p;
}

static bool counts(const pairs *t, int a, int b) { return t->query[a] >= 0 && t->key[b] >= 0; }

pairs pairs_new(int queries, int keys)
{
    pairs p = {.queries = queries, .keys = keys, .block_key = -1};
    p.query = allocate((size_t)(queries + keys), sizeof *p.query), p.fate = allocate((size_t)(queries * keys), 1);
    p.key = p.query + queries;
    return p;
}

pairs pairs_of(const step *t, int first_row)
{
    const product *S = t->S;
    pairs p = by_keys ? pairs_new(S->cols, S->rows) : pairs_new(S->rows, S->cols);
    const int *q = by_keys ? S->b_row : S->a_row, *k = by_keys ? S->a_row : S->b_row;
    p.row0 = q[0], p.key0 = by_keys ? key_of(k[0]) : t->first;
    p.block_query = by_keys ? query_of(q[0]) : first_row, p.block_key = by_keys ? first_row : -1;
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
    *k = (kept_tile){.at = *tile, .N = e.s->kv_len, .wide = e.widest, .number = case_count - 1, .bare = true};
    k->W = e.problem->window ? e.s->window : 4 * (e.s->kv_len + e.s->q_len),
    k->sinks = e.problem->sinks ? e.s->sinks : 0;
    k->hide = allocate((size_t)(tile->queries * tile->keys), 1);
    EACH_PAIR (a, tile->queries, b, tile->keys) {
        const int at = a * tile->keys + b, got = tile->fate[at];
        if (!counts(tile, a, b)) continue;
        k->hide[at] = !sees(head_of(tile->row0) * e.s->q_len + tile->query[a], tile->key[b]);
        k->needs |= k->hide[at], k->bare &= got != HIDDEN, k->ran |= k->hide[at] || got == HIDDEN,
            k->wrong |= got == (k->hide[at] ? WEIGHT : HIDDEN);
    }
    k->bare &= k->needs, masks[kind].wrong |= k->wrong;
}

// Whether the rule hides what was hidden, in all tiles; bare: but in those that hide nothing and should.
static bool explains(const rule *u, mask_kind kind, bool bare)
{
    bool clear = false;
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        const pairs *t = &k->at;
        W = k->W, sinks = k->sinks, N = k->N, wide = k->wide;
        if ((bare && k->bare) || !k->ran) continue;
        EACH_PAIR (a, t->queries, b, t->keys) {
            const int got = t->fate[a * t->keys + b];
            if (!counts(t, a, b) || got == UNCLEAR) continue;
            const pair p = pair_of(t, a, b);
            const bool hidden = hides(u->shape, causal(u->causal, &p), window(u->window, &p), no_sink(u->sinks, &p));
            if (hidden != (got == HIDDEN)) return false;
            clear = true;
        }
    }
    return clear;
}

static bool allowed(const rule *u, mask_kind kind)
{
    const bool has_window = e.problem->window, has_sinks = e.problem->sinks;
    if (kind == MASK_TAIL) return false;
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
    static const int alike[][2] = {{6, 8}, {7, 7}, {8, 6}, {10, 13}, {11, 9}, {12, 10}, {13, 12}};
    int count = !!u->causal + !!u->window + !!u->sinks + !!u->shape;
    for (size_t n = 0; n < sizeof alike / sizeof *alike; n++)
        count -= u->causal == alike[n][0] && u->window == alike[n][1];
    return count;
}

static void describe(const rule *u, char *text, size_t size)
{
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
        if (some) return some;
    }
    return 0;
}

// Tiles in which nothing is hidden: which are they, of those that need it? Says so, or "".
static const char *which_tiles(mask_kind kind)
{
    enum { FLAGS = 6 };
    static const char *const says[FLAGS] = {": those of which the first query sees all keys",
                                            ": those of which the last query sees all keys",
                                            ": those that are hidden whole",
                                            ": those where the window begins, and no key comes after a query",
                                            ": those where a key comes after a query",
                                            ": all but the first tile of keys"};
    bool off[FLAGS] = {false};
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        const pairs *t = &k->at;
        bool first = true, last = true, whole = true, future = false;
        if (!k->needs) continue;
        EACH_PAIR (a, t->queries, b, t->keys) {
            const bool hide = k->hide[a * t->keys + b];
            if (!counts(t, a, b)) continue;
            whole &= hide, future |= t->key[b] > t->query[a];
            first &= !hide || a > 0, last &= !hide || a < t->queries - 1;
        }
        const bool flags[FLAGS] = {first, last, whole, !future, future, t->key0 > 0};
        for (int f = 0; f < FLAGS; f++) off[f] |= flags[f] != k->bare;
    }
    for (int f = 0; f < FLAGS; f++)
        if (!off[f]) return says[f];
    return "";
}

static void conclude(mask_kind kind)
{
    // clang-format off
    static const struct { const char *gaps, *where; } of[MASKS] = {
        {"mask of the diagonal|bounds|mask|tail", "in tiles on the diagonal "}, {"mask of the window", "in tiles left of the diagonal "},
        {"mask of the sinks|sink tiles", "in tiles of sinks "}, {"tail|mask|packed rows", ""},
        {"mask of dK and dV|recompute", "in the kernel of dK and dV "}, {"mask of dQ|recompute for dQ", "in the kernel of dQ "}};
    // clang-format on
    const char *what = kind <= MASK_WINDOW && !e.problem->window ? "" : of[kind].where;
    int shown = 0, lost = 0, to_hide = 0, ghosts = 0, needed = 0, bares = 0, wrongs = 0, number = -1, ghost = -1;
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
                if (t->key[b] >= k->N && ghosts++ == 0) ghost = t->key[b];
            }
            if (!k->hide[at] && t->fate[at] == HIDDEN && lost++ == 0) lq = t->query[a], lk = t->key[b];
        }
    }
    snprintf(e.text, sizeof e.text, "%s", cases[number]);
    char seen[300] = "", says[300], right[160], numbers[80] = "";
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
    describe(&none, right, sizeof right);
    if (kind == MASK_SINKS) snprintf(right, sizeof right, "j >= sinks");
    if (all_bare == all_needed && only_bare && ghosts == shown)
        find(BY_MASK, "tail_seen", of[kind].gaps, "%sno key is hidden that does not exist: there are %d, and %s", what,
             N, seen);
    else if (all_bare == all_needed && only_bare)
        find(BY_MASK, "nothing_hidden", of[kind].gaps,
             "%sthe mask hides nothing, in none of the %d tiles that need it: %s%s", what, needed, seen, numbers);
    else if (kind == MASK_TAIL)
        find(BY_MASK, ghost == N || lk == N - 1 ? "tail_off_by_one" : "", of[kind].gaps, "of %d keys, %s%s", N, seen,
             ghost == N            ? ": the first key that does not exist is seen"
             : lost && lk == N - 1 ? ": the last key is hidden"
                                   : "");
    else {
        int some = search(kind, false, found);
        const bool among = !some && all_bare && (some = search(kind, true, found)) > 0;
        if (some && !deviates(&found[0]))
            find(BY_MASK, "mask_left_out", of[kind].gaps,
                 "%sthe mask is right where it hides anything, but in %d of the %d tiles that need it it hides "
                 "nothing%s: %s%s",
                 what, bares, needed, which_tiles(kind), seen, numbers);
        else if (some == 1 || some == 2) {
            describe(&found[0], says, sizeof says);
            const size_t used = strlen(says);
            char other[200];
            describe(&found[1 % some], other, sizeof other);
            if (some == 2) snprintf(says + used, sizeof says - used, " (or, which is the same here, if %s)", other);
            const rule *u = &found[0];
            const char *id = u->sinks ? sink_forms[u->sinks].id : shapes[u->shape].id;
            if (u->window) id = window_forms[u->window].id;
            if (u->causal) id = causal_forms[u->causal].id;
            find(BY_MASK, id, of[kind].gaps, "%s%skey j is hidden from query i if %s, where it should be if %s%s; %s",
                 what, among ? "where anything is hidden " : "", says, right, numbers, seen);
        } else
            find(BY_MASK, only_bare ? "mask_left_out" : "", of[kind].gaps, "%s%s, in %d of %d tiles%s%s", what, seen,
                 only_bare ? bares : wrongs, needed, only_bare ? ", in which nothing is hidden" : "",
                 only_bare ? which_tiles(kind) : numbers);
    }
}

void conclude_masks(void)
{
    for (int kind = 0; kind < MASKS; kind++)
        if (masks[kind].wrong) conclude((mask_kind)kind);
}
