// forward.c - what a forward did in each tile: whose keys and values it met, and which pairs it hid. The record has
// Q K^T before the mask, the weights P, and O before and after P V was added.
#include "evidence.h"

static fit fit_heads[2] = {[0 ... 1] =
                               FIT(BY_HEADS, "head mapping|fetch|first key|page lookup|keys", .joint = ", which is ")};

// The key head of query head h by formulas: which of a batch's, and where that begins; -1: outside of the tensor.
static int head_forms(const fit *f, int h, form *forms)
{
    static const char *const by[] = {"h", "h / (Hq / Hkv)", "h / Hkv"};
    static const char *const modulo[] = {"", " % Hkv", " % (Hq / Hkv)"};
    static const char *const begins[] = {"", " of the first batch"};
    const int q = h % e.s->q_heads, b = h / e.s->q_heads, k = e.s->kv_heads, group = e.s->q_heads / k;
    const int divided[] = {q, q / group, q / k};
    const int most[] = {1 << 30, k, group}, begin[] = {b * k, 0};
    int n = 0;
    forms[n++] = (form){"", right_key_head(h)};
    add_form(f, forms, &n, b * k, "the first head");
    for (int from = 0; from < COUNT(begins); from++)
        EACH_PAIR (x, COUNT(by), y, COUNT(modulo)) {
            const int head = begin[from] + divided[x] % most[y];
            if (x == 1 && y == 1) continue;  // no other formula
            add_form(f, forms, &n, head < e.s->batch * k ? head : -1, "%s%s%s", by[x], modulo[y], begins[from]);
        }
    return n;
}

// Of a walk from query row q on: whether a step's weights are multiplied by V of their own keys.
static void look_at_keys_of_V(const step *t, const product *P, int q)
{
    const product *const S = t->S;
    for (int c = 0; c < S->cols; c++)
        if (P->b_row[c] >= 0 && S->b_row[c] >= 0 && key_of(P->b_row[c]) != key_of(S->b_row[c])) {
            const int K = key_of(S->b_row[c]), V = key_of(P->b_row[c]), end = query_of(q) + S->rows;
            const bool skipped = e.s->causal && has_gap("skip") && (K < end) != (V < end);
            find(BY_HEADS + 1, "V of another key", skipped ? "skip" : "fetch|skip|overlap|first key|page lookup",
                 "in the tile that starts at key %d, the weight of key %d for %s is multiplied by V of key %d%s",
                 t->first, K, name_of(q), V,
                 skipped ? ": of a tile that is skipped, the places of K and of V must be given back" : "");
        }
}

// K and V: which of their heads a query head reads. False if that is wrong.
bool look_at_heads(const record *r, bool of_V)
{
    enum { HEADS = 256 };
    const attention_shape *s = e.s;
    int reads[HEADS], wrong = 0, nobodys = 0, apart = 0;  // apart: heads begin at multiples of Nq
    char whose[60] = "";
    bool own[HEADS] = {false};
    const int heads = min_int(HEADS, s->batch * s->q_heads);
    const char letter = of_V ? 'V' : 'K';
    for (int h = 0; h < heads; h++) reads[h] = NOBODYS_ROW;
    EACH_WALK (r, n) {
        const int q = step_count ? steps[0].S->a_row[0] : -1, h = q >= 0 ? head_of(q) : heads;
        if (step_count && h < heads && right_key_head(h) && steps[0].S->b_row[0] >= 0 && s->q_len != s->kv_len)
            apart += steps[0].S->b_row[0] == right_key_head(h) * s->q_len ? 1 : -heads;
        for (const step *t = steps; t < steps + step_count && h < heads && !by_keys; t++) {
            const product *p = !of_V ? t->S : t->dP ? t->dP : t->P;
            if (p && of_V && !p->scores && e.problem->signature != WB_FP8)  // in 16, V has another order
                look_at_keys_of_V(t, p, q);
            for (int c = 0; p && c < (p->scores ? p->cols : p->depth); c++) {
                if (p->b_row[c] == NOBODYS_ROW) {
                    if (!nobodys++) snprintf(whose, sizeof whose, "%s", name_of(q));
                    reads[h] = max_int(reads[h], -1);
                }
                if (p->b_row[c] < 0) continue;
                const int head = key_head_of(p->b_row[c]);
                if (e.table && p->b_row[0] >= 0 && head != key_head_of(p->b_row[0]) &&
                    head / s->kv_heads == key_head_of(p->b_row[0]) / s->kv_heads)
                    find(BY_HEADS - 1, "heads in a tile", "fetch",
                         "rows of %c in one tile are of key heads %d and %d: a key's heads lie before the next key",
                         letter, key_head_of(p->b_row[0]), head);
                if (reads[h] < 0 || head != right_key_head(h)) reads[h] = head;
                own[h] |= head == right_key_head(h);
            }
        }
    }
    for (int h = 0; h < heads; h++) {
        form forms[MAX_FORMS];
        const bool others = reads[h] >= 0 && reads[h] != right_key_head(h);
        if (others && own[h])  // some tiles lie beyond the head
            reads[h] = right_key_head(h), nobodys++;
        else
            wrong += others;
        // A list may lead outside, whatever the head.
        if (reads[h] != NOBODYS_ROW && (reads[h] >= 0 || !is_listed()))
            see(&fit_heads[of_V], reads[h], 0, forms, head_forms(&fit_heads[of_V], h, forms),
                "query head %d should read %c of key head %d, but reads key head %d%s", h, letter, right_key_head(h),
                reads[h], s->batch > 1 || reads[h] < 0 ? " (heads are numbered across the batch; -1: no head)" : "");
    }
    if (apart > 0 && !e.table)
        find(BY_HEADS, "Nq for Nk", "head mapping|fetch",
             "heads of %c are read Nq = %d rows apart, but are stored Nk = %d rows apart", letter, s->q_len, s->kv_len);
    if (*whose && !wrong)
        find(is_listed() ? BY_WALK : BY_HEADS, "",
             e.problem->on_host ? "bound" : "head mapping|fetch|first tile|sink tiles|page lookup|lists|first key|keys",
             "%s meets a row that is no row of %c: from past the last key, or not written yet", whose, letter);
    return !wrong && !nobodys;
}

// The masks of 04 to 07: of the sinks, of the window left of the diagonal, of the diagonal.
static mask_kind kind_of(int low, const step *t)
{
    if (e.problem->mask == WB_NO_MASK || (e.problem->mask == WB_CAUSAL_OPTIONAL && !e.s->causal)) return TAIL;
    if (e.problem->sinks && t->S->cols < e.widest) return SINKS;
    const bool reaches = t->first / t->S->cols >= (low + 1) / t->S->cols || t->first < 0;
    return !e.problem->window || reaches ? DIAGONAL : WINDOW;
}

// Which pairs get a weight in some tile: [all_rows(), Nk]. What one tile hides another may have.
static unsigned char *weighed;

static void note_weights(const record *r)
{
    weighed = allocate((size_t)(all_rows() * e.s->kv_len), 1);
    EACH_WALK (r, n)
        for (const step *t = steps; t < steps + step_count && t->P; t++)
            EACH_PAIR (i, t->S->rows, c, t->S->cols) {
                const int q = t->S->a_row[i], j = key_of(t->S->b_row[c]);
                if (q >= 0 && j >= 0 && weight_at(t, i, c) > 0) weighed[q * e.s->kv_len + j] = 1;
            }
}

// The score, times what its key is to be multiplied by.
static double score_of(const product *S, int i, int c)
{
    return S->after[i * S->cols + c] * (e.K_scale && S->b_row[c] >= 0 ? scale_of_key(S->b_row[c]) : 1);
}

// Unclear are scores far below underflow, and a weight of 0 in a row with an infinite or NaN one: m is infinite, too.
static void fill_fates(pairs *p, const step *t, const double *largest)
{
    const product *S = t->S, *PV = t->P;
    const bool students = has_gap("max|accumulate|softmax") && worth_naming("max|accumulate|softmax");
    bool alive = !students;  // where the weights are given code, it is the mask that leaves none
    for (int at = 0; at < S->rows * S->cols; at++) alive |= PV->a[at] != 0;
    for (int i = 0; i < S->rows; i++) {
        double lowest = INFINITY;  // a key is hidden if a smaller score of its row has a weight
        bool finite = true, dead = largest[i & 255] < -100;  // dead: 2^(score - m) is 0 for an m of 0
        for (int c = 0; c < S->cols; c++) {
            const double P = PV->a[i * PV->depth + c];
            if (P > 0 && S->b_row[c] >= 0) lowest = fmin(lowest, score_of(S, i, c));
            finite &= (bool)isfinite(P), dead &= P == 0;
        }
        if (!students && isinf(lowest)) lowest = -INFINITY;
        for (int c = 0; c < S->cols; c++) {
            const double P = PV->a[i * PV->depth + c], score = score_of(S, i, c);
            const bool tiny = score < lowest || score * base2_scale() < largest[i & 255] - 60;
            const bool seen = sees(S->a_row[i], p->key[c]);
            const bool elsewhere = seen && weighed[S->a_row[i] * e.s->kv_len + p->key[c]];
            const fate none = seen ? (!alive || tiny || elsewhere ? UNCLEAR : HIDDEN) : alive ? HIDDEN : UNCLEAR;
            p->fate[i * S->cols + c] = !finite || dead ? UNCLEAR : P == 0 ? none : P > 0 ? WEIGHT : UNCLEAR;
        }
    }
}

static void look_at_tiles(const record *r)
{
    note_weights(r);
    EACH_WALK (r, n) {
        double largest[256];
        int low, high;
        block_of(r, n, &low, &high);
        for (int i = 0; i < min_int(256, rows_of_walk()); i++) {
            largest[i] = -INFINITY;
            EACH_STEP(t)
            for (int c = 0; c < t->S->cols; c++)
                if (sees(t->S->a_row[i], key_of(t->S->b_row[c])))
                    largest[i] = fmax(largest[i], score_of(t->S, i, c) * base2_scale());
        }
        EACH_STEP(t)
        {
            const product *S = t->S;
            if (!t->P || S->a_row[0] < 0 || t->first == NO_ROW) continue;
            pairs p = pairs_of(t, low);
            fill_fates(&p, t, largest);
            const bool listed = is_listed();
            const mask_kind kind = listed ? BITS : e.table ? PACKED : kind_of(low, t);
            look_at_hidden_nan(kind, t), add_to_mask(kind, &p);
        }
    }
}

void look_at_forward(void)
{
    record r;
    if (!record_read(&r)) return;
    bool single = true;  // each product is one mma.sync, no step of a walk
    for (int n = 0; n < r.count; n++) single &= r.products[n].depth == 16 && r.products[n].cols == 8;
    if (single) look_at_fragments(&r);
    if (single) return;
    EACH_WALK (&r, n) EACH_STEP(t) e.widest = max_int(e.widest, t->S->cols);
    if ((!e.table || look_at_pages(&r)) && look_at_heads(&r, false)) look_at_heads(&r, true);
    const bool scaled = !e.K_scale || look_at_scales(&r), bytes = e.problem->signature == WB_FP8;
    look_at_walks(&r, false);
    // In bytes, powers of two are everywhere, and the keys of a tile have another order in P.
    if (scaled && !bytes) look_at_tiles(&r);
    if (bytes)
        look_at_e4m3(&r);
    else if (e.table)
        look_at_merge(&r);
    else
        look_at_softmax(&r);
}
