// fragments.c - problem 19: whose rows the factors of each mma are, by chunks of eight, and of what weights are made.
#include "evidence.h"

static fit fit_keys = FIT(BY_HEADS, "keys", .joint = ": ", .exact = true);
static fit fit_values = FIT(BY_HEADS + 1, "values", .joint = ": ", .exact = true);

typedef struct chunk {
    owner of;
    int row, number;
} chunk;

static int chunks(void) { return e.s->head_dim / 8; }  // of a row

static chunk chunk_of(const float *x, int stride)
{
    const float *const tensors[] = {[OF_Q] = e.Q, [OF_K] = e.K, [OF_V] = e.V};
    for (owner of = OF_Q; of <= OF_V; of++)
        EACH_PAIR (row, of == OF_Q ? all_rows() : e.s->batch * e.s->kv_heads * e.s->kv_len, n, chunks()) {
            const float *at = tensors[of] + (size_t)(row * chunks() + n) * 8;
            int same = 0;
            while (same < 8 && at[same] == x[same * stride]) same++;
            if (same == 8) return (chunk){of, row, n};
        }
    return (chunk){NOBODY, 0, 0};
}

// One of eight columns, or rows, of a right factor: half of 16. right, order: what belongs, and what is there where
// blocks come in another order; of the chunk with which the factor begins, `first`.
static void see_chunk(fit *f, chunk is, chunk first, chunk right, chunk order, const char *orders)
{
    const int C = chunks(), together = C < 8 ? 8 / C : 1, turn = key_of(right.row) / together % (8 / together);
    if (is.of != first.of || first.row / e.s->kv_len != right.row / e.s->kv_len) return;  // a key past the last
    const form forms[] = {{"", right.row * C + right.number},
                          {orders, order.row * C + order.number},
                          {"a slot was fetched as if it were a chunk: the address must come from chunk()",
                           right.row * C + (right.number ^ turn)}};
    see(f, is.row * C + is.number, 0, forms, COUNT(forms),
        "the right factor of a product contains columns %d to %d of key %d of %s, but should contain columns %d to %d "
        "of key %d",
        8 * is.number, 8 * is.number + 7, key_of(is.row), owner_names[is.of], 8 * right.number, 8 * right.number + 7,
        key_of(right.row));
}

static void look_at_right(const product *p, owner of, chunk first, int number)
{
    const bool K = of == OF_K;
    if (chunk_of(p->b, K ? 1 : 8).of == of)
        find(K ? BY_HEADS : BY_HEADS + 1, ".trans", K ? "keys" : "values",
             "%c is fetched with%s .trans: its rows become %s of the right factor", K ? 'K' : 'V', K ? "" : "out",
             K ? "rows, and not columns," : "columns, and not rows,");
    for (int j = 0; j < 16 && first.of == of; j++) {
        const chunk row = {of, first.row + j, first.number}, column = {of, first.row + j % 8, number + j / 8};
        see_chunk(K ? &fit_keys : &fit_values, K ? chunk_of(p->b + j / 8 * 64 + j % 8, 8) : chunk_of(p->b + 8 * j, 1),
                  first, K ? column : row, K ? row : column,
                  K ? "the blocks of K are in the order that only Q needs"
                    : "the blocks of V are in the order that only K needs");
    }
}

// Of 16 queries and 8 keys, as their last product left them.
static const product *scores[4096];
static int score_count, score_key[4096];

// Whether register f[to] of lanes is 2^(scale log2(e) S - m) of the quarter of scores that f[from] belongs to, with one
// m for a lane's two columns, which comes to m[row][lane of four].
static bool is_made_of(const product *p, const product *const S[2], int to, int from, int swapped, double m[8][4])
{
    EACH_PAIR (i, 8, t, 4) {
        double is[2];
        for (int j = 0; j < 2; j++) {
            const double P = p->a[(i + to % 2 * 8) * 16 + to / 2 * 8 + 2 * t + j];
            const double score = S[from / 2]->after[(i + from % 2 * 8) * 8 + 2 * t + (j ^ swapped)];
            is[j] = P > 1e-20 ? score * base2_scale() - log2(P) : NAN;
        }
        m[i][t] = is[0];
        if (fabs(is[0] - is[1]) > 0.03 + 1e-3 * fabs(is[0])) return false;
    }
    return true;
}

static void look_at_lanes(double m[8][4])
{
    int alike = 0;  // rows, to that beside them, and to no other
    for (int i = 0; i < 8; i++) alike += (fabs(m[i][0] - m[i ^ 1][0]) < 0.02) - (fabs(m[i][0] - m[i ^ 2][0]) < 0.02);
    if (alike > 5)
        find(BY_MAXIMUM, "m of two rows", "row",
             "rows 0 and 1, 2 and 3, ... subtract the same number: the maximum is over eight lanes");
}

static void look_at_weights(const product *p, int key)
{
    double m[8][4];
    for (int k = 0; k < 2 * score_count; k++) {  // those that are right first
        const int n = k % score_count, most = k < score_count ? 1 : 8;
        const product *S[2] = {scores[n], NULL};
        int from[4], fits = 0;
        if (S[0]->walker != p->walker || score_key[n] != key) continue;
        for (int o = 0; o < score_count; o++)
            if (scores[o]->walker == p->walker && score_key[o] == key + 8 && scores[o]->a_row[0] == S[0]->a_row[0])
                S[1] = scores[o];
        for (int to = 0; S[1] && to < 4; fits += from[to++] < most)  // itself first
            for (from[to] = 0; from[to] < most && !is_made_of(p, S, to, to ^ from[to] / 2, from[to] % 2, m);)
                from[to]++;
        if (fits < 4) continue;
        for (int to = 0; to < 4; to++) {
            const int of = to ^ from[to] / 2;
            if (from[to])
                find(BY_SUM, of == to ? "pairs" : "quarters", "weights",
                     "f[%d] contains rows %d to %d, columns %d to %d of P%s; it needs rows %d to %d, columns %d to %d, "
                     "the left column of a pair in the lower half",
                     to, of % 2 * 8, of % 2 * 8 + 7, of / 2 * 8, of / 2 * 8 + 7,
                     from[to] % 2 ? " with the two columns of each pair exchanged" : "", to % 2 * 8, to % 2 * 8 + 7,
                     to / 2 * 8, to / 2 * 8 + 7);
            if (from[to]) return;
        }
        is_made_of(p, S, 0, 0, 0, m);
        look_at_lanes(m);
        return;
    }
}

void look_at_fragments(const record *r)
{
    enum { MOST = 600 };
    score_count = 0;
    if (e.c->input != WB_NORMAL) return;  // chunks may be alike
    for (int n = 0; n < min_int(r->count, MOST); n++) {
        const product *p = &r->products[n];
        const chunk A = chunk_of(p->a, 1), column = chunk_of(p->b, 8), row = chunk_of(p->b, 1);
        if (A.of != OF_Q && column.of != OF_K) {
            look_at_right(p, OF_V, row, row.number);
            if (row.of == OF_V) look_at_weights(p, row.row);
            continue;
        }
        if (A.of == OF_Q) look_at_right(p, OF_K, column, A.number);
        if (column.number + 2 == chunks() && column.of == OF_K && score_count < COUNT(scores))
            p->a_row[0] = A.of ? A.row : NO_ROW, score_key[score_count] = column.row, scores[score_count++] = p;
    }
}
