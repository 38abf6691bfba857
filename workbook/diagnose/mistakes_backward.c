// mistakes_backward.c - what a backward with a mistake returns: pair by pair, with a bound of the rounding errors.
#include "mistakes_model.h"

typedef struct pair {
    double P, dP, dS, exponent, cancel;
} pair;

// Row `row` of Q, O or dO, counted through all heads.
static const float *q_row_of(const model_inputs *in, const float *X, long long row)
{
    return row_of(in->shape, X, in->shape->q_heads, in->shape->q_len, row);
}

double delta_of(const model_inputs *in, const kernel *k, long long row, double *size)
{
    const int D = in->shape->head_dim, warp = k->delta == DELTA_OF_WARP ? 256 / D : 1;
    double sum = 0;
    *size = 0;
    for (long long r = row / warp * warp; r < row / warp * warp + warp; r++) {
        const float *o = q_row_of(in, in->O, r), *g = q_row_of(in, in->dO, r);
        for (int d = 0; d < D; d++) {
            if (k->delta == DELTA_OF_8 && d >= 8) break;
            if (k->delta == DELTA_OF_HALF && d >= D / 2) break;
            if (k->delta == DELTA_OF_EVEN_LANES && d / 8 % 2) continue;
            if (k->delta == DELTA_OF_EVEN_COLUMNS && d % 2) continue;
            if (k->delta == DELTA_OF_HALF_LANES && d % 8 >= 4) continue;
            const double a = k->delta == DELTA_OF_DO ? g[d] : o[d], c = k->delta == DELTA_OF_O ? o[d] : g[d];
            if (warp > 1 && isnan(a)) break;  // no such row: nothing is read
            sum += a * c, *size += fabs(a * c);
        }
    }
    const double factor = k->delta == DELTA_SCALED  ? in->shape->scale
                          : k->delta == DELTA_MEAN  ? 1.0 / D
                          : k->delta == DELTA_MINUS ? -1
                                                    : 1;
    *size *= fabs(factor);
    return sum * factor;
}

// The largest logit of a query, over those of the keys from ... to - 1 that it sees.
static double row_max(const model_inputs *in, long long q_row, int i, int from, int to)
{
    const attention_shape *s = in->shape;
    double m = -INFINITY;
    for (int j = from; j < min_int(to, s->kv_len); j++)
        if (oracle_visible(in->problem, s, i, j)) m = fmax(m, s->scale * in->dots[q_row * s->kv_len + j].QK);
    return m;
}

// Query `q_row`, number i of its head as far as the mask and the right statistics go, and key j of key head `head`, both counted
// through all batches.
static pair pair_of(const model_inputs *in, const kernel *k, long long q_row, int i, int head, int j, bool hidden)
{
    const attention_shape *s = in->shape;
    const int D = s->head_dim, N = s->kv_len;
    const long long rows = (long long)s->batch * s->q_heads * s->q_len;
    model_pairs++;
    if (q_row < 0 || q_row >= rows) return (pair){NAN, NAN, NAN, 0, 0};
    const bool own =
        head == kv_head(s, MAP_RIGHT, (int)(q_row / s->q_len / s->q_heads), (int)(q_row / s->q_len % s->q_heads));
    const float *key = row_of(s, in->K, s->kv_heads, N, (long long)head * N + j), *g = q_row_of(in, in->dO, q_row);
    const float *value = row_of(s, in->V, s->kv_heads, N, (long long)head * N + j), *q = q_row_of(in, in->Q, q_row);
    double abs_S = 0, abs_dP = 0, abs_delta = 0, S = 0, L = in->L[q_row];
    pair p = {0};
    if (own)
        S = in->dots[q_row * N + j].QK, abs_S = in->dots[q_row * N + j].abs_QK;
    else
        S = dot(q, key, D, &abs_S);
    if (hidden) S = 0;
    if (own && !k->dP)
        p.dP = in->dots[q_row * N + j].dOV, abs_dP = in->dots[q_row * N + j].abs_dOV;
    else if (k->dP == DP_FROM_Q)
        p.dP = dot(q, value, D, &abs_dP);
    else
        p.dP = dot(k->dP == DP_FROM_O ? q_row_of(in, in->O, q_row) : g, k->dP == DP_FROM_K ? key : value, D, &abs_dP);
    double delta = delta_of(in, k, q_row, &abs_delta);
    const double x = S * scale_of(k, s);
    double e = x - L;
    switch (k->P) {
    case P_L_IN_BASE_E: e = x - L * LN2; break;
    case P_L_TIMES_LOG2E: e = x - L * LOG2E; break;
    case P_WITHOUT_L:
    case P_OVER_L: e = x; break;
    case P_PLUS_L: e = x + L; break;
    case P_FROM_DELTA: e = x - delta * LN2; break;
    case P_ROW_MAX: e = x - row_max(in, q_row, i, 0, N); break;
    case P_TILE_MAX: e = x - row_max(in, q_row, i, j / k->BC * k->BC, (j / k->BC + 1) * k->BC); break;
    case P_BASE_2: e = (x - L) * LN2; break;
    case P_BASE_E: e = (x - L) * LOG2E; break;
    default: break;
    }
    p.P = as_float(exp(e) * (k->P == P_OVER_L ? 1 / L : 1));
    p.exponent = scale_of(k, s) * abs_S + fabs(L);
    p.cancel = fabs(p.P) * (abs_dP + abs_delta);
    switch (k->dS) {
    case DS_NO_DELTA: p.dS = p.P * p.dP; break;
    case DS_PLUS_DELTA: p.dS = p.P * (p.dP + delta); break;
    case DS_FROM_L: p.dS = p.P * (p.dP - L * LOG2E), p.cancel += fabs(p.P * L) * 2; break;
    case DS_IS_P: p.dS = p.P; break;
    case DS_IS_DP: p.dS = p.dP, p.cancel = abs_dP; break;
    case DS_WITHOUT_P: p.dS = p.dP - delta, p.cancel = abs_dP + abs_delta; break;
    case DS_MINUS: p.dS = -p.P * (p.dP - delta); break;
    case DS_P_DP: p.dS = p.P * p.dP - delta, p.cancel += abs_delta; break;
    case DS_DP_P: p.dS = p.dP * (p.P - delta), p.cancel = abs_dP * (p.P + abs_delta); break;
    case DS_DP_DP: p.dS = p.dP * (p.dP - delta), p.cancel = 2 * abs_dP * (abs_dP + abs_delta); break;
    case DS_DP_SCALED: p.dS = p.P * (p.dP * s->scale - delta); break;
    default: p.dS = p.P * (p.dP - delta);
    }
    return p;
}

static void add(oracle_sum *sum, const pair *p, double term, double cancel, const float *x, int D)
{
    for (int d = 0; d < D; d++) {
        const double value = term * x[d];
        sum[d].value += value;
        sum[d].size += fabs(value);
        sum[d].exponent += fabs(value) * p->exponent;
        sum[d].cancel += cancel * fabs((double)x[d]);
    }
}

static double factor_of(const kernel *k, const attention_shape *s)
{
    switch (k->out) {
    case OUT_NO_SCALE: return 1;
    case OUT_SCALE_TWICE: return s->scale * s->scale;
    case OUT_LOG2E: return s->scale * LOG2E;
    case OUT_NOTHING: return 0;
    default: return s->scale;
    }
}

static void set_gradient(const oracle_sum *sum, int D, double factor, double terms, model_row *out)
{
    for (int d = 0; d < D; d++) {
        out->value[d] = sum[d].value * factor;
        out->tolerance[d] = tolerance_gradient(out->value[d], sum[d].size * factor, sum[d].exponent * factor,
                                               sum[d].cancel * factor, D, terms);
    }
}

static bool left_out(const kernel *k, bool hidden, int i, int j)
{
    return hidden &&
           (k->hide == HIDE_RIGHT || (k->hide == HIDE_OLD_BY_0 && j > i) || (k->hide == HIDE_FUTURE_BY_0 && j <= i));
}

void query_row(const model_inputs *in, const kernel *k, int b, int h, int i, model_row *out)
{
    static _Thread_local visit visits[VISITS];
    const attention_shape *s = in->shape;
    const int D = s->head_dim, head = kv_head(s, k->map_K, b, h);
    const long long q_row = ((long long)b * s->q_heads + h) * s->q_len + i;
    oracle_sum sum[WB_MAX_HEAD_DIM];
    memset(sum, 0, sizeof sum);
    const int count = walk_of(in, k, i, visits);
    for (int v = 0; v < count; v++)
        for (int j = visits[v].key; j < visits[v].key + visits[v].keys && j < s->kv_len; j++) {
            const bool hidden = hides(in, k, i, j, visits[v].phase);
            if (left_out(k, hidden, i, j)) continue;
            const pair p = pair_of(in, k, q_row, i, head, j, hidden);
            add(sum, &p, p.dS, p.cancel,
                row_of(s, k->dQ_from_V ? in->V : in->K, s->kv_heads, s->kv_len, (long long)head * s->kv_len + j), D);
        }
    set_gradient(sum, D, factor_of(k, s), s->kv_len, out);
}

// Which queries the block of keys that begins with `block` looks at: from ... to - 1.
static void queries_of(const model_inputs *in, const kernel *k, int block, int *from, int *to)
{
    const attention_shape *s = in->shape;
    const int N = s->q_len, BK = k->BR, BQ = k->BC;
    const bool has_window = in->problem->window;
    const int W = has_window ? min_int(s->window, N) : N, S = in->problem->sinks ? s->sinks : 0;
    *from = block / BQ * BQ;
    *to = block < S || !has_window ? N : min_int(N, block + BK - 1 + W);
    if (k->walk == WALK_QUERIES_OF_FIRST_KEY && block >= S) *to = min_int(N, block + W);
    if (k->walk == WALK_NO_FAR_QUERIES) *to = min_int(N, block + BK - 1 + W);
    if (k->walk == WALK_LAST_SKIPPED) *to = block + BK;
    if (k->walk == WALK_SKIPS_FIRST_TILE) *from += BQ;
    if (k->walk == WALK_FIRST_TILE_ALONE) *to = min_int(*to, *from + BQ);
    if (k->walk == WALK_LAST_TILE_ALONE && *to > *from) *from = (*to - 1) / BQ * BQ;
}

// dK and dV of the tiles with sinks are summed up in parts: how many.
static int parts_of(const model_inputs *in, const kernel *k, int block)
{
    const attention_shape *s = in->shape;
    const int N = s->q_len, BK = k->BR, S = in->problem->sinks ? min_int(s->sinks, N) : 0;
    if (block >= S) return 1;
    const int room = s->q_heads * N / ((S + BK - 1) / BK * s->kv_heads * 4 * BK);
    return max_int(1, min_int(room, min_int(32, N / (min_int(s->window, N) + BK))));
}

void key_row(const model_inputs *in, const kernel *k, int kv, int j, bool is_dK, model_row *out)
{
    const attention_shape *s = in->shape;
    const int D = s->head_dim, N = s->q_len, G = s->kv_heads, group = s->q_heads / G, block = j / k->BR * k->BR;
    const int rows = k->ROWS ? k->ROWS : k->BR, warp = j / rows * rows, BQ = k->BC;
    kernel turned = *k;  // a mask that forgets the tile sees tiles that lie on their sides
    turned.BC = rows, turned.BR = turned.ROWS = BQ;
    oracle_sum sum[WB_MAX_HEAD_DIM];
    memset(sum, 0, sizeof sum);
    int first, last;
    queries_of(in, k, block, &first, &last);
    const int parts = k->parts ? parts_of(in, k, block) : 1, tiles = (last - first + BQ - 1) / BQ;
    const int heads = k->group == GROUP_OF_QUERY_HEADS ? s->q_heads : k->group == GROUP_OF_KEY_HEADS ? G : group;
    for (int part = 0; part < parts; part++) {
        int from = first + tiles * part / parts * BQ, to = min_int(last, first + tiles * (part + 1) / parts * BQ);
        if (k->parts == PARTS_ALL_DO_ALL || k->parts == PARTS_FROM_FIRST) from = first;
        if (k->parts == PARTS_ALL_DO_ALL || k->parts == PARTS_TO_LAST) to = last;
        if (k->parts == PARTS_MOVED) to = min_int(last, from + tiles * (part + 1) / parts * BQ);
        if (k->parts == PARTS_ROUNDED)
            from = first + tiles / parts * part * BQ, to = min_int(last, from + tiles / parts * BQ);
        if ((k->parts == PARTS_FIRST && part > 0) || (k->parts == PARTS_LAST && part < parts - 1)) continue;
        to = min_int(N, from + (to - from + BQ - 1) / BQ * BQ);  // whole tiles; the mask does the rest
        const int span = (to - from + BQ - 1) / BQ * BQ;
        for (int g = 0; g < heads; g++) {
            if ((k->group == GROUP_FIRST && g) || (k->group == GROUP_LAST && g < group - 1)) continue;
            long long row = ((long long)kv * group + g) * N;
            switch (k->group) {
            case GROUP_FIRST_REPEATED: row -= (long long)g * N; break;
            case GROUP_TOO_FAR: row += (long long)g * from; break;
            case GROUP_NOT_TO_FIRST: row -= (long long)g * from; break;
            case GROUP_NOT_BACK: row += (long long)g * span; break;
            case GROUP_NOT_ON: row += (long long)g * (span - N); break;
            case GROUP_IN_KEY_HEADS: row = ((long long)kv + g) * N; break;
            default: break;
            }
            for (int i = from; i < to; i++) {
                const phase phase = i / BQ * BQ < warp + rows - 1 ? DIAGONAL : OFF;
                const bool hidden = hides(in, &turned, i, j, phase);
                const bool beyond = row + i >= (long long)s->batch * s->q_heads * N;  // 0 times NaN is NaN
                if (left_out(k, hidden, i, j) && !beyond) continue;
                const pair p = pair_of(in, k, row + i, i, kv, j, hidden);
                const float *x = q_row_of(in, k->dQ_from_V ? in->dO : in->Q, row + i);
                if (is_dK)
                    add(sum, &p, p.dS, p.cancel, x, D);
                else
                    add(sum, &p,
                        k->dV == DV_FROM_DS   ? p.dS
                        : k->dV == DV_FROM_DP ? p.dP
                                              : p.P,
                        k->dV == DV_FROM_DS || k->dV == DV_FROM_DP ? p.cancel : 0,
                        q_row_of(in, k->dV == DV_FROM_Q ? in->Q : in->dO, row + i), D);
            }
        }
    }
    const double mean = k->group == GROUP_MEAN ? 1.0 / group : k->parts == PARTS_MEAN ? 1.0 / parts : 1;
    const double factor = is_dK || k->out == OUT_NOTHING ? factor_of(k, s) : k->dV == DV_SCALED ? s->scale : 1;
    set_gradient(sum, D, mean * factor, (double)group * s->q_len, out);
}
