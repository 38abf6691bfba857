// e4m3.c - what 16 has of its own: which powers of two meet which scores, what the weights are cut to, when O moves on
// to float32.
//
// The record has Q K^T of bytes and the weights as the tensor cores read them, their keys in V's order: a weight
// belongs to the key whose row of V it meets. log2(P) against S is a line; its slope is the factor of S, and where it
// crosses 0, V's exponent less m.
#include "evidence.h"

static fit fit_factor, fit_V, fit_rescaling, fit_l;

enum { TILE = WB_FP8_KEYS, LARGEST = 448, LEVEL = 1536 / WB_FP8_KEYS };

static int tiles(void) { return wb_fp8_tiles(e.s->kv_len); }
static int exponent_at(const int8_t *exponents, int kv_head, int tile)
{
    return exponents[kv_head * tiles() + (tile < 0 ? 0 : tile < tiles() ? tile : tiles() - 1)];
}

// The key head h modulo Hkv, of the head that this row of Q has.
static int modulo_head(int q)
{
    const int head = head_of(q), Hkv = e.s->kv_heads;
    return head / e.s->q_heads * Hkv + head % e.s->q_heads % Hkv;
}

// A row of queries in a tile of keys.
typedef struct row_in_tile {
    int q, kv_head, tile, count, cut;  // cut: weights that are the largest e4m3
    double S[256], P[256];   // of the keys that it sees, with log2 of the weight, where that is neither cut nor small
    double top, all, all_V;  // of all that it sees, in base 2: the largest score, log2 of the sum of 2^score
    double at;               // log2(P) less the right score
    bool right;              // the factor of S is
} row_in_tile;

// The exponent of the tile so many further on.
static int of_tile(const int8_t *exponents, const row_in_tile *x, int further)
{
    return exponent_at(exponents, x->kv_head, x->tile + further);
}

static double right_factor(const row_in_tile *x)
{
    return base2_scale() * ldexp(1, e.Q_exponent[x->q] + of_tile(e.K_exponent, x, 0));
}

// False if there is nothing to be seen.
static bool read_row(row_in_tile *x, const step *t, int i)
{
    const product *S = t->S, *PV = t->P;
    *x = (row_in_tile){.q = S->a_row[i], .top = -INFINITY};
    if (!PV || x->q < 0 || t->first < 0 || PV->depth > 256) return false;
    double sum = 0;
    for (int c = 0; c < PV->depth; c++) {
        const int k = PV->b_row[c], at = k < 0 ? -1 : key_of(k) - t->first;
        if (at < 0 || at >= S->cols || S->b_row[at] != k || !sees(x->q, key_of(k))) continue;
        x->kv_head = key_head_of(k), x->tile = key_of(k) / TILE;
        const double score = S->after[i * S->cols + at], P = PV->a[i * PV->depth + c], s = score * right_factor(x);
        x->top = fmax(x->top, s), sum += exp2(s);
        x->cut += P >= LARGEST;
        if (P < 1.0 / 16 || P >= LARGEST || !isfinite(score)) continue;
        x->S[x->count] = score, x->P[x->count++] = log2(P);
    }
    x->all = log2(sum);
    x->all_V = x->all + of_tile(e.V_exponent, x, 0);
    return x->top > -INFINITY;
}

static void look_at_factor(row_in_tile *x, int i)
{
    double low = INFINITY, high = -INFINITY;
    for (int n = 0; n < x->count; n++) low = fmin(low, x->P[n]), high = fmax(high, x->P[n]);
    const double right = right_factor(x);
    for (int n = 0; n < x->count; n++) x->at += (x->P[n] - x->S[n] * right) / x->count;
    x->right = x->count >= 3;
    for (int n = 0; n < x->count; n++) x->right &= fabs(x->P[n] - x->S[n] * right - x->at) < 0.25;
    if (x->count < 8 || high - low < 2) return;
    const line l = line_through(x->S, x->P, x->count);
    if (l.off > 1 && x->count >= 16)
        find(BY_EXPONENT, "", "softmax|overlap",
             "the weights of query %d that meet V of the tile of keys from %d on are not 2^(factor S - ...) of its "
             "scores: are they another tile's, or in another order?",
             query_of(x->q), x->tile * TILE);
    if (!(l.slope > 0) || l.off > 0.3) return;
    const int other = modulo_head(x->q);
    const int Q = e.Q_exponent[x->q], K = of_tile(e.K_exponent, x, 0);
    // clang-format off
    const form forms[] = {
        {"", "", Q + K}, {"K_exponent_forgotten", ": that is the exponent of the row of Q alone", Q},
        {"Q_exponent_forgotten", ": that is the exponent of the tile of K alone", K},
        {"exponents_forgotten", ": neither exponent is in it", 0},
        {"K_exponent_of_the_tile_before", ": K's is that of the tile that came before",
            Q + of_tile(e.K_exponent, x, 1)},
        {"K_exponent_of_the_next_tile", ": K's is that of the tile that comes next",
            Q + of_tile(e.K_exponent, x, -1)},
        {"K_exponent_of_another_head", ": K's is that of key head h modulo Hkv",
            Q + exponent_at(e.K_exponent, other, x->tile)},
        {"K_exponent_of_the_first_head", ": K's is that of the first head", Q + exponent_at(e.K_exponent, 0, x->tile)},
        {"Q_exponent_of_the_upper_row", ": Q's is that of the row 8 further up, which this lane has, too",
            e.Q_exponent[i < 8 ? x->q : x->q - 8] + K},
        {"Q_exponent_of_the_first_head", ": Q's is that of the first head", e.Q_exponent[query_of(x->q)] + K},
        {"log2e_forgotten", ": log2(e) is missing in it", Q + K - log2(LOG2E)},
        {"scale_forgotten", ": scale is missing in it", Q + K - log2(e.s->scale)},
        {"V_exponent_for_K", ": V's exponent stands for K's", Q + of_tile(e.V_exponent, x, 0)}};
    // clang-format on
    const double seen = log2(l.slope / base2_scale());
    fit_see(
        &fit_factor, seen, 0.3, FORMS(forms),
        "the scores of query %d with the tile of keys from %d on are multiplied by scale * log2(e) * 2^%.2f, and their "
        "exponents, %d of Q and %d of K, make 2^%d of it",
        query_of(x->q), x->tile * TILE, seen, Q, K, Q + K);
}

// Whether a row of O is as the product before has left it; 0 if it began anew.
static double rescaled_by(const step *from, const step *to, int i)
{
    const int D = e.s->head_dim;
    const float *x = from->P->after + i * D, *y = to->P->before + i * D;
    double size = 0, dot = 0;
    for (int d = 0; d < D; d++) size += (double)x[d] * x[d], dot += (double)x[d] * y[d];
    return size > 0 ? dot / size : 0;
}

static void look_at_tiles_of(const row_in_tile *was, const row_in_tile *is, int t, double factor)
{
    const int V = of_tile(e.V_exponent, is, 0), old = of_tile(e.V_exponent, was, 0);
    const double m = V - is->at, m_old = old - was->at, seen = is->at - was->at;
    if (!was->right || !is->right || factor == 0) return;
    const bool stays = fabs(factor - 1) < 0.01;
    if (stays && is->top + V - m_old < 2.9 && t > 1) {  // no maximum has to be, or may be, raised
        const int h = modulo_head(is->q);
        // clang-format off
        const form forms[] = {
            {"", "", V - old}, {"V_exponent_forgotten", ": V's exponent is not in it", 0},
            {"V_exponent_subtracted", ": V's exponent is subtracted", old - V},
            {"V_exponent_of_the_tile_before", ": each tile has the exponent of the one before",
                of_tile(e.V_exponent, is, 1) - of_tile(e.V_exponent, was, 1)},
            {"V_exponent_of_the_next_tile", ": each tile has the exponent of the next one",
                of_tile(e.V_exponent, is, -1) - of_tile(e.V_exponent, was, -1)},
            {"V_exponent_of_another_head", ": that is of key head h modulo Hkv",
                exponent_at(e.V_exponent, h, is->tile) - exponent_at(e.V_exponent, h, was->tile)},
            {"K_exponent_for_V", ": K's exponent stands for V's",
                of_tile(e.K_exponent, is, 0) - of_tile(e.K_exponent, was, 0)}};
        // clang-format on
        fit_see(&fit_V, seen, 0.3, FORMS(forms),
                "from the tile of keys from %d on to that from %d on, under one maximum, what is added to the scores "
                "of query %d changes by %.2f, and V's exponent by %d",
                was->tile * TILE, is->tile * TILE, query_of(is->q), seen, V - old);
    }
    if (m - m_old > 0.7) {
        const form forms[] = {{"", "", exp2(m_old - m)},
                              {"O_not_rescaled", ": it is not rescaled", 1},
                              {"O_rescaled_twice", ": it is rescaled twice", exp2(2 * (m_old - m))},
                              {"O_rescaled_inverse", ": it is multiplied by the inverse", exp2(m - m_old)}};
        fit_see(&fit_rescaling, factor, 0.15 * exp2(m_old - m) + 0.005, FORMS(forms),
                "before the weights of the tile of keys from %d on m grows by %.2f for query %d, so O is to be "
                "multiplied by %.4g; it is by %.4g",
                is->tile * TILE, m - m_old, query_of(is->q), exp2(m_old - m), factor);
    }
}

// l by each form, of all tiles of a row; m: under which each tile was weighed. False if it is wrong.
static bool look_at_l(int q, int count, const double *all, const double *all_V, const double *m)
{
    double right = 0, with_V = 0, not_rescaled = 0;
    for (int t = 0; t < count; t++)
        right += exp2(all[t]), with_V += exp2(all_V[t]), not_rescaled += exp2(all[t] - m[t] + m[count - 1]);
    const double L = e.out[1][q], is = LN2 * log2(right);
    const form forms[] = {
        {"", "", is},
        {"V_counted_in_l", ": V's powers of two are in l", LN2 * log2(with_V)},
        {"l_not_rescaled", ": l is not rescaled where the maximum is raised", LN2 * log2(not_rescaled)},
        {"L_in_base_2", ": it is in base 2", is / LN2},
        {"l_without_m", ": m is missing in it", is - LN2 * m[count - 1]}};
    fit_see(&fit_l, L, 0.02 + 1e-3 * fabs(is), FORMS(forms),
            "the scores and the weights of query %d are right, and so its L should be %.5g; it is %.5g", query_of(q),
            is, L);
    return fabs(L - is) <= 0.02 + 1e-3 * fabs(is);
}

// O of a row whose scores, weights and L are right, against those of all its tiles.
static void look_at_O(int i, int q, int kv_head)
{
    enum { D_MOST = WB_MAX_HEAD_DIM };
    double O[D_MOST] = {0}, size[D_MOST] = {0}, l = 0;
    const int D = e.s->head_dim;
    for (int t = 0; t < step_count; t++) {
        const product *S = steps[t].S;
        for (int c = 0; c < S->cols; c++) {
            const int j = key_of(S->b_row[c]);
            if (j < 0 || !sees(q, j)) continue;
            const row_in_tile x = {.q = q, .kv_head = kv_head, .tile = j / TILE};
            const double p = exp2(S->after[i * S->cols + c] * right_factor(&x));
            const double of_V = p * ldexp(1, exponent_at(e.V_exponent, kv_head, x.tile));
            const float *v = e.V + (size_t)S->b_row[c] * (size_t)D;
            l += p;
            for (int d = 0; d < D; d++) O[d] += of_V * v[d], size[d] += fabs(of_V * v[d]);
        }
    }
    for (int d = 0; d < D; d++) {
        const double got = e.out[0][(size_t)q * (size_t)D + (size_t)d];
        if (fabs(got - O[d] / l) <= 0.2 * size[d] / l) continue;
        find(BY_END, "", "level|together|overlap",
             "the weights and L of query %d are right, and O[%d] should be %.4g; it is %.4g: what went on to float32, "
             "what did not, and the maxima that they are under",
             query_of(q), d, O[d] / l, got);
        return;
    }
}

void look_at_e4m3(const record *r)
{
    static double all[STEPS], all_V[STEPS], m[STEPS];
    EACH_WALK (r, n) {
        int onto = 0;  // tiles since O began
        for (int t = 1; t < step_count && e.c->levels == 2; t++) {
            bool zero = true;
            for (int d = 0; steps[t].P && d < e.s->head_dim; d++) zero &= steps[t].P->before[d] == 0;
            onto = zero ? 0 : onto + 1;
            if (onto <= LEVEL) continue;
            find(BY_SUM, "begins_never_anew", "level|overlap",
                 "O of query %d is added up over %d tiles of keys; with levels = 2 it should move on to the sum after "
                 "%d at most, and begin at 0 again",
                 query_of(steps[0].S->a_row[0]), onto + 1, LEVEL);
            break;
        }
        for (int i = 0; step_count && i < steps[0].S->rows; i++) {
            row_in_tile was = {0}, is;
            int seen = 0;
            bool right = true;
            for (int t = 0; t < step_count; t++) {
                if (!read_row(&is, &steps[t], i)) {
                    right = false;
                    continue;
                }
                look_at_factor(&is, i);
                if (is.cut > 2)
                    find(BY_MAXIMUM, "weights_cut", "softmax",
                         "%d weights of query %d in the tile of keys from %d on are 448, the largest e4m3: they were "
                         "larger, and are cut. A sum above 448 has to raise the maximum, which is that of the scores "
                         "with V's exponent, to 2^3 or so",
                         is.cut, query_of(is.q), is.tile * TILE);
                if (seen && t > 0 && steps[t - 1].P)
                    look_at_tiles_of(&was, &is, t, rescaled_by(&steps[t - 1], &steps[t], i));
                right &= is.right && !is.cut;
                all[seen] = is.all, all_V[seen] = is.all_V;
                m[seen++] = of_tile(e.V_exponent, &is, 0) - is.at;
                was = is;
            }
            if (right && seen && look_at_l(was.q, seen, all, all_V, m)) look_at_O(i, was.q, was.kv_head);
        }
    }
}

void conclude_e4m3(void)
{
    fit_conclude(&fit_factor, BY_SCALES, "scales|factor", "scales|factor|softmax", "");
    fit_conclude(&fit_V, BY_EXPONENT, "softmax|overlap", NULL, "");
    fit_conclude(&fit_rescaling, BY_RESCALING, "overlap|softmax", NULL, "");
    fit_conclude(&fit_l, BY_L, "softmax", NULL, "");
}
