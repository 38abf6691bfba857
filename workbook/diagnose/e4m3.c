// e4m3.c - what 16 has of its own: powers of two, weights that are cut, when O moves on to float32.
// The record has Q K^T of bytes and the weights as the tensor cores read them: a weight belongs to the key whose row of
// V it meets. log2(P) against S is a line; its slope is the factor of S, and where it crosses 0, V's exponent less m.
#include "evidence.h"

static fit fit_factor = FIT(BY_SCALES, "factor|scales", .others = "factor|scales|softmax",
                            .by = {{"that query in head", "scales|factor"}},  // where Q's are read
                            .joint = "; the exponent of 2 is ");
static fit fit_rescaling = FIT(BY_RESCALING, "overlap|softmax", .joint = ", which equals 2 to the power of ");
static fit fit_V = FIT(BY_SCALES, "softmax|overlap", .joint = ": ", .pinned = true);
static fit fit_l = FIT(BY_L, "softmax", .by = {{"this L + ln(2) V_exponent", ""}});  // then l is right
static fit fit_O = FIT(BY_L + 1, "together", .others = "level|together|overlap");

enum { TILE = WB_FP8_KEYS, LARGEST = 448 };

// Of a query in a tile of keys: of those that it sees the score, and the weight that meets V.
typedef struct row_in_tile {
    int q, kv_head, tile, count, cut, plain;  // cut: weights that are the largest e4m3; plain: see is_plain
    double S[256], P[256], log_P[256];
    double all, all_V;  // in base 2: log2 of the sum of 2^score, and that with V's exponent
    double at;          // log2(P) less the right score
    bool right;         // the factor of S is, as far as weights tell
} row_in_tile;

static int exponent_of(const int8_t *exponents, int kv_head, int tile)
{
    return exponents[kv_head * wb_fp8_tiles(e.s->kv_len) + tile];
}
static int of_K(const row_in_tile *x) { return exponent_of(e.K_exponent, x->kv_head, x->tile); }
static int of_V(const row_in_tile *x) { return exponent_of(e.V_exponent, x->kv_head, x->tile); }
static double right_factor(const row_in_tile *x) { return base2_scale() * ldexp(1, e.Q_exponent[x->q] + of_K(x)); }

static bool read_row(row_in_tile *x, const step *t, int i)
{
    const product *S = t->S, *PV = t->P;
    *x = (row_in_tile){.q = S->a_row[i]};
    if (!PV || x->q < 0 || t->first < 0 || PV->depth > 256) return false;
    double sum = 0;
    for (int c = 0; c < PV->depth; c++) {
        const int at = PV->b_row[c] < 0 ? -1 : key_of(PV->b_row[c]) - t->first;
        const int k = at < 0 || at >= S->cols ? -1 : S->b_row[at];
        if (k < 0 || !sees(x->q, key_of(k)) || !isfinite(S->after[i * S->cols + at])) continue;
        x->kv_head = key_head_of(k), x->tile = key_of(k) / TILE;
        const double P = PV->a[i * PV->depth + c], s = S->after[i * S->cols + at] * right_factor(x);
        sum += exp2(s), x->cut += P >= LARGEST;
        x->log_P[x->count] = log2(P), x->S[x->count] = S->after[i * S->cols + at], x->P[x->count++] = P;
    }
    x->all = log2(sum);
    x->all_V = x->all + of_V(x);
    return x->count > 0;
}

static bool is_plain(double P) { return P >= 1.0 / 16 && P < LARGEST; }  // neither cut nor rounded to few bits

// Whether all weights are 2^(factor S + at), cut or too small where that is; `at` comes from those that are plain.
static bool row_fits(const row_in_tile *x, double factor, double *at, int *plain)
{
    bool fits = true;
    *at = 0, *plain = 0;
    for (int n = 0; n < x->count; n++)
        if (is_plain(x->P[n])) *at += x->log_P[n] - x->S[n] * factor, ++*plain;
    *at /= max_int(1, *plain);
    for (int n = 0; n < x->count && *plain && fits; n++) {
        const double is = x->S[n] * factor + *at;
        fits = is_plain(x->P[n]) ? fabs(x->log_P[n] - is) < 0.25 : x->P[n] >= LARGEST ? is > 8.4 : is < -3.6;
    }
    return fits;
}

// By which power of two scores were multiplied, of rows that fit one alone.
static void look_at_factor(row_in_tile *x)
{
    const int Q = e.Q_exponent[x->q], K = of_K(x), Hkv = e.s->kv_heads, head = head_of(x->q);
    const int in_turn = head / e.s->q_heads * Hkv + head % e.s->q_heads % Hkv;  // if key heads were dealt out in turn
    int seen = 0, fits = 0, plain;
    double at;
    x->right = row_fits(x, right_factor(x), &x->at, &x->plain);
    for (int by = -30; by <= 30; by++)
        if (row_fits(x, ldexp(right_factor(x), by), &at, &plain) && plain > 3) seen = Q + K + by, fits++;
    char says[300];
    snprintf(says, sizeof says,
             "by the weights of query %d in the tile that starts at key %d, its scores are not multiplied by scale "
             "log2(e) 2^%d (exponents: Q %d, K %d)",
             query_of(x->q), x->tile * TILE, Q + K, Q, K);
    if (fits == 1)
        see_sum(&fit_factor, seen, 0.3,
                "+ Q's exponent|+ K's exponent| V's exponent| K's exponent of key head h % Hkv"
                "| Q's exponent of that query in head 0",
                (double[]){Q, K, of_V(x), exponent_of(e.K_exponent, in_turn, x->tile), e.Q_exponent[query_of(x->q)]},
                "%s", says);
    if (!x->right && x->plain && !*fit_factor.says) see(&fit_factor, 0, 0, NULL, 0, "%s", says);
}

// From one tile to the next: log2(P) less the score is V's exponent less m, and O is multiplied by what m grows by.
static void look_at_rescaling(const row_in_tile *was, const row_in_tile *is, double factor)
{
    if (!was->right || !is->right || was->plain < 3 || is->plain < 3 || !(factor > 0)) return;
    const double at = is->at - was->at, grown = of_V(is) - of_V(was) - at;
    const form of_P[] = {{"", -grown},
                         {"K's exponent takes the place of V's", of_K(was) - of_K(is) + at},
                         {"V's exponent is missing", at}};
    see(&fit_V, log2(factor), 0.3, of_P, COUNT(of_P), "P of query %d is not 2^(score + V's exponent - m)",
        query_of(is->q));
    see_sum(&fit_rescaling, log2(factor), 0.3, "+ (m_old - m_new)", (double[]){-grown},
            "by its weights, 2^(score + V's exponent - m), m of query %d grows by %.2f in the tile that starts at key "
            "%d, so its O must be multiplied by %.4g, but is by %.4g",
            query_of(is->q), grown, is->tile * TILE, exp2(-grown), factor);
}

// l of all tiles of a row; m: under which each was weighed. False if it is wrong.
static bool look_at_l(int q, int count, const double *all, const double *all_V, const double *m)
{
    double right = 0, with_V = 0, not_rescaled = 0;
    const double unit = all_V[0] - all[0];
    for (int t = 0; t < count; t++) {
        right += exp2(all[t]), with_V += exp2(all_V[t] - unit);
        not_rescaled += exp2(all[t] - m[t] + m[count - 1]);
    }
    const double L = e.out[1][q], is = LN2 * log2(right);
    see_sum(&fit_l, L, 0.02 + 1e-3 * fabs(is),
            "+ this L| ln(2) V_exponent of the first tile (the unit of l)| L computed from an l that contains V's "
            "powers of two| L computed from an l that is never rescaled",
            (double[]){is, LN2 * unit, LN2 * log2(with_V), LN2 * log2(not_rescaled)},
            "the scores and the weights of query %d are correct; its L should be %.5g, but is %.5g", query_of(q), is,
            L);
    return fabs(L - is) <= 0.02 + 1e-3 * fabs(is);
}

// O of a row whose scores, weights and L are right: of the sums that the products left, each under the maximum of its
// last tile, m. A sum ends where the next product begins at 0; what went on then is under the next tile's maximum.
static void look_at_O(int i, int q, const double *m)
{
    enum { SUMS = 64 };
    const int D = e.s->head_dim;
    int ends[SUMS], sums = 0;
    for (int t = 0; t < step_count && sums < SUMS; t++)
        if (t + 1 == step_count || rescaled_by(&steps[t], &steps[t + 1], i) == 0) ends[sums++] = t;
    const double m_end = m[step_count - 1], m_sum = sums > 1 ? m[ends[sums - 2] + 1] : m_end;
    for (int d = 0; d < D; d++) {
        double right = 0, moved = 0, size = 0;
        for (int k = 0; k < sums; k++) {
            const double x = steps[ends[k]].P->after[i * D + d] * exp2(m[ends[k]] - e.out[1][q] * LOG2E);
            right += x, size += fabs(x), moved += k + 1 < sums ? x : 0;
        }
        const double got = row_of_O(q)[d];
        see_sum(&fit_O, got, 0.09 * (size + fabs(got)),
                "+ the accumulator|+ 2^(m_sum - m) the sum| the sum| 2^(m - m_sum) the sum",
                (double[]){right - moved, moved, moved * exp2(m_end - m_sum), moved * exp2(2 * (m_end - m_sum))},
                "the weights and L of query %d are correct; from the results of its products P V, O[%d] should be "
                "%.4g, but is %.4g",
                query_of(q), d, right, got);
    }
}

void look_at_e4m3(const record *r)
{
    static double all[STEPS], all_V[STEPS], m[STEPS];
    EACH_WALK (r, n) {
        for (int i = 0; i < rows_of_walk(); i++) {
            row_in_tile was = {0}, is;
            int seen = 0;
            bool right = true;
            for (int t = 0; t < step_count; t++) {
                right &= read_row(&is, &steps[t], i);
                if (!is.count) continue;
                look_at_factor(&is);
                if (is.cut > 2)
                    find(BY_MAXIMUM, "weights_cut", "softmax",
                         "%d weights of query %d in the tile that starts at key %d are clipped to 448, the largest "
                         "e4m3: is m raised when a sum exceeds that?",
                         is.cut, query_of(is.q), is.tile * TILE);
                const double factor = t > 0 && steps[t - 1].P ? rescaled_by(&steps[t - 1], &steps[t], i) : 0;
                if (seen && t > 0) look_at_rescaling(&was, &is, factor);
                right &= is.right && !is.cut && (is.plain >= 3 || (seen && factor > 0));
                all[seen] = is.all, all_V[seen] = is.all_V;
                m[seen] = is.plain >= 3 ? of_V(&is) - is.at : seen ? m[seen - 1] - log2(factor) : 0;
                seen++, was = is;
            }
            if (right && seen && look_at_l(was.q, seen, all, all_V, m)) look_at_O(i, was.q, m);
        }
    }
}
