// walks.c - the steps of a walk, and which tiles each block meets, against those that it needs.
#include "evidence.h"

step steps[STEPS];
int step_count;
bool by_keys;

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

// Whether a sum begins with what the other ended with.
static bool goes_on(const product *from, const product *to)
{
    const size_t bytes = (size_t)to->rows * (size_t)to->cols * sizeof(float);
    bool zero = true;
    for (int n = 0; n < to->rows * to->cols; n++) zero &= to->before[n] == 0;
    return !zero && from->cols == to->cols && memcmp(from->after, to->before, bytes) == 0;
}

// Where a product belongs in a step: scores are dP, and sums go by what they meet, unless two meet the same rows.
static const product **place_in(step *t, const product *p)
{
    const product **own = !is_backward() || (by_keys && p->right == OF_dO) ? &t->P : &t->dS,
                  **other = own == &t->P ? &t->dS : &t->P;
    if (p->scores) return &t->dP;
    return by_keys && *own && !*other && (*own)->right == p->right && !goes_on(*own, p) ? other : own;
}

// It belongs to the first step that lacks it, rather with the same rows. Of two for one sum the second stands for both.
static void read_product(const product *first, const product *p)
{
    const product **to = NULL;
    bool same = false;
    if (p->scores && (!is_backward() || (p->left == first->left && p->right == first->right))) {
        if (step_count < STEPS) steps[step_count++] = (step){.S = p, .first = first_of(p)};
        return;
    }
    const bool known = p->right != NOBODY && (of_keys(p->right) != by_keys);
    if (is_backward() && !p->scores && !known) return;
    for (int n = 0; n < step_count; n++) {
        const product *S = steps[n].S, **at = place_in(&steps[n], p);
        const bool fits = p->scores ? p->cols == S->cols : p->depth == S->cols && p->cols == e.s->head_dim;
        const bool alike = p->b_row[0] == S->b_row[0];
        if (!fits || p->rows != S->rows || (*at && (!is_backward() || p->scores || !goes_on(*at, p)))) continue;
        if (!to || (!*at && (*to || (alike && !same)))) to = at, same = alike;
    }
    if (to) *to = p;
}

// Two sums that meet the same rows: that of P adds up no negative number.
static void tell_apart(step *t)
{
    bool negative = false;
    if (!t->P || !t->dS || t->P->right != t->dS->right) return;
    const product *const P = t->P;
    for (int n = 0; n < P->rows * P->depth; n++) negative |= P->a[n] < 0;
    if (negative) t->P = t->dS, t->dS = P;
}

// Whether a tile comes once more, and nothing of it gets a weight: that fills up a step of two.
static bool fills_up(const step *t)
{
    bool again = false;
    for (const step *s = steps; s < t; s++) again |= s->first == t->first;
    for (int n = 0; again && t->P && n < t->P->rows * t->P->depth; n++) again = t->P->a[n] == 0;
    return again && t->P;
}

void read_steps(const walk *w)
{
    step_count = 0, by_keys = is_backward() && w->first && w->first->left == OF_K;
    for (const product *p = w->at; p < w->at + w->count; p++)
        if (!is_backward() || w->first) read_product(w->first, p);
    for (int n = 0; by_keys && n < step_count; n++) tell_apart(&steps[n]);
    if (step_count > 1 && !is_backward() && fills_up(&steps[step_count - 1])) step_count--;
}

// Where the tiles begin of the walks that have this query, or key, on the left, runs as "..."; the last walk.
static const char *walk_of(const record *r, bool keys, int q, int k, int *last)
{
    static char text[400];
    static int at[STEPS], head[STEPS], block[STEPS];  // of query heads (-1: none)
    int count = 0;
    *text = 0;
    EACH_WALK (r, n) {
        const product *S = r->walks[n].first;
        bool has = false;
        for (int i = 0; S && by_keys == keys && i < S->rows; i++)
            has |= !keys ? S->a_row[i] == q : key_of(S->a_row[i]) == k && key_head_of(S->a_row[i]) == head_of_query(q);
        if (has) *last = n;
        for (int t = 0; has && t < step_count && count < STEPS; t++, count++) {
            const int row = steps[t].S->b_row[0];
            at[count] = steps[t].first, head[count] = keys && row >= 0 ? head_of(row) : -1;
            block[count] = e.table ? 0 : r->walks[n].block;
        }
    }
    for (int n = 0; n < count && strlen(text) < 150; n++) {
        const bool begins = n == 0 || block[n] != block[n - 1], on = n > 1 && n + 1 < count;
        const int apart = on ? at[n] - at[n - 1] : 0;
        const bool inside = apart && at[n + 1] - at[n] == apart && at[n - 1] - at[n - 2] == apart &&
                            block[n - 2] == block[n + 1] && head[n - 2] == head[n + 1];
        if (n && begins) APPEND(text, "; in another block:");
        if (head[n] >= 0 && (begins || head[n] != head[n - 1])) APPEND(text, " (head %d)", head[n]);
        if (!inside) APPEND(text, " %d", at[n]);
        if (inside && text[strlen(text) - 1] != '.') APPEND(text, " ...");
    }
    return text;
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
        known += q >= 0 && (k >= 0 || !is_backward());
        if (q >= 0 && (!by_keys || head_of_query(q) == key_head_of(k)) && sees(q, key_of(k))) return true;
    }
    return !known;
}

// Of 15: whether this row of Q sees a key's tile in part; and all tiles of its lists, in words, and how many.
static bool is_in_part(int row, int key, char says[240], int *count)
{
    const block_mask *m = &wb_case_mask_of(e.c)->lists;
    const int q_tiles = (e.s->q_len - 1) / m->q_tile + 1, b = m->masks > 1 ? head_of(row) / e.s->q_heads : 0;
    const int list = b * (q_tiles + 1) + query_of(row) / m->q_tile;
    bool found = false;
    for (int part = 0; part < 2; part++) {
        const int *const starts = part ? m->part_start : m->whole_start, *const tiles = part ? m->part : m->whole;
        *count = (part ? *count : 0) + starts[list + 1] - starts[list];
        if (!part) snprintf(says, 240, ". Its tiles begin at keys: from whole_start[%d] on:", list);
        if (part) snprintf(says + strlen(says), 240 - strlen(says), "; from part_start[%d] on:", list);
        for (int at = starts[list]; at < starts[list + 1] && strlen(says) < 160; at++)
            snprintf(says + strlen(says), 240 - strlen(says), " %d", 64 * tiles[at]),
                found |= part && tiles[at] == key / 64;
    }
    return found;
}

// Of each pair of a query and a key, how often a kernel's walks meet its tile, and give it a weight.
typedef struct meetings {
    int walks;
    unsigned char *met, *given;
} meetings;

const char *kernel(bool keys)
{
    return !is_backward() ? "" : keys ? "in the kernel of dK and dV, " : "in the kernel of dQ, ";
}

// Of 15: whether the walk that was read last has more tiles than the lists of its block.
static void see_lists(void)
{
    char text[240];
    int met = 0, listed, row = step_count ? steps[0].S->a_row[0] : NO_ROW;
    EACH_STEP(t) met += t->S->cols;
    if (row < 0 || (is_in_part(row, 0, text, &listed), met <= 64 * listed)) return;
    find(BY_HEADS, "past a list", "lists", "the block of %s takes %d tiles of 64 keys, but its lists have %d%s",
         name_of(row), (met + 63) / 64, listed, text);
}

static meetings read_meetings(const record *r, bool keys, const char *gaps)
{
    const size_t rows = (size_t)all_rows(), Nk = (size_t)e.s->kv_len;
    meetings m = {0, allocate(rows * Nk, 1), allocate(rows * Nk, 1)};
    bool vain = e.table;
    EACH_WALK (r, n) {
        m.walks += step_count && by_keys == keys;
        if (is_listed()) see_lists();
        for (const step *t = steps; t < steps + step_count && by_keys == keys; t++) {
            const product *S = t->S, *left = t->dS ? t->dS : t->P;
            EACH_PAIR (i, S->rows, c, S->cols) {
                int q, k;
                name_pair(S, i, c, &q, &k);
                const int j = key_of(k);
                if (!meets(q, k) || j < 0 || j >= e.s->kv_len) continue;
                const size_t at = (size_t)q * Nk + (size_t)j;
                m.met[at]++, m.given[at] += left && left->a[i * left->depth + c] != 0;
            }
            if (vain || is_seen(r, n, S)) continue;
            vain = true;
            find(BY_WASTE, "tile_in_vain", gaps,
                 "%sthe block of %s %d visits the tile from %s %d on, of which it sees nothing", kernel(keys),
                 keys ? "key" : "query", keys ? key_of(S->a_row[0]) : query_of(S->a_row[0]), keys ? "query" : "key",
                 t->first);
        }
    }
    return m;
}

// A pair that has no tile, or several. Returns the rank of what is found, if below `worst`, or worst is 0.
static int see_pair(const record *r, bool keys, const meetings *m, int q, int k, const char *gaps, int worst)
{
    const int rows = all_rows(), Nk = e.s->kv_len;
    const unsigned char *const met = m->met + q * Nk;
    const bool listed = is_listed(), missing = met[k] == 0;
    char text[500] = "";
    int listed_tiles;
    bool tail = missing, again = false;
    for (int j = 0; j < keys_of(q) && e.table; j++) again |= met[j] > 1;
    for (int j = k; j < keys_of(q) && !keys; j++) tail &= met[j] == 0 || !sees(q, j);
    for (int i = q; keys && head_of(i) == head_of(q) && i < rows; i++) tail &= !sees(i, k) || m->met[i * Nk + k] == 0;
    // The end of a sequence that no part has explains what follows; a wrong mask, why a tile without a bit is left out.
    const bool begun = tail && !again && !keys && k && met[k - 1];
    const int rank = begun && e.table                                             ? BY_HEADS
                     : listed && is_in_part(q, k, text, &listed_tiles) && missing ? BY_MASK + 1
                                                                                  : BY_WALK;
    if (worst && worst <= rank) return worst;
    int n = 0;
    const char *begin = walk_of(r, keys, q, k, &n);
    const bool sink = e.problem->sinks && k < e.s->sinks && k <= query_of(q) - e.s->window;
    if (e.problem->sinks && k >= e.s->sinks) gaps = "bounds|bound|first tile|fetch|skip|queries|keys";
    if (!*begin && !is_backward()) gaps = "order|fetch|lists|share|head mapping|skip";
    if (tail && keys) APPEND(text, ". No block meets that key with queries from %d on", query_of(q));
    if (tail && !again && e.table) APPEND(text, ". No part owns its sequence's keys from %d on", k);
    if (listed && !missing) gaps = "first key|lists";
    if (again) gaps = "page lookup|share";
    if (keys && !missing && strstr(begin, "block")) gaps = "parts|queries";
    if (*begin)
        APPEND(text, "; the %s in the loop for that %s begin at:%s", keys ? "tiles of queries" : "tiles",
               keys ? "key" : "query", begin);
    else
        APPEND(text, "; %s", !keys && was_written(row_of_O(q)) ? "its block meets no tile" : "no block computes it");
    find(rank, missing ? "keys_missing" : "keys_twice", gaps, "%s%s %s key %d%s%s%s", kernel(keys), name_of(q),
         missing ? "sees" : "counts", k, sink ? " as a sink" : "", missing ? ", but never meets it" : " more than once",
         text);
    return rank;
}

// What a block needs and does not meet, or meets twice, is a mistake.
void look_at_walks(const record *r, bool keys)
{
    const char *const gaps = is_listed() ? "lists|first key"
                             : !is_backward()
                                 ? "bounds|bound|first tile|sink tiles|share|lists|first key|skip|fetch|overlap"
                             : keys ? "queries|parts|group|next head"
                                    : "keys";
    meetings m = read_meetings(r, keys, gaps);
    int worst = 0;  // the rank of what was found
    EACH_PAIR (q, all_rows(), k, e.s->kv_len) {
        const int at = q * e.s->kv_len + k;
        if (e.wrong && (!worst || worst > BY_HEADS) && (m.walks || !is_backward()) && (!m.met[at] || m.given[at] > 1) &&
            sees(q, k))
            worst = see_pair(r, keys, &m, q, k, gaps, worst);
    }
}
