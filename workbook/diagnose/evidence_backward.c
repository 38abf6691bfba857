// evidence_backward.c - what a backward did in each step: which pairs it met, what P and dS were, what it added up, what it stored.
//
// Two kernels: one has keys on the left of its scores and sums up dV from P and dK from dS, the other queries, and dQ from dS. P of the
// second follows from dS and dP. delta has no products: it is looked at as it came out.
#include "mistakes_model.h"

#include "evidence_record.h"

#include <stdio.h>

enum {
    BY_DELTA = 5,
    BY_HEADS = 10,
    BY_WALK = 20,
    BY_FACTOR = 25,
    BY_MASK = 30,
    BY_EXPONENT = 40,
    BY_DS = 45,
    BY_SUM = 50,
    BY_END = 55,
    BY_WASTE = 60
};

// One step: S, dP, and the two products that take P and dS, or the one that takes dS.
typedef struct step {
    const product *S, *dP, *P, *dS, *again;  // again: a sum that goes on where another of the same step ended
} step;

enum { STEPS = 4096, MOST = 64 };

static const evidence *e;
static const attention_shape *s;
static judge_of_gaps may;
static finding *best;
static double s2;
static step steps[STEPS];
static int step_count;
static bool by_keys;  // the walk at hand is of the kernel that owns keys

static int query_of(int row) { return row % s->q_len; }
static int key_of(int row) { return row % s->kv_len; }
static int group_of(void) { return s->q_heads / s->kv_heads; }
static int head_of_query(int row) { return row / s->q_len / group_of(); }  // its key head, through all batches

static void name_pair(const product *S, int i, int c, int *q, int *k)
{
    *q = by_keys ? S->b_row[c] : S->a_row[i], *k = by_keys ? S->a_row[i] : S->b_row[c];
}

static bool sees(int q, int k)
{
    return q >= 0 && k >= 0 && head_of_query(q) == k / s->kv_len &&
           oracle_visible(e->in.problem, s, query_of(q), key_of(k));
}

static const char *owner_name(owner o)
{
    static const char *const names[] = {"no input", "Q", "K", "V", "dO"};
    return names[o];
}

static const char *own(const char *of_keys, const char *of_queries) { return by_keys ? of_keys : of_queries; }

static bool goes_on(const product *from, const product *to)
{
    const size_t bytes = (size_t)to->rows * (size_t)to->cols * sizeof(float);
    bool zero = true;
    for (int n = 0; n < to->rows * to->cols; n++) zero &= to->before[n] == 0;
    return !zero && from->cols == to->cols && memcmp(from->after, to->before, bytes) == 0;
}

// The steps of a walk. Sums whose right factor is none of the right ones are told apart by their order.
static void read_steps(const walk *w)
{
    step_count = 0;
    by_keys = w->first && w->first->left == OF_K;
    step *now = NULL;
    for (const product *p = w->at; w->first && p < w->at + w->count; p++) {
        if (p->scores && (p->left == w->first->left) && p->right == w->first->right && step_count < STEPS)
            *(now = &steps[step_count++]) = (step){p, NULL, NULL, NULL, NULL};
        else if (now && p->scores && !now->dP)
            now->dP = p;
        else if (now && !p->scores && p->rows == now->S->rows && p->depth == now->S->cols) {
            if ((now->P && goes_on(now->P, p)) || (now->dS && goes_on(now->dS, p)))
                now->again = p;
            else if (by_keys && p->right == OF_dO && !now->P)
                now->P = p;
            else if (by_keys && p->right == OF_Q && !now->dS && (now->P || now->dP))
                now->dS = p;
            else if (by_keys && !now->P && !now->dP)
                now->P = p;
            else if (!now->dS)
                now->dS = p;
            else if (by_keys && !now->P)
                now->P = p;
        }
    }
}

// ------------------------------------------------------------------------------------------------------------------- delta

static void look_at_delta(void)
{
    const int rows = s->batch * s->q_heads * s->q_len, D = s->head_dim;
    const float *delta = e->out[3], *O = e->in.O, *dO = e->in.dO;
    double right[2048], sizes[2048];
    if (!delta || rows > 2048) return;
    int wrong = -1, lanes = 0, ratio_fits = 0, count = 0;
    double ratio = 0;
    for (int i = 0; i < rows; i++) {
        right[i] = sizes[i] = 0;
        for (int d = 0; d < D; d++) {
            const double term = (double)O[i * D + d] * dO[i * D + d];
            right[i] += term, sizes[i] += fabs(term);
        }
        if (wrong < 0 && !(fabs(delta[i] - right[i]) <= 1e-4 * sizes[i] + 1e-30))
            wrong = i, ratio = delta[i] / right[i];
    }
    if (wrong < 0) return;
    char more[200] = "";
    for (int i = 0; i < rows; i++) ratio_fits += fabs(delta[i] - ratio * right[i]) <= 1e-4 * fabs(ratio) * sizes[i];
    // Sums over neighbouring rows, or over some of the columns?
    for (int n = 2; n <= 64 && !lanes; n *= 2) {
        int fits = 0;
        count = 0;
        for (int i = 0; i + n <= rows; i += n, count++) {
            double sum = 0, size = 0;
            for (int k = i; k < i + n; k++) sum += right[k], size += sizes[k];
            fits += fabs(delta[i] - sum) <= 1e-4 * size;
        }
        if (count && fits == count) lanes = n;
    }
    if (ratio_fits == rows)
        snprintf(more, sizeof more, ": in all rows it is %.4g times what it should be", ratio);
    else if (lanes)
        snprintf(more, sizeof more, ": it is the sum over %d rows, from lanes that hold other rows", lanes);
    else
        for (int width = D / 2; width >= 1 && !*more; width /= 2)
            for (int from = 0; from < D && !*more; from += width) {
                int fits = 0;
                for (int i = 0; i < rows; i++) {
                    double part = 0;
                    for (int d = from; d < from + width; d++) part += (double)O[i * D + d] * dO[i * D + d];
                    fits += fabs(delta[i] - part) <= 1e-4 * sizes[i];
                }
                if (fits == rows)
                    snprintf(more, sizeof more, ": it is the sum over columns %d to %d alone", from, from + width - 1);
            }
    find(best, may, BY_DELTA, "delta",
         "delta[%d], which is an output of its own, is %.5g where the sum over dO * O of that row is %.5g%s", wrong,
         delta[wrong], right[wrong], more);
}

// ------------------------------------------------------------------------------------------------------------------- pairs

// P of a pair as the kernel had it: itself, or by dS = P (dP - delta).
static double weight_of(const step *t, int i, int c, int q)
{
    const int at = i * t->S->cols + c;
    if (t->P) return t->P->a[at];
    const double x = t->dP->after[at] - e->out[3][q];
    return fabs(x) > 1e-3 ? t->dS->a[at] / x : NAN;
}

static bool has_weights(const step *t) { return t->P || (t->dS && t->dP && e->out[3]); }

static void look_at_heads(void)
{
    for (int t = 0; by_keys && t < step_count; t++) {
        const product *S = steps[t].S;
        for (int c = 0; c < S->cols; c++) {
            if (S->b_row[c] < 0 || S->a_row[0] < 0) continue;
            bool given = false;
            for (int i = 0; i < S->rows && steps[t].P; i++) given |= steps[t].P->a[i * S->cols + c] != 0;
            const int head = S->a_row[0] / s->kv_len, q = S->b_row[c] / s->q_len;
            if (!given || head_of_query(S->b_row[c]) == head) continue;
            find(best, may, BY_HEADS, t > 0 ? "next head|group" : "group",
                 "in step %d the block of keys %d of key head %d takes queries of query head %d; its group is query "
                 "heads %d to %d (counted through the batches)",
                 t, key_of(S->a_row[0]), head, q, head * group_of(), (head + 1) * group_of() - 1);
            return;
        }
    }
}

// The pairs that get no weight, or more than one, in all walks of one kernel.
static void look_at_pairs(const record *r, bool keys)
{
    const int rows = s->batch * s->q_heads * s->q_len, Nk = s->kv_len;
    unsigned char *met = calloc((size_t)rows * (size_t)Nk + 1, 1), *given = calloc((size_t)rows * (size_t)Nk + 1, 1);
    if (!met || !given) exit(2);
    int walks = 0;
    for (int n = 0; n < r->walk_count; n++) {
        read_steps(&r->walks[n]);
        if (by_keys != keys) continue;
        walks += step_count > 0;
        for (int t = 0; t < step_count; t++)
            for (int i = 0; i < steps[t].S->rows; i++)
                for (int c = 0; c < steps[t].S->cols; c++) {
                    int q, k;
                    name_pair(steps[t].S, i, c, &q, &k);
                    if (q < 0 || k < 0 || head_of_query(q) != k / Nk) continue;
                    const size_t at = (size_t)q * (size_t)Nk + (size_t)key_of(k);
                    met[at]++;
                    const product *left = steps[t].dS ? steps[t].dS : steps[t].P;
                    given[at] += left && left->a[i * steps[t].S->cols + c] != 0;
                }
    }
    int missing = 0, twice = 0, q0 = -1, k0 = -1, q1 = -1, k1 = -1, last = -1;
    for (int k = 0; k < Nk && walks; k++)
        for (int q = 0; q < rows; q++) {
            const size_t at = (size_t)q * (size_t)Nk + (size_t)k;
            if (!oracle_visible(e->in.problem, s, query_of(q), k)) continue;
            if (met[at] == 0 && missing++ == 0) q0 = q, k0 = k;
            if (met[at] == 0 && k == k0 && q / s->q_len == q0 / s->q_len) last = q;
            if (given[at] > 1 && twice++ == 0) q1 = q, k1 = k;
        }
    const char *where = keys ? "queries|parts|group|next head" : "keys";
    const char *what = keys ? "kernel of dK and dV" : "kernel of dQ";
    char walk_text[300] = "";
    if (missing) {
        size_t at = 0;
        for (int n = 0; n < r->walk_count && at + 80 < sizeof walk_text; n++) {
            read_steps(&r->walks[n]);
            if (by_keys != keys || !step_count) continue;
            bool has = false;
            for (int i = 0; i < steps[0].S->rows; i++)
                has |= keys ? steps[0].S->a_row[i] >= 0 && key_of(steps[0].S->a_row[i]) == k0 &&
                                  steps[0].S->a_row[i] / Nk == head_of_query(q0)
                            : steps[0].S->a_row[i] == q0;
            if (!has) continue;
            at += (size_t)snprintf(walk_text + at, sizeof walk_text - at,
                                   at ? "; another goes on with"
                                      : "; the walk that has it goes through tiles of %s that begin at",
                                   keys ? "queries" : "keys");
            for (int t = 0; t < step_count && at + 40 < sizeof walk_text; t++)
                if (steps[t].S->b_row[0] >= 0)
                    at +=
                        (size_t)snprintf(walk_text + at, sizeof walk_text - at, " %d", steps[t].S->b_row[0] % s->q_len);
        }
        if (keys)
            find(best, may, BY_WALK, where,
                 "in the %s key %d never meets queries %d to %d of query head %d, which see it%s", what, k0,
                 query_of(q0), query_of(last), q0 / s->q_len, walk_text);
        else
            find(best, may, BY_WALK, where, "in the %s query %d never meets key %d, which it sees%s", what,
                 query_of(q0), k0, walk_text);
    }
    if (twice)
        find(best, may, BY_WALK, where,
             "in the %s the pair of query %d and key %d counts %d times (%d pairs are counted more than once)", what,
             query_of(q1), k1, given[(size_t)q1 * (size_t)Nk + (size_t)k1], twice);
    free(met), free(given);
}

// What each product multiplies.
static void look_at_factors(void)
{
    for (int t = 0; t < step_count; t++) {
        const step *now = &steps[t];
        const owner left = by_keys ? OF_V : OF_dO, right = by_keys ? OF_dO : OF_V;
        if (now->dP && now->dP->left && now->dP->right && (now->dP->left != left || now->dP->right != right))
            find(best, may, BY_FACTOR, own("dS", "dS for dQ"), "dP is made of %s and %s, where %s and %s are right",
                 owner_name(now->dP->left), owner_name(now->dP->right), owner_name(left), owner_name(right));
        if (by_keys && now->P && now->P->right && now->P->right != OF_dO)
            find(best, may, BY_FACTOR, "dV", "dV is summed up from rows of %s, where dO is right",
                 owner_name(now->P->right));
        if (now->dS && now->dS->right && now->dS->right != (by_keys ? OF_Q : OF_K))
            find(best, may, BY_FACTOR, own("dK", "dQ"), "%s is summed up from rows of %s, where %s is right",
                 own("dK", "dQ"), owner_name(now->dS->right), own("Q", "K"));
        for (int c = 0; c < now->S->cols; c++) {
            const char *which = NULL, *gap = NULL;
            if (now->dS && now->dS->b_row[c] != now->S->b_row[c]) which = own("dK", "dQ"), gap = own("dK", "dQ");
            if (by_keys && now->P && now->P->b_row[c] != now->S->b_row[c]) which = "dV", gap = "dV";
            if (now->dP && now->dP->b_row[c] != now->S->b_row[c]) which = "dP", gap = own("dS", "dS for dQ");
            if (!which || now->S->b_row[c] < 0) continue;
            find(best, may, BY_FACTOR + 1, gap, "in step %d %s takes other %s than S", t, which,
                 own("queries", "keys"));
            break;
        }
        if (now->again)
            find(best, may, BY_FACTOR, by_keys && now->P && goes_on(now->P, now->again) ? "dV" : own("dK", "dQ"),
                 "in step %d two products are added to one sum", t);
        if (by_keys && !now->P && now->dS) find(best, may, BY_FACTOR, "dV", "in step %d nothing is added to dV", t);
        if (!now->dS && (now->P || !by_keys) && now->dP)
            find(best, may, BY_FACTOR, own("dK", "dQ"), "in step %d nothing is added to %s", t, own("dK", "dQ"));
    }
}

// ------------------------------------------------------------------------------------------------------------------ values

static double right_weight(const product *S, int i, int c, int q, int k)
{
    return sees(q, k) ? exp2(S->after[i * S->cols + c] * s2 - e->in.L[q] * LOG2E) : 0;
}

// The weights of a step: which pairs have one, and from which exponent. True if they are right.
static bool look_at_weights(const step *t)
{
    const product *S = t->S;
    const char *mask = own("mask of dK and dV|recompute", "mask of dQ|recompute for dQ");
    const int lines = by_keys ? S->cols : S->rows, length = by_keys ? S->rows : S->cols;
    int shown = 0, lost = 0, hidden = 0, sq = 0, sk = 0, lq = 0, lk = 0, low = 1 << 30, high = -low;
    bool alive = false, right = true;
    for (int at = 0; at < S->rows * S->cols; at++) alive |= (t->P ? t->P : t->dS)->a[at] != 0;
    for (int i = 0; i < S->rows; i++)
        for (int c = 0; c < S->cols; c++) {
            int q, k;
            name_pair(S, i, c, &q, &k);
            if (q < 0 || k < 0 || head_of_query(q) != k / s->kv_len) continue;
            const double P = (t->P ? t->P : t->dS)->a[i * S->cols + c];
            hidden += !sees(q, k);
            if (!sees(q, k) && P != 0) {
                if (shown++ == 0) sq = query_of(q), sk = key_of(k);
                low = min_int(low, key_of(k) - query_of(q)), high = max_int(high, key_of(k) - query_of(q));
            }
            if (sees(q, k) && P == 0 && right_weight(S, i, c, q, k) > 1e-20 &&
                fabs(t->dP ? t->dP->after[i * S->cols + c] - e->out[3][q] : 1) > 1e-3)
                if (lost++ == 0) lq = query_of(q), lk = key_of(k);
        }
    if (shown) {
        find(best, may, BY_MASK, mask,
             "in the kernel of %s query %d gives a weight to key %d, which is hidden from it; of the %d pairs to be "
             "hidden in this tile %d are not, with j - i from %d to %d (W = %d, sinks = %d)",
             own("dK and dV", "dQ"), sq, sk, hidden, shown, low, high, e->in.problem->window ? s->window : s->q_len,
             e->in.problem->sinks ? s->sinks : 0);
        right = false;
    }
    if (lost && alive) {
        find(best, may, BY_MASK, mask,
             "in the kernel of %s query %d gives no weight to key %d, which it sees, in a tile where %d pairs are "
             "hidden in the same way",
             own("dK and dV", "dQ"), lq, lk, lost);
        right = false;
    }
    for (int n = 0; n < lines; n++) {
        double x[256], y[256], from = 0, off = 0;
        int count = 0, q = -1, k;
        for (int m = 0; m < length && m < 256; m++) {
            const int i = by_keys ? m : n, c = by_keys ? n : m;
            name_pair(S, i, c, &q, &k);
            if (!sees(q, k)) continue;
            const double P = weight_of(t, i, c, q), small = t->P ? 0 : 0.3;
            if (!t->P && fabs(t->dP->after[i * S->cols + c] - e->out[3][q]) < small) continue;
            if (isnan(P) || isinf(P)) {
                find(best, may, BY_EXPONENT, own("recompute", "recompute for dQ|dS for dQ"),
                     "P of query %d in the kernel of %s is not finite", query_of(q), own("dK and dV", "dQ"));
                return false;
            }
            if (!(P > 1e-30)) continue;
            x[count] = S->after[i * S->cols + c], y[count] = log2(P), from += x[count] * s2 - y[count], count++;
        }
        if (count == 0 || (!t->P && count < 4)) continue;
        name_pair(S, by_keys ? 0 : n, by_keys ? n : 0, &q, &k);
        if (q < 0) continue;
        from /= count;
        for (int m = 0; m < count; m++) off = fmax(off, fabs(x[m] * s2 - y[m] - from));
        const double L = e->in.L[q], slack = 0.02 + 1e-4 * fabs(L), close = t->P ? slack : 0.05;
        if (off <= close && fabs(from - L * LOG2E) <= close) continue;
        const line l = line_through(x, y, count);
        const named_number factors[] = {{1, ": the scores as they are"},     {s->scale, ": scale, without log2(e)"},
                                        {LOG2E, ": log2(e), without scale"}, {s2 * LOG2E, ": log2(e) twice"},
                                        {s2 * s->scale, ": scale twice"},    {-s2, ": the wrong sign"}};
        const named_number shifts[] = {{L, ": L in base e"},
                                       {L * LOG2E * LOG2E, ": L times log2(e) twice"},
                                       {-L * LOG2E, ": L is added"},
                                       {e->out[3][q], ": that is delta"},
                                       {L * LOG2E * s2, ": L is multiplied by the scale"},
                                       {L * s2, ": L is multiplied by the scale"},
                                       {L * LOG2E * s->scale, ": L is multiplied by scale"}};
        right = false;
        if (off <= close)
            find(best, may, BY_EXPONENT, own("recompute", "recompute for dQ"),
                 "P of query %d is 2^(scale log2(e) S - %.5g) in the kernel of %s, where L log2(e) = %.5g has to be "
                 "subtracted%s",
                 query_of(q), from, own("dK and dV", "dQ"), L * LOG2E,
                 fabs(from) < 0.01 ? ": nothing is" : name_of(from, shifts, sizeof shifts / sizeof *shifts, 0.01));
        else if (count > 4 && l.off <= close)
            find(best, may, BY_EXPONENT, own("recompute", "recompute for dQ"),
                 "P of query %d is 2^(%.4g S - ...) in the kernel of %s, where scale log2(e) = %.4g belongs before S%s",
                 query_of(q), l.slope, own("dK and dV", "dQ"), s2,
                 name_of(l.slope, factors, sizeof factors / sizeof *factors, 0.02));
        else
            find(best, may, BY_EXPONENT, t->P ? own("recompute", "recompute for dQ") : "dS for dQ|recompute for dQ",
                 "P of query %d is not 2^(scale log2(e) S - L log2(e)) in the kernel of %s", query_of(q),
                 own("dK and dV", "dQ"));
    }
    return right;
}

// If dS is right but what dV is summed up from is not P, P was right where it was needed.
static bool look_at_left_of_dV(const step *t)
{
    const product *S = t->S;
    int wrong = 0, wrong_dS = 0, is_dS = 0, is_dP = 0, is_0 = 0, count = 0;
    for (int i = 0; i < S->rows; i++)
        for (int c = 0; c < S->cols; c++) {
            int q, k;
            name_pair(S, i, c, &q, &k);
            if (q < 0 || k < 0 || head_of_query(q) != k / s->kv_len) continue;
            const int at = i * S->cols + c;
            const double P = right_weight(S, i, c, q, k), x = t->dP->after[at], d = e->out[3][q], left = t->P->a[at],
                         dS = t->dS->a[at];
            const double size = 0.02 * P * (fabs(x) + fabs(d)) + 1e-6;
            count++, wrong += fabs(left - P) > 0.02 * P + 1e-6, wrong_dS += fabs(dS - P * (x - d)) > size;
            is_dS += fabs(left - dS) <= size, is_dP += near_to(left, x, 0.01), is_0 += left == 0;
        }
    if (wrong <= count / 100 || wrong_dS > count / 100) return true;
    find(best, may, BY_FACTOR, "dV", "dV is summed up from something else than P, though P is right in dS%s",
         is_0 == count       ? ": from zeros"
         : is_dS == count    ? ": from dS"
         : is_dP > count / 2 ? ": from dP"
                             : "");
    return false;
}

// dS against P (dP - delta). Of dQ P must be the right one. True if some other form was recognised, or it is right.
static bool look_at_dS(const step *t)
{
    static const char *const forms[] = {"",
                                        "P dP: delta is not subtracted",
                                        "P dP - delta: the parentheses are missing",
                                        "P (dP + delta)",
                                        "dP - delta, without P",
                                        "P",
                                        "dP",
                                        "-P (dP - delta)",
                                        "dP (P - delta)",
                                        "P (dP scale - delta)",
                                        "scale P (dP - delta)",
                                        "P (dP - delta) log2(e)",
                                        "P - (dP - delta)",
                                        "P (dP - L log2(e)): L in the place of delta",
                                        "P (dP - L): L in the place of delta",
                                        "S (dP - delta): S in the place of P",
                                        "P delta",
                                        "P (dP - delta) twice",
                                        "P P (dP - delta)",
                                        "(S - delta) P: S in the place of dP",
                                        "0"};
    enum { FORMS = sizeof forms / sizeof *forms };
    int misses[FORMS] = {0}, count = 0, wq = 0, wk = 0;
    double got = 0, want = 0;
    const product *S = t->S;
    for (int i = 0; i < S->rows; i++)
        for (int c = 0; c < S->cols; c++) {
            int q, k;
            name_pair(S, i, c, &q, &k);
            if (q < 0 || k < 0 || head_of_query(q) != k / s->kv_len) continue;
            const int at = i * S->cols + c;
            const double P = t->P ? t->P->a[at] : right_weight(S, i, c, q, k), x = t->dP->after[at], d = e->out[3][q],
                         raw = S->after[at];
            const double L = e->in.L[q], dS = t->dS->a[at], size = fabs(P) * (fabs(x) + fabs(d)) * 0.012 + 1e-7;
            const double values[FORMS] = {P * (x - d),
                                          P * x,
                                          P * x - d,
                                          P * (x + d),
                                          x - d,
                                          P,
                                          x,
                                          -P * (x - d),
                                          x * (P - d),
                                          P * (x * s->scale - d),
                                          s->scale * P * (x - d),
                                          P * (x - d) * LOG2E,
                                          P - (x - d),
                                          P * (x - L * LOG2E),
                                          P * (x - L),
                                          raw * (x - d),
                                          P * d,
                                          2 * P * (x - d),
                                          P * P * (x - d),
                                          P * (raw - d),
                                          0};
            count++;
            for (int f = 0; f < FORMS; f++) {
                const bool fits = fabs(dS - values[f]) <= size + 0.012 * fabs(values[f]);
                if (f == 0 && !fits && misses[0] == 0) wq = query_of(q), wk = key_of(k), got = dS, want = values[0];
                misses[f] += !fits;
            }
        }
    if (misses[0] <= count / 200) return true;
    int form = 0;
    for (int f = 1; f < FORMS && !form; f++)
        if (misses[f] <= count / 200) form = f;
    if (!t->P && !form) return false;  // it may be P that is wrong
    // What is added up may be another tile than dS.
    const bool other = form == 5 || form == 6 || form == FORMS - 1;
    find(best, may, t->P ? BY_DS : BY_EXPONENT, other ? own("dS|dK", "dS for dQ|dQ") : own("dS", "dS for dQ"),
         "in the kernel of %s dS of query %d and key %d is %.4g, where P (dP - delta) = %.4g%s%s",
         own("dK and dV", "dQ"), wq, wk, got, want, form ? "; it is " : "", forms[form]);
    return true;
}

static bool same(const float *x, const float *y, int count, double *factor)
{
    double xx = 0, xy = 0, off = 0, largest = 0;
    for (int n = 0; n < count; n++)
        xx += (double)x[n] * x[n], xy += (double)x[n] * y[n], largest = fmax(largest, fabs(x[n])),
                                                              off = fmax(off, fabs((double)x[n] - y[n]));
    *factor = xx > 0 ? xy / xx : 1;
    return off <= 1e-4 * largest;
}

// Whether a sum goes on where it was, step by step.
static void look_at_sum(bool is_dV)
{
    const char *name = is_dV ? "dV" : own("dK", "dQ");
    const product *before = NULL;
    for (int t = 0; t < step_count; t++) {
        const product *now = is_dV ? steps[t].P : steps[t].dS;
        double factor;
        if (!now) return;
        if (before && !same(before->after, now->before, now->rows * now->cols, &factor)) {
            find(best, may, BY_SUM, is_dV ? "dV" : own("dK|dK scale", "dQ|dQ scale"),
                 "between steps %d and %d of its walk the sum of %s is multiplied by %.4g%s", t - 1, t, name, factor,
                 fabs(factor) < 1e-6 ? ": it begins anew" : "");
            return;
        }
        before = now;
    }
}

// What was stored against what was summed up, over all walks that have this row.
static void look_at_end(const record *r, int output)
{
    static const char *const names[] = {"dQ", "dK", "dV"};
    const int D = s->head_dim, rows = s->batch * (output ? s->kv_heads * s->kv_len : s->q_heads * s->q_len);
    double *sum = calloc((size_t)rows * (size_t)D + 1, sizeof *sum);
    int *walks = calloc((size_t)rows + 1, sizeof *walks);
    if (!sum || !walks) exit(2);
    for (int n = 0; n < r->walk_count; n++) {
        read_steps(&r->walks[n]);
        if (!step_count || by_keys != (output > 0)) continue;
        const step *last = &steps[step_count - 1];
        const product *p = output == 2 ? last->P : last->dS;
        for (int i = 0; p && p->cols == D && i < p->rows; i++) {
            const int row = last->S->a_row[i];
            if (row < 0 || row >= rows) continue;
            walks[row]++;
            for (int d = 0; d < D; d++) sum[row * D + d] += p->after[i * D + d];
        }
    }
    const double factor = output == 2 ? 1 : s->scale;
    for (int row = 0; row < rows; row++) {
        double off = 0, largest = 0, xx = 0, xy = 0;
        for (int d = 0; d < D; d++) {
            const double x = sum[row * D + d], y = e->out[output][row * D + d];
            off = fmax(off, isfinite(y) ? fabs(y - factor * x) : INFINITY), largest = fmax(largest, fabs(factor * x)),
            xx += x * x, xy += x * y;
        }
        if (walks[row] == 0 || off <= 0.012 * largest + 1e-6) continue;
        const double is = xx > 0 ? xy / xx : 0;
        const named_number factors[] = {{1, ": scale is missing"},
                                        {s->scale * s->scale, ": scale is in it twice"},
                                        {s2, ": log2(e) belongs in the exponent alone"},
                                        {s->scale, ""}};
        const char *gap = output == 2   ? "sum of the parts|parts|dV|dK scale"
                          : output == 1 ? "sum of the parts|parts|dK scale"
                                        : "dQ scale";
        find(best, may, BY_END, gap, "%s of row %d is not %s of its steps: it is about %.4g times that%s%s",
             names[output], output ? key_of(row) : query_of(row), output == 2 ? "the sum" : "scale times the sum",
             is / factor, output < 2 ? name_of(is, factors, 4, 0.01) : "",
             walks[row] > 1 ? "; its queries are shared out in parts" : "");
    }
    free(sum), free(walks);
}

static void look_at_waste(const record *r)
{
    for (int n = 0; n < r->walk_count; n++) {
        read_steps(&r->walks[n]);
        for (int t = 0; t < step_count; t++) {
            bool seen = false, some = false;
            const product *S = steps[t].S;
            for (int m = 0; m < r->walk_count && !seen; m++) {
                const product *of = r->walks[m].first;
                if (!of || r->walks[m].block != r->walks[n].block || of->left != S->left) continue;
                for (int i = 0; i < of->rows; i++)
                    for (int c = 0; c < S->cols; c++) {
                        const int q = by_keys ? S->b_row[c] : of->a_row[i], k = by_keys ? of->a_row[i] : S->b_row[c];
                        some |= q >= 0 && k >= 0, seen |= sees(q, k);
                    }
            }
            if (some && !seen)
                find(best, may, BY_WASTE, by_keys ? "queries|parts|group" : "keys",
                     "in the kernel of %s a block goes through a tile that begins with %s %d, which has nothing to do "
                     "with any of its %s",
                     own("dK and dV", "dQ"), own("query", "key"), S->b_row[0] % s->q_len, own("keys", "queries"));
        }
    }
}

void evidence_of_backward(const evidence *evidence, judge_of_gaps may_say, finding *found)
{
    record r;
    e = evidence, s = e->in.shape, may = may_say, best = found;
    s2 = s->scale * LOG2E;
    look_at_delta();
    if (!record_read(e, &r)) return;
    for (int n = 0; n < r.walk_count; n++) {
        read_steps(&r.walks[n]);
        look_at_heads();
        look_at_factors();
        look_at_sum(false);
        if (by_keys) look_at_sum(true);
    }
    look_at_pairs(&r, true), look_at_pairs(&r, false);
    for (int n = 0; n < r.walk_count; n++) {
        read_steps(&r.walks[n]);
        for (int t = 0; t < step_count; t++) {
            const step *now = &steps[t];
            if (!has_weights(now) || (by_keys && !now->P)) continue;
            if (by_keys) {
                if (now->dS && now->dP && !look_at_left_of_dV(now)) continue;
                look_at_weights(now);
                if (now->dS && now->dP) look_at_dS(now);
            } else if (!look_at_dS(now))
                look_at_weights(now);
        }
    }
    for (int k = 0; k < 3; k++) look_at_end(&r, k);
    look_at_waste(&r);
}
