// masks.c - which rule a mask follows: the pairs that it hides, over all its tiles, against a list of rules.
//
// A rule is put together: hidden if the key comes after the query (or a variant of that), or lies before its window (or
// a variant) and is no sink (or a variant). That rule is named which differs in the fewest parts and hides what was
// hidden, to the pair. A rule that is right may run in the wrong tiles: those in which nothing is hidden say where.
#include "evidence.h"

// A tile that was kept: with it which pairs should be hidden, and the numbers of its case.
typedef struct kept_tile {
    pairs at;
    bool *hide, needs, bare, wrong,
        whole;                         // of the tile: some should be; though none is; some are wrong; all should be
    int W, sinks, N, wide, D, number;  // wide: keys in the widest tile of the case
} kept_tile;

static struct {
    kept_tile *tiles;
    int count, room;
    bool wrong;
} masks[MASKS];
static char cases[64][WB_CASE_TEXT];
static int case_count;

// The parts of which rules are put together, and in which tiles they run: what each form says of the pair, or tile, at
// hand.
enum { AFTER, BEFORE, NO_SINK, PLACE, PARTS };
static struct {
    form forms[MAX_FORMS];
    int count;
} parts[PARTS];

// Keeps the forms; bit n of what comes back: the n-th holds.
static uint32_t holds(int part, const form *forms, int count)
{
    uint32_t bits = 0;
    parts[part].count = copy_forms(parts[part].forms, forms, count);
    for (int n = 0; n < count; n++) bits |= (uint32_t)(forms[n].is != 0) << n;
    return bits;
}

// A pair of a mask: which forms of each part hide it.
typedef struct verdict {
    uint32_t by[PLACE];
    bool hidden, bare;  // bare: its tile is
} verdict;

// What was hidden if the rows of the tile are taken to lie side by side, where they are as far apart as the widest tile
// has keys.
static bool after_by_row(const kept_tile *k, int r, int c)
{
    const pairs *t = &k->at;
    const int at = r * k->wide + c, row = at / t->keys;
    return e.problem->on_host && row < t->queries && t->key0 + at % t->keys > t->query[0] + row;
}

// i, j: of the pair in their head; r, c: in the warp's tile. Forms of AFTER and BEFORE that stand at the same place, up
// to ALIKE, count in the same wrong way: both together are one deviation.
enum { ALIKE = 6 };
static verdict verdict_of(mask_kind kind, const kept_tile *k, int r, int c)
{
    const pairs *t = &k->at;
    const int i = t->query[r], j = t->key[c], j0 = t->key0, N = k->N, W = k->W, sinks = k->sinks;
    const int block_i = t->block_query, left = N - j0,
              warp_i = t->block_key >= 0 ? i : block_i + r;       // sideways it is keys that
    const int warp_j = t->block_key >= 0 ? t->block_key + c : j;  // warps share out
    verdict v = {.hidden = t->fate[r * t->keys + c] == HIDDEN, .bare = k->bare};
    // clang-format off
    const form tails[] = {  // of a mask that hides what does not exist, and nothing else
        {"", "j >= Nk", j >= N},
        {"tail_by_Nk",
            "c >= Nk, with c the key's number in its tile: it has to be compared with the keys that are left there",
            c >= N},
        {"tail_by_row", "r >= the keys that are left, with r the query's number in its tile, where the key's is meant",
            r >= left},
        {"tail_off_by_one", "j > Nk: the first key that does not exist is seen", j > N},
        {"tail_off_by_one", "j >= Nk - 1: the last key is hidden", j >= N - 1}};
    const form after[] = {
        {"", "j > i", j > i}, {"no_causal", "", false},
        {"causal_local", "c > r, both counted in their tile", c > r},
        {"causal_key_local", "c > i, with c the key's number in its tile", c > i},
        {"causal_query_local", "j > r, with r the query's number in its warp's tile", j > r},
        {"causal_without_warp", "j > i less the warp's place in its block", warp_j > warp_i},
        {"causal_reversed", "j < i", j < i}, {"self_hidden", "j >= i", j >= i},
        {"one_future_key", "j > i + 1", j > i + 1},
        {"causal_query_in_block", "j > R, with R the query's number in its block", j > i - block_i},
        {"row_of_cols",
            "j > i, but where the tile's rows were as long as it has keys: they are as long as a whole tile has",
            after_by_row(k, r, c)}};
    const form before[] = {
        {"", "j <= i - W", j <= i - W}, {"no_window", "", false},
        {"window_local", "c <= r - W, both counted in their tile", c <= r - W},
        {"window_key_local", "c <= i - W, with c the key's number in its tile", c <= i - W},
        {"window_query_local", "j <= r - W, with r the query's number in its warp's tile", j <= r - W},
        {"window_without_warp", "j <= i - W less the warp's place in its block", warp_j <= warp_i - W},
        {"window_one_more", "j < i - W", j < i - W}, {"window_one_less", "j <= i - W + 1", j <= i - W + 1},
        {"window_half_up", "j <= i - (W + 1) / 2", j <= i - (W + 1) / 2},
        {"window_plus_sinks", "j <= i - W - sinks", j <= i - W - sinks},
        {"window_minus_sinks", "j <= i - W + sinks", j <= i - W + sinks}};
    const form no_sink[] = {  // of what is too old: which of it is hidden
        {"", "j >= sinks", j >= sinks}, {"sinks_hidden", "", true}, {"one_sink_more", "j > sinks", j > sinks},
        {"one_sink_less", "j >= sinks - 1", j >= sinks - 1}, {"sinks_reversed", "j < sinks", j < sinks},
        {"sinks_local", "c >= sinks, with c the key's number in its tile", c >= sinks}};
    // clang-format on
    v.by[AFTER] = kind == MASK_TAIL ? holds(AFTER, FORMS(tails)) : holds(AFTER, FORMS(after));
    v.by[BEFORE] = holds(BEFORE, FORMS(before)), v.by[NO_SINK] = holds(NO_SINK, FORMS(no_sink));
    return v;
}

// How the parts are put together. Without sinks there is one way.
enum { RIGHT, BRACKETS, OR_FOR_AND, SHAPES };
static form shape_of(int shape, bool after, bool before, bool no_sink)
{
    // clang-format off
    const form shapes[SHAPES] = {
        {"", "%s or (%s and %s)", after || (before && no_sink)},
        {"brackets", "(%s or %s) and %s", (after || before) && no_sink},
        {"or_for_and", "%s or %s or %s", after || before || no_sink}};
    // clang-format on
    return shapes[shape];
}

typedef struct rule {
    int part[PLACE], shape;
} rule;

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
    const int widest = e.problem->on_host ? max_int(e.widest, e.problem->tile) : e.widest;
    kept_tile k = {.at = *tile, .N = e.s->kv_len, .wide = widest ? widest : tile->keys, .number = case_count - 1};
    k.W = e.problem->window ? e.s->window : 4 * (e.s->kv_len + e.s->q_len), k.sinks = e.problem->sinks ? e.s->sinks : 0;
    k.hide = allocate((size_t)(tile->queries * tile->keys), 1), k.bare = k.whole = true;
    bool runs = false;  // something is hidden, or to be
    EACH_PAIR (a, tile->queries, b, tile->keys) {
        const int at = a * tile->keys + b, got = tile->fate[at];
        if (!counts(tile, a, b)) continue;
        const bool hide = k.hide[at] = !sees(head_of(tile->row0) * e.s->q_len + tile->query[a], tile->key[b]);
        k.needs |= hide && got != UNCLEAR, k.whole &= hide, k.bare &= got != HIDDEN, runs |= hide || got == HIDDEN,
            k.wrong |= got == (hide ? WEIGHT : HIDDEN);
    }
    k.bare &= k.needs, masks[kind].wrong |= k.wrong;
    if (runs) masks[kind].tiles[masks[kind].count++] = k;
}

// What is said of all clear pairs of a mask.
static verdict *verdicts;
static int verdict_count;

static void ask_all(mask_kind kind)
{
    size_t room = 0;
    for (int n = 0; n < masks[kind].count; n++)
        room += (size_t)(masks[kind].tiles[n].at.queries * masks[kind].tiles[n].at.keys);
    free(verdicts);
    verdicts = allocate(room, sizeof *verdicts), verdict_count = 0;
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        EACH_PAIR (a, k->at.queries, b, k->at.keys)
            if (counts(&k->at, a, b) && k->at.fate[a * k->at.keys + b] != UNCLEAR)
                verdicts[verdict_count++] = verdict_of(kind, k, a, b);
    }
}

// Whether the rule hides what was hidden, in all tiles; bare: but in those that hide nothing and should.
static bool explains(const rule *u, bool bare)
{
    bool clear = false;
    for (int n = 0; n < verdict_count; n++) {
        const verdict *v = &verdicts[n];
        if (bare && v->bare) continue;
        bool by[PLACE];
        for (int part = 0; part < PLACE; part++) by[part] = v->by[part] >> u->part[part] & 1;
        if ((shape_of(u->shape, by[AFTER], by[BEFORE], by[NO_SINK]).is != 0) != v->hidden) return false;
        clear = true;
    }
    return clear;
}

// One place or number that is counted in another way in both parts is one deviation.
static int deviates(const rule *u)
{
    const int after = u->part[AFTER], before = u->part[BEFORE], no_sink = u->part[NO_SINK];
    return !!after + !!before + !!no_sink + !!u->shape - (after > 1 && after < ALIKE && after == before);
}

static void describe(const rule *u, char *text, size_t size)
{
    const char *C = parts[AFTER].forms[u->part[AFTER]].says, *V = parts[BEFORE].forms[u->part[BEFORE]].says,
               *S = parts[NO_SINK].forms[u->part[NO_SINK]].says;
    if (!e.problem->window) V = "";
    if (!e.problem->sinks) S = "";
    char old[160];
    const bool both = *V && *S && u->shape != BRACKETS;
    const char *alone = u->part[BEFORE] ? "" : S;
    snprintf(old, sizeof old, both ? "(%s and %s)" : "%s%s", *V ? V : alone, both ? S : "");
    if (u->shape == RIGHT)
        snprintf(text, size, "%s%s%s", C, *C && *old ? " or " : "", *C || *old ? old : "never");
    else
        snprintf(text, size, shape_of(u->shape, 0, 0, 0).says, *C ? C : "never", *V ? V : "never", *S ? S : "always");
}

// The rules with the fewest deviations that explain what was seen, the first two; how many there are.
static int search(bool bare, rule found[2])
{
    const bool window = e.problem->window, sinks = e.problem->sinks;
    const int befores = window ? parts[BEFORE].count - (sinks ? 0 : 2) : 1;
    for (int most = 0, some = 0; most <= 2 && !some; most++) {
        for (int shape = 0; shape < (sinks ? SHAPES : 1); shape++)
            for (int after = 0; after < parts[AFTER].count; after++)
                for (int before = 0; before < befores; before++)
                    for (int no_sink = 0; no_sink < (sinks ? parts[NO_SINK].count : 1); no_sink++) {
                        const rule u = {{after, before, no_sink}, shape};
                        if (deviates(&u) == most && explains(&u, bare) && some++ < 2) found[some - 1] = u;
                    }
        // A part that is missing is likelier than one that is there and hides nothing.
        if (some && (found[0].part[AFTER] == 1 || found[0].part[BEFORE] == 1 || found[0].part[NO_SINK] == 1)) return 1;
        if (some) return some;
    }
    return 0;
}

// In which tiles a mask runs, of those that need it: the condition that explains in which nothing is hidden; null: none
// does. The right one is all of them.
static const form *place_of(mask_kind kind)
{
    uint32_t fits = ~1u;
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        const pairs *t = &k->at;
        const int q0 = t->query[0], q1 = q0 + t->queries - 1, k0 = t->key0, k1 = k0 + t->keys - 1, W = k->W;
        const bool after = k1 > q0, old = k0 <= q1 - W;
        // clang-format off
        const form places[] = {
            {"", "", true},
            {"runs_after_the_block",
                "only where a key comes after the block's last query: the block's first query sees less",
                k1 > t->last_query || old},
            {"runs_on_the_diagonal", "only where a key comes after a query: the edge of the window is not asked for",
                after},
            {"window_by_first_query",
                "at the window's edge only where the tile's first key is too old for its first query: the last query's "
                "window begins later", after || k0 <= q0 - W}};
        // clang-format on
        const uint32_t runs = holds(PLACE, FORMS(places));
        if (k->needs) fits &= k->bare ? ~runs : runs;
    }
    for (int n = 1; n < parts[PLACE].count; n++)
        if (fits >> n & 1) return &parts[PLACE].forms[n];
    return NULL;
}

static void conclude(mask_kind kind)
{
    // clang-format off
    static const struct { const char *gaps, *where; } of[MASKS] = {
        {"mask of the diagonal|bounds|mask|tail|overlap", "in tiles on the diagonal "},
        {"mask of the window", "in tiles left of the diagonal "},
        {"mask of the sinks|sink tiles", "in tiles of sinks "}, {"tail|mask|packed rows|overlap", ""},
        {"mask of dK and dV|recompute", "in the kernel of dK and dV "},
        {"mask of dQ|recompute for dQ", "in the kernel of dQ "}};
    // clang-format on
    const char *gaps = of[kind].gaps, *what = kind <= MASK_WINDOW && !e.problem->window ? "" : of[kind].where;
    const kept_tile *shown = NULL;  // the first that is wrong: its case is shown
    int seen = 0, lost = 0, to_hide = 0, nobodys = 0, ghosts = 0, needed = 0, bares = 0, wrongs = 0, all_needed = 0,
        all_bare = 0;
    int of_seen[2] = {0}, of_lost[2] = {0};  // the first query and key
    bool only_bare = true;
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        only_bare &= !k->wrong || k->bare, all_needed += k->needs, all_bare += k->bare;
        if (k->wrong && !shown) shown = k;
    }
    for (int n = 0; n < masks[kind].count; n++) {
        const kept_tile *k = &masks[kind].tiles[n];
        const pairs *t = &k->at;
        if (k->number != shown->number) continue;
        needed += k->needs, bares += k->bare, wrongs += k->wrong;
        EACH_PAIR (a, t->queries, b, t->keys) {
            const int at = a * t->keys + b, pair[2] = {t->query[a], t->key[b]};
            const bool wrong = counts(t, a, b) && t->fate[at] == (k->hide[at] ? WEIGHT : HIDDEN);
            to_hide += k->hide[at], nobodys += k->hide[at] && t->key[b] >= k->N,
                ghosts += wrong && k->hide[at] && t->key[b] >= k->N;
            int *count = k->hide[at] ? &seen : &lost;
            const bool first = wrong && (*count)++ == 0, is_key = t->key[b] < k->N;
            if (first || (wrong && k->hide[at] && is_key && seen - 1 == ghosts))  // rather a key that exists
                memcpy(k->hide[at] ? of_seen : of_lost, pair, sizeof pair);
        }
    }
    snprintf(e.text, sizeof e.text, "%s", cases[shown->number]);
    char pairs_seen[300] = "", says[700], right[160], numbers[80] = "", where[300] = "";
    if (seen)
        APPEND(pairs_seen, "of the %d pairs %s %d get a weight, as query %d and key %d%s",
               ghosts < seen ? to_hide - nobodys : nobodys,
               ghosts < seen ? "to be hidden" : "with keys that do not exist", ghosts < seen ? seen - ghosts : seen,
               of_seen[0], of_seen[1], ghosts && ghosts < seen ? ", and keys that do not exist, too" : "");
    if (lost)
        APPEND(pairs_seen, "%s%d pairs that should be seen are hidden, as query %d and key %d", seen ? ", and " : "",
               lost, of_lost[0], of_lost[1]);
    if (e.problem->window)
        APPEND(numbers, e.problem->sinks ? " (W = %d, sinks = %d)" : " (W = %d)", shown->W, shown->sinks);
    if (all_bare == all_needed && only_bare) {
        const bool tails = ghosts == seen;
        find(BY_MASK, tails ? "tail_seen" : "nothing_hidden", gaps,
             "%s%s, in none of the %d tiles that need it: %s%s%s", what,
             tails ? "no key is hidden that does not exist" : "the mask hides nothing", needed, pairs_seen, numbers,
             tails ? "" : "; its condition never holds here, in front of it or in it: two that exclude each other?");
        return;
    }
    rule found[2] = {0};
    ask_all(kind);
    describe(&found[0], right, sizeof right);
    if (kind == MASK_SINKS) snprintf(right, sizeof right, "j >= sinks");
    int some = search(false, found);
    const bool among = !some && all_bare && (some = search(true, found)) > 0;
    const form *place = all_bare ? place_of(kind) : NULL;
    if (place && (among || only_bare)) APPEND(where, "; it runs %s", place->says);
    if ((some && !deviates(&found[0])) || (only_bare && (!some || among)))
        find(BY_MASK, place ? place->id : "", gaps,
             "%sthe mask is right where it hides anything, but in %d of the %d tiles that need it it hides nothing%s: "
             "%s%s",
             what, bares, needed, where, pairs_seen, numbers);
    else if (some > 0 && some <= 3) {
        const char *id = shape_of(found[0].shape, 0, 0, 0).id;
        for (int part = PLACE; part-- > 0;)
            if (found[0].part[part]) id = parts[part].forms[found[0].part[part]].id;
        char other[200];
        describe(&found[0], says, sizeof says), describe(&found[some > 1], other, sizeof other);
        if (some > 1) APPEND(says, " (or, which is the same here, if %s)", other);
        if (only_bare && place) snprintf(where, sizeof where, "; or it is right, but runs %s", place->says);
        find(BY_MASK, id, gaps, "%s%skey j is hidden from query i if %s, where it should be if %s%s%s; %s", what,
             among ? "where anything is hidden " : "", says, right, numbers, where, pairs_seen);
    } else
        find(BY_MASK, "", gaps, "%s%s, in %d of %d tiles%s", what, pairs_seen, wrongs, needed, numbers);
}

void conclude_masks(void)
{
    for (int kind = 0; kind < MASKS; kind++)
        if (masks[kind].wrong) conclude((mask_kind)kind);
}
