// forward.c - what a forward did in each tile: whose keys and values it met, and which pairs it hid. walks.c and
// softmax.c go on from here.
//
// The record has Q K^T before the mask, the weights P, and O before and after P V was added.
#include "evidence.h"

static fit fit_heads[2] = {[0 ... 1] =
                               FIT(BY_HEADS, "head mapping|fetch|first key|page lookup|keys", .joint = "; it equals ")};

// The key head of query head h by formulas: which of a batch's heads, and where the heads of a batch begin; -1 is
// outside of the tensor.
static int head_forms(const fit *f, int h, form *forms)
{
    static const char *const by[] = {"h", "h / (Hq / Hkv)", "h / Hkv", "(h + 1) / (Hq / Hkv)"};
    static const char *const modulo[] = {"", " % Hkv", " % (Hq / Hkv)"};
    static const char *const begins[] = {"", " of the first batch", ", with batches starting at b Hq"};
    const int q = h % e.s->q_heads, b = h / e.s->q_heads, k = e.s->kv_heads, group = e.s->q_heads / k;
    const int divided[] = {q, q / group, q / k, (q + 1) / group};
    const int most[] = {1 << 30, k, group}, begin[] = {b * k, 0, b * e.s->q_heads};
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

// False if a query head is nobody's, while others are computed more than once or rows are read that Q does not have.
static bool look_at_queries(const record *r)
{
    bool *met = allocate((size_t)all_rows(), sizeof *met);
    int twice = -1, nobodys = 0, lacks = -1;  // heads, through all batches
    e.head = -1;
    EACH_WALK (r, n) {
        const int row = r->walks[n].first ? r->walks[n].first->a_row[0] : NO_ROW;
        if (row >= 0 && met[row] && !e.kv_len) twice = head_of(row);
        if (row >= 0) met[row] = true;
    }
    for (int n = 0; n < r->count; n++) {
        const product *p = &r->products[n];
        nobodys += p->scores && p->right == OF_K && p->left == NOBODY && p->a_row[0] == NOBODYS_ROW;
    }
    for (int h = all_rows() / e.s->q_len; h-- > 0;) {
        const int row = h * e.s->q_len;
        if ((!e.kv_len || keys_of(row)) && !memchr(met + row, true, (size_t)e.s->q_len)) lacks = h;
    }
    const bool wrong = lacks >= 0 && (nobodys || twice >= 0);
    char instead[80] = "blocks read rows of Q that are of no head";
    if (!nobodys) snprintf(instead, sizeof instead, "head %d is computed more than once", twice);
    if (wrong)
        find(BY_HEADS - 1, "heads of nobody", "head mapping|order|page lookup|packed rows|share",
             "no block computes query head %d, and %s (heads are numbered across the batch): from which row of Q on "
             "does each block read?",
             lacks, instead);
    free(met);
    return !wrong;
}

// K and V: which of their heads a query head reads. False if that is wrong.
bool look_at_heads(const record *r, bool of_V)
{
    enum { HEADS = 256 };
    const attention_shape *s = e.s;
    e.head = -1;
    int reads[HEADS], wrong = 0, nobodys = 0, row = -1, apart = 0;  // apart: heads that begin at a multiple of Nq
    bool own[HEADS] = {false};
    const int heads = min_int(HEADS, s->batch * s->q_heads);
    const char letter = of_V ? 'V' : 'K';
    for (int h = 0; h < heads; h++) reads[h] = NOBODYS_ROW;
    EACH_WALK (r, n) {
        const int q = step_count ? steps[0].S->a_row[0] : -1, h = q >= 0 ? head_of(q) : heads;
        if (step_count && h < heads && right_key_head(h) && steps[0].S->b_row[0] >= 0 && s->q_len != s->kv_len)
            apart += steps[0].S->b_row[0] == right_key_head(h) * s->q_len ? 1 : -heads;
        for (int t = 0; t < step_count && h < heads && !by_keys; t++) {
            const product *p = !of_V ? steps[t].S : steps[t].dP ? steps[t].dP : steps[t].P;
            const owner right = of_V ? OF_V : OF_K;
            if (p && p->right && p->right != right)
                find(BY_HEADS, "another tensor", "fetch|overlap|receive",
                     "in the tile that starts at key %d, a product reads rows of %s, but should read rows of %s",
                     steps[t].first, owner_names[p->right], owner_names[right]);
            for (int c = 0; p && c < (p->scores ? p->cols : p->depth); c++) {
                if (p->b_row[c] == NOBODYS_ROW) nobodys++, row = q, reads[h] = max_int(reads[h], -1);
                if (p->b_row[c] < 0) continue;
                const int head = key_head_of(p->b_row[c]);
                if (reads[h] < 0 || head != right_key_head(h)) reads[h] = head;
                own[h] |= head == right_key_head(h);
            }
        }
    }
    for (int h = 0; h < heads; h++) {
        form forms[MAX_FORMS];
        const bool others = reads[h] >= 0 && reads[h] != right_key_head(h);
        if (others && own[h])  // some tiles lie beyond the head
            nobodys++, row = h * s->q_len, reads[h] = right_key_head(h);
        else
            wrong += others;
        // A list may lead outside, whatever the head.
        if (reads[h] != NOBODYS_ROW && (reads[h] >= 0 || e.problem->signature != WB_BLOCK_MASK))
            see(&fit_heads[of_V], reads[h], 0, forms, head_forms(&fit_heads[of_V], h, forms),
                "query head %d reads %c of key head %d, but should read key head %d (heads are numbered across the "
                "batch; -1: no head)",
                h, letter, reads[h], right_key_head(h));
    }
    if (apart > 0 && !e.table)
        find(BY_HEADS, "Nq for Nk", "head mapping|fetch",
             "heads of %c are read Nq = %d rows apart, but are stored Nk = %d rows apart", letter, s->q_len, s->kv_len);
    if (nobodys && !wrong)
        find(e.problem->signature == WB_BLOCK_MASK ? BY_WALK : BY_HEADS, "",
             "head mapping|fetch|first tile|sink tiles|page lookup|lists|first key|keys",
             "query %d of head %d reads no row of %c: its address is outside of the tensor, or is not a multiple of D "
             "elements from the tensor's beginning",
             query_of(row), head_of(row), letter);
    return !wrong && !nobodys;
}

// A product of a step that meets other rows than those of the step's tile.
bool see_other_rows(const step *t, const product *p, const char *what, const char *gaps)
{
    for (int c = 0; p && c < t->S->cols; c++) {
        const int row = p->b_row[c], right = t->S->b_row[c];
        const bool none = row == NOBODYS_ROW && isnan(p->b[p->scores ? c : c * p->cols]);
        if (row == right || (row < 0 && !none) || right < 0) continue;
        char whose[80] = "they are NaN: never written, or not yet written";
        if (!none) snprintf(whose, sizeof whose, "those from %d on", (by_keys ? query_of(row) : key_of(row)) - c);
        find(BY_FACTOR, "of_another_tile", gaps,
             "in the step for the tile that starts at %s %d, the product of %s reads the wrong rows of %s: %s",
             by_keys ? "query" : "key", t->first, what, owner_names[p->right], whose);
        return true;
    }
    return false;
}

// The masks of 04 to 07 by what they are for: of the sinks, of the window left of the diagonal, of the diagonal.
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
    free(weighed);
    weighed = allocate((size_t)all_rows() * (size_t)e.s->kv_len, 1);
    EACH_WALK (r, n) {
        for (int t = 0; t < step_count && steps[t].P; t++)
            EACH_PAIR (i, steps[t].S->rows, c, steps[t].S->cols) {
                const int q = steps[t].S->a_row[i], j = key_of(steps[t].S->b_row[c]);
                if (q >= 0 && j >= 0 && steps[t].P->a[i * steps[t].P->depth + c] > 0)
                    weighed[(size_t)q * (size_t)e.s->kv_len + (size_t)j] = 1;
            }
    }
}

// The score, times what its key is to be multiplied by.
static double score_of(const product *S, int i, int c)
{
    return S->after[i * S->cols + c] * (e.K_scale && S->b_row[c] >= 0 ? scale_of_key(S->b_row[c]) : 1);
}

// Scores far below underflow are no sign: such pairs stay unclear.
static void fill_fates(pairs *p, const step *t, const double *largest)
{
    const product *S = t->S, *PV = t->P;
    const bool students = has_gap("max|accumulate|softmax") && worth_naming("max|accumulate|softmax");
    bool alive = !students;  // where the weights are given code, it is the mask that leaves none
    for (int at = 0; at < S->rows * S->cols; at++) alive |= PV->a[at] != 0;
    for (int i = 0; i < S->rows; i++) {
        // Where the weights are the student's, a key is hidden if a smaller score of its row has one.
        double lowest = students ? INFINITY : -INFINITY;
        for (int c = 0; c < S->cols; c++)
            if (PV->a[i * PV->depth + c] > 0 && S->b_row[c] >= 0) lowest = fmin(lowest, score_of(S, i, c));
        for (int c = 0; c < S->cols; c++) {
            const double P = PV->a[i * PV->depth + c], score = score_of(S, i, c);
            const bool tiny = score < lowest || score * base2_scale() < largest[i & 255] - 60;
            const bool seen = sees(S->a_row[i], p->key[c]);
            const bool elsewhere = seen && weighed[(size_t)S->a_row[i] * (size_t)e.s->kv_len + (size_t)p->key[c]];
            const fate none = seen ? (!alive || tiny || elsewhere ? UNCLEAR : HIDDEN) : alive ? HIDDEN : UNCLEAR;
            p->fate[i * S->cols + c] = P == 0 ? none : P > 0 && isfinite(P) ? WEIGHT : UNCLEAR;
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
        for (int i = 0; step_count && i < min_int(256, steps[0].S->rows); i++) {
            largest[i] = -INFINITY;
            EACH_PAIR (t, step_count, c, steps[t].S->cols)
                if (sees(steps[t].S->a_row[i], key_of(steps[t].S->b_row[c])))
                    largest[i] = fmax(largest[i], score_of(steps[t].S, i, c) * base2_scale());
        }
        for (int t = 0; t < step_count; t++) {
            const product *S = steps[t].S;
            if (!steps[t].P || S->a_row[0] < 0 || steps[t].first == NO_ROW) continue;
            pairs p = pairs_of(&steps[t], low);
            fill_fates(&p, &steps[t], largest);
            const bool listed = e.problem->signature == WB_BLOCK_MASK;
            add_to_mask(listed ? BITS : e.table ? PACKED : kind_of(low, &steps[t]), &p);
        }
    }
}

void look_at_forward(void)
{
    record r;
    if (!record_read(&r)) return;
    bool wide = false, single = true;  // a product goes over all columns; each is one mma.sync, no step of a walk
    for (int n = 0; n < r.count; n++) {
        wide |= r.products[n].depth == e.s->head_dim || r.products[n].cols == e.s->head_dim;
        single &= r.products[n].depth == 16 && r.products[n].cols == 8;
    }
    if (single) {
        look_at_fragments(&r);
        return;
    }
    if (!wide)
        find(BY_DELTA, "another D", "launch",
             "D is %d, but the kernel's products are computed with another number of columns, such as %d",
             e.s->head_dim, r.products[0].depth);
    e.widest = 0;
    EACH_WALK (&r, n) {
        for (int t = 0; t < step_count; t++) e.widest = max_int(e.widest, steps[t].S->cols);
    }
    if (look_at_queries(&r) && (!e.table || look_at_pages(&r)) && look_at_heads(&r, false)) look_at_heads(&r, true);
    if (e.problem->signature ==
        WB_FP8) {  // powers of two are everywhere, and the keys of a tile have another order in P
        look_at_walks(&r, false);
        look_at_e4m3(&r);
        return;
    }
    EACH_WALK (&r, n) {
        for (int t = 0; t < step_count; t++)
            if (see_other_rows(&steps[t], steps[t].P, "P", "fetch|overlap|receive|next|send|skip|accumulate")) break;
    }
    const bool scaled = !e.K_scale || look_at_scales(&r);
    look_at_walks(&r, false);
    if (scaled) look_at_tiles(&r);
    if (e.table)
        look_at_merge(&r);
    else
        look_at_softmax(&r);
}
