// masks.c - which rule a mask follows: the pairs that it hides, over all its tiles in all cases, against rules that
// differ from the right one in one place. If none hides what was hidden, tiles are told.
#include "evidence.h"

static int row_of(const pairs *t, int a) { return head_of(t->row0) * e.s->q_len + t->query[a]; }

#define RULE_IS(rule) "; key j must be hidden from query i if " rule "; here "
#define DIAGONAL_GAPS "mask of the diagonal|bounds|mask|tail|overlap"
static fit masks[MASKS] = {
    [DIAGONAL] = FIT(BY_MASK, "mask of the diagonal|mask|tail|overlap", .others = DIAGONAL_GAPS,
                     .by = {{"nothing is hidden", DIAGONAL_GAPS}}),
    [WINDOW] = FIT(BY_MASK, "mask of the window"),
    [SINKS] = FIT(BY_MASK, "mask of the sinks|sink tiles"),
    [TAIL] = FIT(BY_MASK, "tail|mask|packed rows|overlap", .joint = RULE_IS("j >= Nk")),
    [DKDV] = FIT(BY_MASK, "mask of dK and dV|recompute"),
    [DQ] = FIT(BY_MASK, "mask of dQ|recompute for dQ"),
    [PACKED] = FIT(BY_MASK, "packed rows|scores|weights", .joint = RULE_IS("j > kv_len - Nq + i")),
    [BITS] = FIT(BY_MASK, "load bits|mask", .others = "mask|load bits", .joint = RULE_IS("their bit is 0"),
                 .by = {{"where its bit is 1", "mask|load bits"}}),
};
static const char *const where[MASKS] = {[DIAGONAL] = "in tiles on the diagonal, ",
                                         [WINDOW] = "in tiles left of the diagonal, ",
                                         [SINKS] = "in tiles of sinks, "};
static const char *place_of(mask_kind kind) { return e.problem->window && where[kind] ? where[kind] : ""; }
static bool is_guarded(mask_kind kind) { return kind == WINDOW || kind == DKDV || kind == DQ; }
static const char *const more_or_less[] = {" - 1", "", " + 1"};

// Tiles by what a mask hides of them: of each sort the first, in the case that is shown.
enum { RIGHT, NOTHING, OTHER, SORTS };
static struct {
    char of[WB_CASE_TEXT], first[SORTS][90];
} tiles[MASKS];

pairs pairs_of(const step *t, int first_row)
{
    const product *S = t->S;
    pairs p = {.queries = by_keys ? S->cols : S->rows, .keys = by_keys ? S->rows : S->cols};
    p.query = allocate((size_t)(p.queries + p.keys), sizeof *p.query), p.key = p.query + p.queries;
    p.fate = allocate((size_t)(p.queries * p.keys), 1);
    const int *q = by_keys ? S->b_row : S->a_row, *k = by_keys ? S->a_row : S->b_row;
    p.row0 = q[0], p.key0 = by_keys ? key_of(k[0]) : t->first, p.of_block = first_row;
    for (int a = 0; a < p.queries; a++) p.query[a] = q[a] >= 0 && head_of(q[a]) == head_of(q[0]) ? query_of(q[a]) : -1;
    for (int b = 0; b < p.keys; b++) {
        const bool other = k[b] >= 0 && k[0] >= 0 && key_head_of(k[b]) != key_head_of(k[0]);
        const bool none = k[b] < 0 && (is_backward() || p.key0 + b < keys_of(p.row0));
        p.key[b] = other || none || k[b] == NOBODYS_ROW ? -1 : k[b] < 0 ? p.key0 + b : key_of(k[b]);
    }
    return p;
}

#define RULE(hides, ...) add_form(f, forms, &n, hides, __VA_ARGS__)
// Of packed rows: the last key that a row sees, by the token that it is taken for, from where on.
static int packed_rules(const fit *f, const pairs *t, int r, int c, form *forms, int n)
{
    static const char *const tokens[] = {"i", "(row of the tile) % Nq", "row / (Hq / Hkv)"};
    static const char *const bounds[] = {"kv_len - Nq + ", "", "kv_len[0] - Nq + ", "kv_len[b + 1] - Nq + "};
    const int group = e.s->q_heads / e.s->kv_heads, Nq = e.s->q_len, i = t->query[r], all = keys_of(t->row0),
              b0 = head_of(t->row0) / e.s->q_heads;
    const int at = head_of(t->row0) % group * Nq + query_of(t->row0) + r, j = t->key[c];
    const int token[] = {i, r % Nq, at / group},
              bound[] = {all - Nq, 0, e.kv_len[0] - Nq, e.kv_len[(b0 + 1) % e.s->batch] - Nq};
    RULE(j >= all, "it is hidden if j >= kv_len");
    RULE(false, "nothing is hidden");
    EACH_PAIR (b, COUNT(bounds), k, COUNT(token))
        for (int more = -1; more < 2; more++)
            if (b || k || more)
                RULE(j > bound[b] + token[k] + more, "it is hidden if j > %s%s%s", bounds[b], tokens[k],
                     more_or_less[more + 1]);
    return n;
}

// Of a tile that is seen in part: what other bits than its own say.
static int bit_rules(const fit *f, const pairs *t, int r, int c, bool right, form *forms, int n)
{
    const block_mask *m = &wb_case_mask_of(e.c)->lists;
    const int q_tiles = (e.s->q_len - 1) / m->q_tile + 1, b = m->masks > 1 ? head_of(t->row0) / e.s->q_heads : 0;
    const int list = b * (q_tiles + 1) + t->query[r] / m->q_tile, first = m->part_start[list];
    const int all = 2 * m->q_tile * m->part_start[m->masks * (q_tiles + 1) - 1];
    const int row = t->query[r] % m->q_tile, bit = t->key[c] % 64;
    int tile = first;
    while (tile < m->part_start[list + 1] && m->part[tile] != t->key[c] / m->kv_tile) tile++;
    const int word = 2 * m->q_tile * tile + row * t->keys / 32 + bit / 32;
    const bool known = tile < m->part_start[list + 1] && word < all;
    RULE(known ? !(m->bits[word] >> bit % 32 & 1) : right,
         "row r begins at word r times (the words of a step), not at word 2 r");
    return n;
}

// Whether each rule hides a pair: the right one; a condition is gone, one off, joined otherwise, has another number.
static int rules_for(const fit *f, mask_kind kind, const pairs *t, int r, int c, bool right, form *forms)
{
    int n = 0;
    forms[n++] = (form){"", right};
    if (kind == BITS) return bit_rules(f, t, r, c, right, forms, n);
    if (kind == PACKED) return packed_rules(f, t, r, c, forms, n);
    const int i = t->query[r], j = t->key[c], N = e.s->kv_len, most = 1 << 29;
    const int sinks = e.problem->sinks ? min_int(e.s->sinks, most) : 0;
    const int W = e.problem->window ? min_int(e.s->window, most) : most;
    const int q0 = t->query[0], q1 = q0 + t->queries - 1, k0 = t->key0, k1 = k0 + t->keys - 1;
    const bool after = j > i, old = j <= i - W, no_sink = j >= sinks;
    // What may stand for i, and for j; the first three, or two, may decide where the mask runs.
    const bool warps = !by_keys && !e.problem->on_host;  // a warp's rows
    const form of_query[] = {{warps ? "(the warp's first query)" : "(the tile's first query)", q0},
                             {warps ? "(the warp's last query)" : "(the tile's last query)", q1},
                             {"(the block's first query)", by_keys ? q0 : t->of_block},
                             {"r", r},
                             {"j", j},
                             {"(i without the warp's offset)", by_keys ? i : t->of_block + r}};
    const form of_key[] = {{"(the tile's first key)", k0},
                           {"(the tile's last key)", k1},
                           {"c", c},
                           {"i", i},
                           {"(j without the warp's offset)", by_keys ? t->of_block + c : j}};
    // In tiles of which nothing is hidden no mask runs, but on the diagonal.
    const bool runs = !is_guarded(kind) || k1 > q0 || k0 <= q1 - W;
    RULE(false, "nothing is hidden: do all conditions around the mask hold?");
    for (int x = -1; x <= 1; x += 2) {
        const char *const more = more_or_less[x + 1];
        if (kind == TAIL) RULE(j >= N + x, "j >= Nk%s replaces j >= Nk", more);
        if (kind == TAIL) continue;
        RULE(runs && (j > i + x || (old && no_sink)), "j > i%s replaces j > i", more);
        for (int too = 0; too < 2 && e.problem->window; too++)  // where it runs, too
            RULE((runs || (too && k0 <= q1 - W + x)) && (after || (j <= i - W + x && no_sink)),
                 "j <= i - W%s replaces j <= i - W", more);
        if (e.problem->sinks)
            RULE(runs && (after || (old && j >= sinks + x)), "j >= sinks%s replaces j >= sinks", more);
    }
    for (int k = 0; k < COUNT(of_key); k++) {
        const double x = of_key[k].is;
        RULE(kind == TAIL ? x >= N : runs && (x > i || (x <= i - W && x >= sinks)), "%s replaces j", of_key[k].says);
    }
    if (kind == TAIL) return n;
    for (int q = 0; q < COUNT(of_query); q++)
        RULE(runs && (j > of_query[q].is || (j <= of_query[q].is - W && no_sink)), "%s replaces i", of_query[q].says);
    RULE(runs && (c > r || (old && no_sink)), "c > r replaces j > i");
    if (e.problem->sinks) RULE(runs && (after || (j <= i - W - sinks && no_sink)), "W + sinks replaces W");
    RULE(runs && old && no_sink, "j > i is missing");
    if (e.problem->window) {
        RULE(runs && after, "j <= i - W is missing");
        const unsigned window = (unsigned)e.s->window;  // sums with it may overflow
        RULE(after || ((int)((unsigned)j + window) <= i && no_sink), "j + W overflows");
    }
    if (e.problem->sinks) {
        RULE(runs && (after || old), "sinks are hidden, too");
        RULE(runs && (after || old || j < sinks), "it is hidden if j > i or j <= i - W or j < sinks");
        for (int last = 0; last < 2; last++)
            RULE(runs && (after || old) && j >= (last ? min_int(sinks, N) : sinks),
                 "it is hidden if (j > i or j <= i - W) and j >= sinks");
        RULE(runs && (after || old || j >= sinks), "it is hidden if j > i or j <= i - W or j >= sinks");
    }
    EACH_PAIR (k, 2, q, e.problem->window ? 3 : 0)
        RULE(right && (k1 > q0 || of_key[k].is <= of_query[q].is - W),
             "the mask is applied at the window's edge only where %s is too old for %s", of_key[k].says,
             of_query[q].says);
    return n;
}

void add_to_mask(mask_kind kind, const pairs *t)
{
    bool is[SORTS] = {true, true, true};
    bool runs = false, hide[t->queries][t->keys];  // runs: something is hidden, or to be
    fit *f = &masks[kind];
    f->exact = kind != PACKED;
    // Of a window as long as all keys nobody knows whether the mask runs left of the diagonal.
    if (is_guarded(kind) && e.problem->window && e.s->window >= e.s->kv_len && t->key0 + t->keys <= t->query[0]) return;
    EACH_PAIR (a, t->queries, b, t->keys) {
        hide[a][b] = !sees(row_of(t, a), t->key[b]);
        runs |= t->query[a] >= 0 && t->key[b] >= 0 && (hide[a][b] || t->fate[a * t->keys + b] == HIDDEN);
    }
    EACH_PAIR (a, t->queries, b, t->keys) {
        const int got = t->fate[a * t->keys + b], i = t->query[a], j = t->key[b];
        form forms[MAX_FORMS];
        if (!runs || i < 0 || j < 0 || got == UNCLEAR) continue;
        is[RIGHT] &= hide[a][b] == (got == HIDDEN), is[NOTHING] &= got != HIDDEN;
        if (hide[a][b] == (got == HIDDEN) && (a + 5 * b) % 4) continue;  // some of them will do
        see(f, got == HIDDEN, 0, forms, rules_for(f, kind, t, a, b, hide[a][b], forms),
            "%s%s%s gives %s to key %d, which %s", kernel(by_keys), place_of(kind), name_of(row_of(t, a)),
            got == HIDDEN ? "no weight" : "a weight", j,
            j >= keys_of(t->row0) ? "does not exist"
            : hide[a][b]          ? "it does not see"
                                  : "it sees");
    }
    if (!runs || (f->fails && strcmp(f->shown, e.text) != 0)) return;
    if (strcmp(tiles[kind].of, e.text) != 0) memset(&tiles[kind], 0, sizeof tiles[kind]);
    memcpy(tiles[kind].of, e.text, sizeof e.text);
    int sort = 0;
    while (!is[sort]) sort++;
    if (!*tiles[kind].first[sort])
        APPEND(tiles[kind].first[sort], "in the tile that begins at %s and key %d", name_of(row_of(t, 0)), t->key0);
}

// A weight that is NaN of a hidden key, where others are numbers: no m is to blame, unless these are 0.
void look_at_hidden_nan(mask_kind kind, const step *t)
{
    const product *const S = t->S;
    for (int i = 0; i < S->rows; i++) {
        int nan = -1, seen = 0;
        bool numbers = S->a_row[i] >= 0, zeros = true;
        for (int c = 0; c < S->cols; c++) {
            const double P = weight_at(t, i, c);
            if (sees(S->a_row[i], key_of(S->b_row[c])))
                seen++, numbers &= (bool)isfinite(P), zeros &= P == 0;
            else if (isnan(P) && isfinite(score_at(t, i, c)) && nan < 0)
                nan = c;
        }
        if (nan < 0 || !seen || !numbers) continue;
        find(BY_MASK - 1, zeros ? "hidden by +infinity" : "0 times -infinity",
             e.K_scale && !zeros ? "scores" : masks[kind].gaps,
             "%s%s gives the weight NaN to key %d, which %s, and %s to the keys that it sees%s", place_of(kind),
             name_of(S->a_row[i]), t->first + nan,
             t->first + nan < keys_of(S->a_row[i]) ? "it does not see" : "does not exist",
             zeros ? "0" : "finite weights",
             zeros       ? ": m is infinite. Hidden scores must be -infinity; infinity minus infinity is NaN"
             : e.K_scale ? ". Past the last key, scales are 0, and 0 times -infinity is NaN: apply them before the mask"
                         : ": 0 times infinity is NaN, and so is infinity minus infinity");
    }
}

// The rule is said beside what replaces it: where nothing is known to, it may be right.
void settle_masks(void)
{
    static char text[MASKS][400];
    for (fit *f = masks; f < masks + MASKS; f++) {
        const int kind = (int)(f - masks);
        f->mute = !f->fails, f->none = text[kind], *text[kind] = 0;
        for (int n = OTHER; n-- > 0 && !*tiles[kind].first[OTHER];)
            if (*tiles[kind].first[n])
                APPEND(text[kind], "%s%s, %s", *text[kind] ? "; " : ": ", tiles[kind].first[n],
                       n ? "nothing is hidden" : "all is right");
        if (!f->joint)
            f->joint = !e.problem->window ? RULE_IS("j > i")
                       : e.problem->sinks ? RULE_IS("j > i or (j <= i - W and j >= sinks)")
                                          : RULE_IS("j > i or j <= i - W");
    }
}
