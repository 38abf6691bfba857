// mistakes_backward.c - what a backward with a mistake returns: pair by pair, with a bound of the rounding errors.
#include "mistakes_model.h"

typedef struct pair {
    double P, dP, dS, exponent, cancel;
} pair;

static const float *q_row_of(const model_inputs *in, const float *X, int b, int h, int i)
{
    const attention_shape *s = in->shape;
    return X + (((size_t)b * (size_t)s->q_heads + (size_t)h) * (size_t)s->q_len + (size_t)i) * (size_t)s->head_dim;
}

double delta_of(const model_inputs *in, const kernel *k, int b, int h, int i, double *size)
{
    const int D = in->shape->head_dim;
    const float *o = q_row_of(in, in->O, b, h, i), *g = q_row_of(in, in->dO, b, h, i);
    double sum = 0;
    *size = 0;
    for (int d = 0; d < D; d++) {
        if (k->delta == DELTA_OF_8 && d >= 8) break;
        if (k->delta == DELTA_OF_HALF && d >= D / 2) break;
        const double a = k->delta == DELTA_OF_DO ? g[d] : o[d], c = k->delta == DELTA_OF_O ? o[d] : g[d];
        sum += a * c, *size += fabs(a * c);
    }
    const double factor = k->delta == DELTA_SCALED  ? in->shape->scale
                          : k->delta == DELTA_MEAN  ? 1.0 / D
                          : k->delta == DELTA_MINUS ? -1
                                                    : 1;
    *size *= fabs(factor);
    return k->delta == DELTA_IN_BF16 ? as_bf16(sum) : sum * factor;
}

// Where L or delta of query i of head h is taken from, for a pair with key j.
static size_t stats_row(const attention_shape *s, int from, int b, int h, int i, int j)
{
    const int H = s->q_heads, G = s->kv_heads;
    switch (from) {
    case STATS_OF_KV_HEAD: return (size_t)(b * G + h / (H / G)) * (size_t)s->q_len + (size_t)i;
    case STATS_OF_KEY: return (size_t)(b * H + h) * (size_t)s->q_len + (size_t)j;
    case STATS_OF_FIRST_HEAD: return (size_t)(b * H + h / (H / G) * (H / G)) * (size_t)s->q_len + (size_t)i;
    default: return (size_t)(b * H + h) * (size_t)s->q_len + (size_t)i;
    }
}

// The exponent's largest value for query i over keys from ... to - 1 that the mask leaves.
static double row_max(const model_inputs *in, const kernel *k, int b, int h, int i, int head, int from, int to,
                      int hidden_too)
{
    const attention_shape *s = in->shape;
    double m = -INFINITY, size = 0;
    for (int j = from; j < to && j < s->kv_len; j++) {
        if (!hidden_too && !oracle_visible(in->problem, s, i, j)) continue;
        const double x = dot(q_row_of(in, in->Q, b, h, i), kv_row(in, k, in->K, head, j), s->head_dim, &size);
        m = fmax(m, x * scale_of(k, s));
    }
    return m;
}

static pair pair_of(const model_inputs *in, const kernel *k, int b, int h, int i, int j, bool hidden, int tile,
                    int tile_keys)
{
    const attention_shape *s = in->shape;
    const int D = s->head_dim, dims = k->dims == -2 ? D / 2 : k->dims ? min_int(k->dims, D) : D;
    const int head_K = kv_head(s, k->map_K, b, h), head_V = kv_head(s, k->map_V, b, h);
    const float *g = q_row_of(in, in->dO, b, h, i), *kk = kv_row(in, k, in->K, head_K, j);
    const double L = in->L[stats_row(s, k->L_row, b, h, i, j)];
    double abs_S = 0, abs_dP = 0, abs_delta = 0;
    const double S = hidden ? 0 : dot(q_row_of(in, in->Q, b, h, i), kk, dims, &abs_S), scale = scale_of(k, s);
    double x = S * scale;
    if (k->rounded == ROUNDED_Q || k->rounded == ROUNDED_Q_BASE_2) {
        const double base = k->rounded == ROUNDED_Q ? 1 : LOG2E;
        const float *q = q_row_of(in, in->Q, b, h, i);
        float own_q[WB_MAX_HEAD_DIM];
        for (int d = 0; d < D; d++) own_q[d] = (float)as_bf16(q[d] * scale * base);
        x = hidden ? 0 : dot(own_q, kk, dims, &abs_S) / base;
    }
    if (k->rounded == ROUNDED_S) x = as_bf16(S) * scale;
    if (k->rounded == ROUNDED_S_SCALED) x = as_bf16(x);
    if (k->rounded == ROUNDED_S_BASE_2) x = as_bf16(x * LOG2E) / LOG2E;
    double e = x - L;
    switch (k->P) {
    case P_L_IN_BASE_E: e = x - L * LN2; break;
    case P_L_TIMES_LOG2E: e = x - L * LOG2E; break;
    case P_WITHOUT_L: e = x; break;
    case P_ROW_MAX: e = x - row_max(in, k, b, h, i, head_K, 0, s->kv_len, 0); break;
    case P_TILE_MAX: e = x - row_max(in, k, b, h, i, head_K, tile * tile_keys, (tile + 1) * tile_keys, 0); break;
    case P_L_SCALED: e = x - L * s->scale; break;
    case P_BASE_2: e = (x - L) * LN2; break;
    case P_BASE_E: e = (x - L) * LOG2E; break;
    case P_OVER_L:
    case P_TIMES_L: e = x; break;
    case P_PLUS_L: e = x + L; break;
    default: break;
    }
    const double over = k->P == P_OVER_L ? 1 / L : k->P == P_TIMES_L ? L : 1;
    pair p = {.P = as_float(exp(e) * over), .exponent = scale_of(k, s) * abs_S + fabs(L)};
    const float *from = k->dP == DP_FROM_O ? q_row_of(in, in->O, b, h, i) : g;
    p.dP = dot(from, kv_row(in, k, k->dP == DP_FROM_K ? in->K : in->V, head_V, j), D, &abs_dP);
    const size_t delta_at = stats_row(s, k->delta_row, b, h, i, j), N = (size_t)s->q_len, H = (size_t)s->q_heads;
    double delta = delta_of(in, k, (int)(delta_at / N / H), (int)(delta_at / N % H), (int)(delta_at % N), &abs_delta);
    p.cancel = fabs(p.P) * (abs_dP + abs_delta);
    switch (k->dS) {
    case DS_NO_DELTA: p.dS = p.P * p.dP; break;
    case DS_PLUS_DELTA: p.dS = p.P * (p.dP + delta); break;
    case DS_IS_P: p.dS = p.P; break;
    case DS_WITHOUT_P: p.dS = p.dP - delta, p.cancel = abs_dP + abs_delta; break;
    case DS_MINUS: p.dS = -p.P * (p.dP - delta); break;
    case DS_P_DP: p.dS = p.P * p.dP - delta, p.cancel += abs_delta; break;
    case DS_DP_P: p.dS = p.dP * (p.P - delta), p.cancel = abs_dP * (p.P + abs_delta); break;
    case DS_SIGMOID: p.dS = p.P * (1 - p.P) * p.dP; break;
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
    const double scale = s->scale;
    switch (k->out) {
    case OUT_NO_SCALE: return 1;
    case OUT_SCALE_TWICE: return scale * scale;
    case OUT_LN2: return scale * LN2;
    case OUT_AS_LOGIT: return scale_of(k, s);
    case OUT_ROOT_D: return 1 / sqrt(s->head_dim);
    case OUT_LOG2E: return scale * LOG2E;
    default: return scale;
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

void query_row(const model_inputs *in, const kernel *k, int b, int h, int i, model_row *out)
{
    static _Thread_local visit visits[VISITS];
    const attention_shape *s = in->shape;
    const int D = s->head_dim, BC = k->BC, head = kv_head(s, k->map_K, b, h);
    oracle_sum sum[WB_MAX_HEAD_DIM];
    memset(sum, 0, sizeof sum);
    const int position = position_of(in, k, b, h, i),
              count = walk_of(in, k, k->position_in_mask ? i : position, visits);
    for (int v = 0; v < count; v++) {
        for (int j = visits[v].key; j < visits[v].key + visits[v].keys && j < s->kv_len; j++) {
            if (k->ghost == GHOST_FIRST_MISSING && j == 0) continue;
            const bool hidden = hides(in, k, position, j, visits[v].phase);
            if (hidden && (k->hide == HIDE_RIGHT || (k->hide == HIDE_OLD_BY_0 && j > i) ||
                           (k->hide == HIDE_FUTURE_BY_0 && j <= i)))
                continue;
            const pair p = pair_of(in, k, b, h, i, j, hidden, visits[v].key / BC, BC);
            const float *x = kv_row(in, k, in->K, head, j);
            if (k->dQ == DQ_FROM_Q) x = q_row_of(in, in->Q, b, h, j);
            if (k->dQ == DQ_FROM_OWN) x = q_row_of(in, in->Q, b, h, i);
            if (k->dQ == DQ_FROM_V) x = kv_row(in, k, in->V, head, j);
            add(sum, &p, p.dS, p.cancel, x, D);
        }
        for (int d = 0; k->rounded == ROUNDED_O && d < D; d++) sum[d].value = as_bf16(sum[d].value);
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
    *to = block < S ? N : min_int(N, block + BK - 1 + W);
    if (k->walk == WALK_ALL) *from = 0;
    if (k->walk == WALK_ALL || !has_window) *to = N;
    if (k->walk == WALK_QUERIES_OF_FIRST_KEY && block >= S) *to = min_int(N, block + W);
    if (k->walk == WALK_NO_FAR_QUERIES) *to = min_int(N, block + BK - 1 + W);
    *to = min_int(N, *from + (*to - *from + BQ - 1) / BQ * BQ);  // whole tiles; the mask does the rest
    if (k->walk == WALK_WHOLE_TILES) *to = min_int(*to, *from + (N - *from) / BQ * BQ);
    if (k->walk == WALK_WHOLE_TILES_BUT_FIRST) *to = min_int(*to, *from + max_int(1, (N - *from) / BQ) * BQ);
    if (k->walk == WALK_BLOCK_WHOLE_TILES) *to = min_int(*to, N / BQ * BQ);
    if (k->walk == WALK_DIAGONAL_SKIPPED || k->walk == WALK_DIAGONAL_SKIPPED_BUT_FIRST) *from = (block + BK) / BQ * BQ;
    if (k->walk == WALK_SKIPS_FIRST_TILE || k->walk == WALK_LAST_SKIPPED) *from += BQ;
    if (k->walk == WALK_FIRST_TILE_ALONE) *to = min_int(*to, *from + BQ);
    if (k->walk == WALK_LAST_TILE_ALONE && *to > *from) *from = (*to - 1) / BQ * BQ;
}

void key_row(const model_inputs *in, const kernel *k, int kv, int j, bool is_dK, model_row *out)
{
    const attention_shape *s = in->shape;
    const int D = s->head_dim, group = s->q_heads / s->kv_heads, block = j / k->BR * k->BR;
    kernel turned = *k;  // a mask that forgets the tile sees tiles that lie on their sides
    turned.BC = k->BR, turned.BR = k->BC;
    oracle_sum sum[WB_MAX_HEAD_DIM];
    memset(sum, 0, sizeof sum);
    int from, to;
    queries_of(in, k, block, &from, &to);
    for (int b = 0; b < s->batch; b++)
        for (int h = 0; h < s->q_heads; h++) {
            if (kv_head(s, is_dK ? k->map_K : k->map_V, b, h) != kv) continue;
            if ((k->group == GROUP_FIRST || k->group == GROUP_FIRST_REPEATED) && h % group) continue;
            if (k->group == GROUP_LAST && h % group != group - 1) continue;
            for (int i = from; i < to; i++) {
                if (k->ghost == GHOST_FIRST_MISSING && i == 0) continue;
                if (k->walk == WALK_EVERY_SECOND && (i - from) / k->BC % 2) continue;
                const phase phase = i / k->BC * k->BC < block + k->BR - 1 ? DIAGONAL : OFF;
                const bool hidden = hides(in, &turned, position_of(in, &turned, b, h, i), j, phase);
                if (hidden && (k->hide == HIDE_RIGHT || (k->hide == HIDE_OLD_BY_0 && j > i) ||
                               (k->hide == HIDE_FUTURE_BY_0 && j <= i)))
                    continue;
                const pair p = pair_of(in, k, b, h, i, j, hidden, j / k->BR, k->BR);
                const float *g = q_row_of(in,
                                          k->dV == DV_FROM_O   ? in->O
                                          : k->dV == DV_FROM_Q ? in->Q
                                                               : in->dO,
                                          b, h, i);
                if (!is_dK) {
                    const double term = k->dV == DV_FROM_DS ? p.dS : k->dV == DV_FROM_DP ? p.dP : p.P;
                    add(sum, &p, term, k->dV == DV_FROM_DS || k->dV == DV_FROM_DP ? p.cancel : 0, g, D);
                    continue;
                }
                const float *x = q_row_of(in, k->dQ == DQ_FROM_V ? in->dO : in->Q, b, h, i);
                if (k->dQ == DQ_FROM_Q) x = kv_row(in, k, in->K, kv, i);
                if (k->dQ == DQ_FROM_OWN) x = kv_row(in, k, in->K, kv, j);
                add(sum, &p, p.dS, p.cancel, x, D);
            }
            for (int d = 0; k->rounded == ROUNDED_O && d < D; d++) sum[d].value = as_bf16(sum[d].value);
        }
    const double mean = k->group == GROUP_MEAN ? 1.0 / group : k->group == GROUP_FIRST_REPEATED ? group : 1;
    const double factor = is_dK ? factor_of(k, s) : k->dV == DV_SCALED ? s->scale : 1;
    set_gradient(sum, D, mean * factor, (double)group * s->q_len, out);
}
