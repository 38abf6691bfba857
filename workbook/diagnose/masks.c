// masks.c - which rule a mask follows: the pairs that it hides, over all its tiles in all cases, against rules that
// differ from the right one in one place, and against the right one where it does not run in all tiles. A rule is the
// name of the mistake if it hides what was hidden, to the pair.
#include "evidence.h"

// What was seen of a mask; the counts are of its first case with a wrong pair.
static struct {
    fit rules;
    bool wrong;
    int W, sinks;
    int to_hide, of_nobody;            // pairs; and of these with keys that do not exist
    int seen, ghosts, lost;            // wrong: seen, of these with such keys; hidden
    int first_seen[2], first_lost[2];  // the first query and key, if there is one a key that exists
    char shown[WB_CASE_TEXT];
} masks[MASKS];

static pairs pairs_new(int queries, int keys)
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

// Whether each rule hides a pair of a tile. Returns how many rules there are.
static int rules_for(mask_kind kind, const pairs *t, int r, int c, form *forms)
{
    const int i = t->query[r], j = t->key[c], N = e.s->kv_len, sinks = e.problem->sinks ? e.s->sinks : 0;
    const int W = e.problem->window ? e.s->window : 4 * (N + e.s->q_len);
    const int warp_i = t->block_key >= 0 ? i : t->block_query + r;  // sideways it is keys that
    const int warp_j = t->block_key >= 0 ? t->block_key + c : j;    // warps share out
    const int q0 = t->query[0], q1 = q0 + t->queries - 1, k0 = t->key0, k1 = k0 + t->keys - 1;
    const bool after = j > i, old = j <= i - W, no_sink = j >= sinks, right = hidden(after, old, no_sink);
    // clang-format off
    const form tails[] = {
        {"", "", j >= N}, {"nothing_hidden", "no key is hidden that does not exist", false},
        {"tail_off_by_one", "it is if j > Nk: the first key that does not exist is seen", j > N},
        {"tail_off_by_one", "it is if j >= Nk - 1: the last key is hidden", j >= N - 1}};
    const form of_all[] = {
        {"", "", right},
        {"nothing_hidden", "nothing is: the condition never holds here, in front of the mask or in it", false},
        {"no_causal", "j > i is missing", hidden(false, old, no_sink)},
        {"causal_local", "c > r stands for j > i, both counted in their tile", hidden(c > r, old, no_sink)},
        {"causal_key_local", "c > i stands for j > i, with c the key's number in its tile",
            hidden(c > i, old, no_sink)},
        {"causal_without_warp", "j > i lacks the warp's place in its block", hidden(warp_j > warp_i, old, no_sink)},
        {"causal_reversed", "j < i stands for j > i", hidden(j < i, old, no_sink)},
        {"self_hidden", "j >= i stands for j > i", hidden(j >= i, old, no_sink)},
        {"one_future_key", "j > i + 1 stands for j > i", hidden(j > i + 1, old, no_sink)},
        {"runs_after_the_block",
            "the mask runs only where a key comes after the block's last query: the block's first query sees less",
            right && (k1 > t->last_query || k0 <= q1 - W)}};
    const form of_windows[] = {
        {"no_window", "j <= i - W is missing", after},
        {"window_one_more", "j < i - W stands for j <= i - W", hidden(after, j < i - W, no_sink)},
        {"window_one_less", "j <= i - W + 1 stands for j <= i - W", hidden(after, j <= i - W + 1, no_sink)},
        {"window_half_up", "j <= i - (W + 1) / 2 stands for j <= i - W", hidden(after, j <= i - (W + 1) / 2, no_sink)},
        {"window_by_first_query",
            "the mask runs at the window's edge only where the tile's first key is too old for its first query: the "
            "last query's window begins later", right && (k1 > q0 || k0 <= q0 - W)}};
    const form of_sinks[] = {
        {"sinks_hidden", "sinks are hidden, too", after || old},
        {"one_sink_more", "j > sinks stands for j >= sinks", hidden(after, old, j > sinks)},
        {"one_sink_less", "j >= sinks - 1 stands for j >= sinks", hidden(after, old, j >= sinks - 1)},
        {"sinks_reversed", "it is if j > i or j <= i - W or j < sinks", after || old || j < sinks},
        {"window_plus_sinks", "j <= i - W - sinks stands for j <= i - W", hidden(after, j <= i - W - sinks, no_sink)},
        {"window_minus_sinks", "j <= i - W + sinks stands for j <= i - W", hidden(after, j <= i - W + sinks, no_sink)},
        {"brackets", "it is if (j > i or j <= i - W) and j >= sinks", (after || old) && no_sink},
        {"or_for_and", "it is if j > i or j <= i - W or j >= sinks", after || old || no_sink}};
    // clang-format on
    if (kind == MASK_TAIL) return copy_forms(forms, FORMS(tails));
    int count = copy_forms(forms, FORMS(of_all));
    if (e.problem->window) count += copy_forms(forms + count, FORMS(of_windows));
    if (e.problem->sinks) count += copy_forms(forms + count, FORMS(of_sinks));
    return count;
}

void add_to_mask(mask_kind kind, const pairs *t)
{
    bool runs = false, hide[t->queries][t->keys];  // runs: something is hidden, or to be
    EACH_PAIR (a, t->queries, b, t->keys) {
        hide[a][b] = !sees(head_of(t->row0) * e.s->q_len + t->query[a], t->key[b]);
        runs |= t->query[a] >= 0 && t->key[b] >= 0 && (hide[a][b] || t->fate[a * t->keys + b] == HIDDEN);
    }
    const bool counted = !strcmp(masks[kind].shown, e.text) || !masks[kind].wrong;
    if (counted && strcmp(masks[kind].shown, e.text)) {
        const fit rules = masks[kind].rules;
        memset(&masks[kind], 0, sizeof masks[kind]);
        masks[kind].rules = rules, masks[kind].W = e.s->window, masks[kind].sinks = e.s->sinks;
        memcpy(masks[kind].shown, e.text, sizeof e.text);
    }
    EACH_PAIR (a, t->queries, b, t->keys) {
        const int got = t->fate[a * t->keys + b], pair[2] = {t->query[a], t->key[b]};
        if (!runs || pair[0] < 0 || pair[1] < 0) continue;
        const bool to_hide = hide[a][b], ghost = pair[1] >= e.s->kv_len,
                   wrong = e.wrong && got == (to_hide ? WEIGHT : HIDDEN);
        form forms[MAX_FORMS];
        if (got != UNCLEAR) fit_add(&masks[kind].rules, got == HIDDEN, 0, forms, rules_for(kind, t, a, b, forms));
        if (!counted) continue;
        masks[kind].wrong |= wrong, masks[kind].to_hide += to_hide, masks[kind].of_nobody += to_hide && ghost;
        if (!wrong) continue;
        const bool first = to_hide ? masks[kind].seen == (ghost ? 0 : masks[kind].ghosts) : masks[kind].lost == 0;
        if (first) memcpy(to_hide ? masks[kind].first_seen : masks[kind].first_lost, pair, sizeof pair);
        masks[kind].seen += to_hide, masks[kind].ghosts += to_hide && ghost, masks[kind].lost += !to_hide;
    }
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
    const fit *f = &masks[kind].rules;
    const int seen = masks[kind].seen, ghosts = masks[kind].ghosts, lost = masks[kind].lost;
    const bool keys = ghosts < seen, window = e.problem->window, sinks = e.problem->sinks;
    const form *is = NULL, * or = NULL;
    for (int n = f->count; n-- > 1;)
        if (f->misses[n] == 0) or = is, is = &f->forms[n];
    memcpy(e.text, masks[kind].shown, sizeof e.text);
    char text[300] = "", numbers[80] = "";
    if (seen)
        APPEND(text, "of the %d pairs %s %d get a weight, as query %d and key %d%s",
               keys ? masks[kind].to_hide - masks[kind].of_nobody : masks[kind].of_nobody,
               keys ? "to be hidden" : "with keys that do not exist", keys ? seen - ghosts : seen,
               masks[kind].first_seen[0], masks[kind].first_seen[1],
               ghosts && keys ? ", and keys that do not exist, too" : "");
    if (lost)
        APPEND(text, "%s%d pairs that should be seen are hidden, as query %d and key %d", seen ? ", and " : "", lost,
               masks[kind].first_lost[0], masks[kind].first_lost[1]);
    if (window) APPEND(numbers, sinks ? " (W = %d, sinks = %d)" : " (W = %d)", masks[kind].W, masks[kind].sinks);
    find(BY_MASK, is ? is->id : "", of[kind].gaps, "%s%s%s; key j is to be hidden from query i if %s%s%s%s%s%s",
         kind <= MASK_WINDOW && !window ? "" : of[kind].where, text, numbers,
         kind == MASK_TAIL ? "j >= Nk"
         : !window         ? "j > i"
         : sinks           ? "j > i or (j <= i - W and j >= sinks)"
                           : "j > i or j <= i - W",
         is ? "; here " : "", is ? is->says : "", or ? " (or, which is the same here, " : "", or ? or->says : "",
         or ? ")" : "");
}

void conclude_masks(void)
{
    for (int kind = 0; kind < MASKS; kind++)
        if (masks[kind].wrong) conclude((mask_kind)kind);
}
