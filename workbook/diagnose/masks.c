// masks.c - which rule a mask follows: the pairs that it hides, over all its tiles in all cases, against rules that
// differ from the right one in one place, and against the right one where it does not run in all tiles. A rule is the
// name of the mistake if it hides what was hidden, to the pair.
#include "evidence.h"

static fit masks[MASKS];

pairs pairs_of(const step *t, int first_row, int last_row)
{
    const product *S = t->S;
    pairs p = {.queries = by_keys ? S->cols : S->rows, .keys = by_keys ? S->rows : S->cols};
    p.query = allocate((size_t)(p.queries + p.keys), sizeof *p.query), p.key = p.query + p.queries;
    p.fate = allocate((size_t)(p.queries * p.keys), 1);
    const int *q = by_keys ? S->b_row : S->a_row, *k = by_keys ? S->a_row : S->b_row;
    p.number = (int)(t - steps), p.row0 = q[0], p.key0 = by_keys ? key_of(k[0]) : t->first;
    p.block_query = by_keys ? query_of(q[0]) : first_row, p.block_key = by_keys ? first_row : -1;
    p.last_query = by_keys ? 1 << 30 : last_row;
    for (int a = 0; a < p.queries; a++) p.query[a] = q[a] >= 0 && head_of(q[a]) == head_of(q[0]) ? query_of(q[a]) : -1;
    for (int b = 0; b < p.keys; b++) {
        const bool other = k[b] >= 0 && k[0] >= 0 && key_head_of(k[b]) != key_head_of(k[0]);
        const bool none = k[b] < 0 && (e.problem->signature == WB_BACKWARD || p.key0 + b < keys_of(p.row0));
        p.key[b] = other || none || k[b] == NOBODYS_ROW ? -1 : k[b] < 0 ? p.key0 + b : key_of(k[b]);
    }
    return p;
}

static bool hidden(bool after, bool old, bool no_sink) { return after || (old && no_sink); }

static int with_first(const fit *f, const pairs *t, form *forms, int n)
{
    add_form(f, forms, &n, forms[0].is && t->number > 0, "the mask does not run in the first tile of a walk");
    add_form(f, forms, &n, forms[0].is && t->number == 0, "the mask runs in the first tile of a walk alone");
    return n;
}

// Of packed rows: which token a row is taken for, and from where on it counts.
static int packed_rules(const fit *f, const pairs *t, int r, int c, form *forms)
{
    static const char *const tokens[] = {"its token",
                                         "its number in the tile, % Nq,",
                                         "its number / (Hq / Hkv), as if a token's heads lay side by side,",
                                         "its number / Nq, which is its head,",
                                         "its token from the last one on",
                                         "its number, without % Nq,"};
    static const char *const froms[] = {"kv_len - Nq", "0", "kv_len - 1"}, *const more[] = {"", " - 1", " + 1"};
    const int group = e.s->q_heads / e.s->kv_heads, Nq = e.s->q_len, i = t->query[r], last = keys_of(t->row0) - Nq;
    const int at = head_of(t->row0) % group * Nq + query_of(t->row0) + r, j = t->key[c];
    const int token[] = {i, r % Nq, at / group, at / Nq, Nq - 1 - i, at}, from[] = {last, 0, last + Nq - 1};
    int n = 0;
    forms[n++] = (form){"", j > last + i};
    add_form(f, forms, &n, j > last + Nq - 1, "a token sees all later tokens, too");
    add_form(f, forms, &n, false, "no pair is hidden");
    for (int way = 0; way < 54; way++)
        add_form(f, forms, &n, j > from[way / 18] + token[way % 6] + (int[]){0, -1, 1}[way / 6 % 3],
                 "a row sees the keys up to %s + %s%s", froms[way / 18], tokens[way % 6], more[way / 6 % 3]);
    return n;
}

// Whether each rule hides a pair of a tile: the right one; those in which a condition has another number in it, or in
// which the conditions are joined in another way; and the right one, where the mask runs in some tiles alone. Returns
// how many there are.
static int rules_for(const fit *f, mask_kind kind, const pairs *t, int r, int c, form *forms)
{
    if (kind == MASK_PACKED) return packed_rules(f, t, r, c, forms);
    typedef struct number {
        const char *is;
        int x;
    } number;
    const int i = t->query[r], j = t->key[c], N = e.s->kv_len,
              sinks = e.problem->sinks ? min_int(e.s->sinks, 1 << 29) : 0;
    const int W = e.problem->window ? min_int(e.s->window, 1 << 30) : 1 << 30;
    const bool sideways = t->block_key >= 0;  // then warps share out keys
    const int q0 = t->query[0], q1 = q0 + t->queries - 1, k0 = t->key0, k1 = k0 + t->keys - 1;
    const bool after = j > i, old = j <= i - W, no_sink = j >= sinks, right = hidden(after, old, no_sink);
    // clang-format off
    const number of_key[] = {
        {"j", j}, {"c", c}, {"(the tile's first key)", k0}, {"(the tile's last key)", k1}, {"i", i},
        {"(c + the first tile on the diagonal)", (t->block_query + 1) / t->keys * t->keys + c},
        {"(j without its warp's place)", sideways ? t->block_key + c : j}};
    const number of_query[] = {
        {"i", i}, {"r", r}, {"(the tile's first query)", q0}, {"(the tile's last query)", q1}, {"j", j},
        {"(the block's first query)", t->block_query}, {"(the block's last query)", t->last_query},
        {"(i without its warp's place)", sideways ? i : t->block_query + r}};
    const number widths[] = {
        {"W", W}, {"(W + sinks)", W + sinks}, {"(W - sinks)", W - sinks}, {"max(1, W - sinks)", max_int(1, W - sinks)},
        {"(W + 1) / 2", (W + 1) / 2}};
    // clang-format on
    static const char *const more[] = {" - 1", "", " + 1"};
    int n = 0;
    forms[n++] = (form){"", kind == MASK_TAIL ? j >= N : right};
    add_form(f, forms, &n, false,
             "nothing is hidden: the condition never holds, or what it hides becomes a number that has a weight");
    static const char *const columns[] = {"c", "j", "r", "i"};
    for (int way = 1; kind == MASK_TAIL && way < 24; way++)
        add_form(f, forms, &n, (int[]){c, j, r, i}[way % 4] >= N - (way & 4 ? k0 : 0) + way / 8 - 1, "%s >= Nk%s%s",
                 columns[way % 4], way & 4 ? " - (the tile's first key)" : "", more[way / 8]);
    if (kind == MASK_TAIL) return with_first(f, t, forms, n);
        // What stands on the left, on the right, and what is added.
#define EACH_WAY(k, q, x)                                                                                              \
    for (int k = 0; k < COUNT(of_key); k++)                                                                            \
        for (int q = 0; q < COUNT(of_query); q++)                                                                      \
            for (int x = 0; x < 3; x++)                                                                                \
                if ((x == 1 || k + q == 0) && k + q != 4)
    // In tiles of which nothing is hidden no mask runs, but on the diagonal.
    const bool guarded = kind == MASK_WINDOW || kind == MASK_DKDV || kind == MASK_DQ;
    const bool runs = !guarded || k1 > q0 || k0 <= q1 - W;
    add_form(f, forms, &n, runs && hidden(false, old, no_sink), "j > i is missing");
    if (e.problem->window) add_form(f, forms, &n, runs && after, "j <= i - W is missing");
    for (int q = 1; q < COUNT(of_query); q++)
        add_form(f, forms, &n, runs && hidden(j > of_query[q].x, j <= of_query[q].x - W, no_sink), "%s stands for i",
                 of_query[q].is);
    for (int k = 1; k < COUNT(of_key); k++)
        add_form(f, forms, &n, runs && hidden(of_key[k].x > i, of_key[k].x <= i - W, of_key[k].x >= sinks),
                 "%s stands for j", of_key[k].is);
    const int other_i = q0 + c, other_j = k0 + r;
    add_form(f, forms, &n, runs && hidden(other_j > other_i, other_j <= other_i - W, other_j >= sinks),
             "rows and columns of the tile are exchanged");
    EACH_WAY(k, q, x)
    add_form(f, forms, &n, runs && hidden(of_key[k].x > of_query[q].x + x - 1, old, no_sink),
             "%s > %s%s stands for j > i", of_key[k].is, of_query[q].is, more[x]);
    if (e.problem->window) {
        EACH_WAY(k, q, x)
        for (int w = 0; w < (k + q == 0 ? COUNT(widths) : 1); w++)
            add_form(f, forms, &n, runs && hidden(after, of_key[k].x <= of_query[q].x - widths[w].x + x - 1, no_sink),
                     "%s <= %s - %s%s stands for j <= i - W", of_key[k].is, of_query[q].is, widths[w].is, more[x]);
        add_form(f, forms, &n, runs && after && old, "it is if j > i and j <= i - W, which is never");
    }
    for (int k = 0; e.problem->sinks && k < COUNT(of_key) * 3; k++)
        if (k % 3 == 1 || k < 3)
            add_form(f, forms, &n, runs && hidden(after, old, of_key[k / 3].x >= sinks + k % 3 - 1),
                     "%s >= sinks%s stands for j >= sinks", of_key[k / 3].is, more[k % 3]);
    if (e.problem->sinks) {
        add_form(f, forms, &n, runs && (after || old), "sinks are hidden, too");
        add_form(f, forms, &n, runs && (after || old || j < sinks), "it is if j > i or j <= i - W or j < sinks");
        add_form(f, forms, &n, runs && (after || old) && no_sink, "it is if (j > i or j <= i - W) and j >= sinks");
        add_form(f, forms, &n, runs && (after || old || no_sink), "it is if j > i or j <= i - W or j >= sinks");
    }
    // Where it runs: if a key of the tile comes after a query, or has left its window.
    EACH_PAIR (k, 2, q, 4) {
        const number key = of_key[2 + k], query = of_query[q < 2 ? 2 + q : 3 + q];
        add_form(f, forms, &n, right && (key.x > query.x || k0 <= q1 - W), "the mask runs only where %s comes after %s",
                 key.is, query.is);
        if (e.problem->window)
            add_form(f, forms, &n, right && (k1 > q0 || key.x <= query.x - W),
                     "the mask runs at the window's edge only where %s is too old for %s", key.is, query.is);
    }
    return with_first(f, t, forms, n);
}

void add_to_mask(mask_kind kind, const pairs *t)
{
    bool runs = false, hide[t->queries][t->keys];  // runs: something is hidden, or to be
    fit *f = &masks[kind];
    EACH_PAIR (a, t->queries, b, t->keys) {
        hide[a][b] = !sees(head_of(t->row0) * e.s->q_len + t->query[a], t->key[b]);
        runs |= t->query[a] >= 0 && t->key[b] >= 0 && (hide[a][b] || t->fate[a * t->keys + b] == HIDDEN);
    }
    EACH_PAIR (a, t->queries, b, t->keys) {
        const int got = t->fate[a * t->keys + b], i = t->query[a], j = t->key[b];
        const bool right = hide[a][b] == (got == HIDDEN);
        form forms[MAX_FORMS];
        if (!runs || i < 0 || j < 0 || got == UNCLEAR || (right && (a + 5 * b) % 4)) continue;  // some of them will do
        if (fit_add(f, got == HIDDEN, 0, forms, rules_for(f, kind, t, a, b, forms)))
            fit_says(f, "query %d gives %s to key %d, which %s", i, got == HIDDEN ? "no weight" : "a weight", j,
                     j >= keys_of(t->row0) ? "does not exist"
                     : hide[a][b]          ? "it does not see"
                                           : "it sees");
    }
}

void conclude_masks(void)
{
    // clang-format off
    static const struct { const char *gaps, *where; } of[MASKS] = {
        {"mask of the diagonal|bounds|mask|tail|overlap", "in tiles on the diagonal "},
        {"mask of the window", "in tiles left of the diagonal "},
        {"mask of the sinks|sink tiles", "in tiles of sinks "}, {"tail|mask|packed rows|overlap", ""},
        {"mask of dK and dV|recompute", "in the kernel of dK and dV "},
        {"mask of dQ|recompute for dQ", "in the kernel of dQ "}, {"packed rows", ""}};
    // clang-format on
    const bool window = e.problem->window, sinks = e.problem->sinks;
    for (int kind = 0; kind < MASKS; kind++) {
        const fit *f = &masks[kind];
        const form *is = NULL, * or = NULL;
        for (int n = f->count; n-- > 1;)
            if (f->misses[n] <= (kind == MASK_PACKED ? f->wrong / 50 : 0)) or = is, is = &f->forms[n];
        memcpy(e.text, f->shown, sizeof e.text);
        if (f->fails)
            find(BY_MASK, is ? is->says : "", of[kind].gaps, "%s%s; key j is to be hidden from query i if %s%s%s%s%s%s",
                 kind <= MASK_WINDOW && !window ? "" : of[kind].where, f->says,
                 kind == MASK_TAIL     ? "j >= Nk"
                 : kind == MASK_PACKED ? "j > kv_len - Nq + i"
                 : !window             ? "j > i"
                 : sinks               ? "j > i or (j <= i - W and j >= sinks)"
                                       : "j > i or j <= i - W",
                 is ? "; here " : "", is ? is->says : "", or ? " (or, which is the same here, " : "",
                 or ? or->says : "", or ? ")" : "");
    }
}
