// mistakes.c - what a kernel with a mistake returns, row by row: a forward, a backward, a row sum. See mistakes.h.
//
// The right steps are those of FlashAttention-2, algorithms 1 and 2 (Dao 2023, arXiv:2307.08691). Exponents are natural here: that a
// kernel works in base 2 shows only where it mixes bases.
#include "mistakes.h"

#include "../tests/tolerance.h"
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOG2E 1.4426950408889634
#define LN2   0.6931471805599453

static int min_int(int a, int b) { return a < b ? a : b; }
static int max_int(int a, int b) { return a > b ? a : b; }

// ------------------------------------------------------------------------------------------------------ heads, scale, mask

static double scale_of(const kernel *k, const attention_shape *s)
{
    const double scale = s->scale;
    switch (k->scale) {
    case SCALE_NONE: return 1;
    case SCALE_TWICE: return scale * scale;
    case SCALE_LN2: return scale * LN2;
    case SCALE_LOG2E: return scale * LOG2E;
    case SCALE_ROOT_D: return 1 / sqrt(s->head_dim);
    case SCALE_INVERTED: return 1 / scale;
    case SCALE_ONE_OVER_D: return 1.0 / s->head_dim;
    case SCALE_ROOT: return sqrt(scale);
    case SCALE_TIMES_ROOT_D: return sqrt(s->head_dim);
    case SCALE_ROOT_N: return 1 / sqrt(s->kv_len);
    default: return scale;
    }
}

// The head of K or V, counted through the batches, that query head h of batch b reads; it may lie past the end.
static int kv_head(const attention_shape *s, int map, int b, int h)
{
    const int H = s->q_heads, G = s->kv_heads, group = H / G;
    switch (map) {
    case MAP_MODULO: return b * G + h % G;
    case MAP_INVERTED: return b * G + h / G;
    case MAP_INVERTED_WRAPPED: return b * G + h / G % G;
    case MAP_FIRST_HEAD: return b * G;
    case MAP_FIRST_OF_ALL: return 0;
    case MAP_NO_BATCH: return h / group;
    case MAP_BATCH_OF_QUERY_HEADS: return b * H + h / group;
    case MAP_OWN_HEAD: return b * G + h;
    case MAP_OWN_HEAD_CLAMPED: return b * G + min_int(h, G - 1);
    case MAP_BACKWARDS: return b * G + G - 1 - h / group;
    case MAP_PAIRS: return b * G + min_int(h / 2, G - 1);
    case MAP_SHIFTED: return b * G + min_int((h + 1) / group, G - 1);
    case MAP_SWAPPED: return h / group * s->batch + b;
    case MAP_COUNTED_IN_QUERY_HEADS: return b * G + h / group * group % G;
    default: return b * G + h / group;
    }
}

static const float *nowhere(void)
{
    static _Thread_local float row[128];
    for (int d = 0; d < 128; d++) row[d] = NAN;
    return row;
}

// Where row `row` of a head, counted through `heads` heads of each batch, stands.
static size_t row_at(bool inside, int heads, int head, int rows, int row)
{
    const size_t b = (size_t)(head / heads), h = (size_t)(head % heads);
    return inside ? (b * (size_t)rows + (size_t)row) * (size_t)heads + h : (size_t)head * (size_t)rows + (size_t)row;
}

// Row `row` of K or V, counted through all heads; beyond the end there is NaN, as in the harness's guard zones.
static const float *kv_row(const model_inputs *in, const kernel *k, const float *X, int head, int row)
{
    const attention_shape *s = in->shape;
    const size_t at = row_at(k->layout & LAYOUT_KV, s->kv_heads, head, s->kv_len, row);
    return at < (size_t)s->batch * (size_t)s->kv_heads * (size_t)s->kv_len ? X + at * (size_t)s->head_dim : nowhere();
}

// Part of a walk over the key tiles. OFF: left of the diagonal.
typedef enum phase { SINK, OFF, DIAGONAL } phase;
typedef struct visit {
    int key, keys;  // the tile's first key, and how many keys it has
    phase phase;
} visit;

enum { VISITS = 2048 };

static bool masked(const model_inputs *in, const kernel *k)
{
    return in->problem->mask != WB_NO_MASK && (in->shape->causal || k->causal == CAUSAL_ALWAYS);
}

// The position of query i for the mask.
static int position_of(const model_inputs *in, const kernel *k, int b, int h, int i)
{
    const int N = in->shape->q_len, H = in->shape->q_heads, group = H / in->shape->kv_heads;
    switch (k->position) {
    case POSITION_REVERSED: return ((N - 1) / k->BR - i / k->BR) * k->BR + i % k->BR;
    case POSITION_STACKED: return h % group * N + i;
    case POSITION_INTERLEAVED: return i * group + h % group;
    case POSITION_OF_ALL_HEADS: return (b * H + h) * N + i;
    default: return i;
    }
}

static int sink_keys(const kernel *k) { return k->SC ? k->SC : k->BC; }

// Which tiles the warp of query i visits, as in the answer keys; returns how many.
static int walk_of(const model_inputs *in, const kernel *k, int i, visit *visits)
{
    const int block = i / k->BR * k->BR, rows = k->ROWS ? k->ROWS : k->BR, warp = i / rows * rows;
    const attention_shape *s = in->shape;
    const int BC = k->BC, SC = sink_keys(k), BR = k->BR, all = (s->kv_len - 1) / BC + 1, N = s->kv_len;
    const bool has_window = in->problem->window;
    const int W = has_window ? s->window : N + 1, S = in->problem->sinks ? min_int(s->sinks, N) : 0;
    int first = 0, full = all, end = all, sink_end = 0;
    if (masked(in, k)) {
        full = (block + 1) / BC;
        end = (min_int(block + BR, N) - 1) / BC + 1;
        if (k->walk != WALK_ALL) first = max_int(0, block - W + 1) / BC;
        if (k->walk == WALK_ALL) end = all;
    }
    const int diagonal = end - full;
    switch (k->walk) {
    case WALK_DIAGONAL_SKIPPED: end = min_int(end, full); break;
    case WALK_DIAGONAL_SKIPPED_BUT_FIRST: end = max_int(min_int(end, full), 1); break;
    case WALK_LAST_SKIPPED: end--; break;
    case WALK_LAST_SKIPPED_BUT_FIRST: end = max_int(1, end - 1); break;
    case WALK_ONE_ON_DIAGONAL: end = min_int(end, full + 1); break;
    case WALK_END_IN_BLOCKS: end = min_int(max_int(full, block / BR) + 1, all); break;
    case WALK_WHOLE_TILES: end = min_int(end, N / BC); break;
    case WALK_WHOLE_TILES_BUT_FIRST: end = min_int(end, max_int(1, N / BC)); break;
    case WALK_BLOCK_WHOLE_TILES: end = min_int(end, min_int(block + BR, N) / BC); break;
    case WALK_FULL_ONE_MORE: full = min_int(full + 1, end); break;
    case WALK_FULL_OF_LAST_ROW: full = min_int(block + BR, N) / BC; break;
    case WALK_FIRST_TILE_ALONE: end = min_int(end, first + 1); break;
    case WALK_SKIPS_FIRST_TILE: first++; break;
    case WALK_WINDOW_FROM_LAST_ROW: first = min_int(max_int(0, block + BR - W) / BC, full); break;
    case WALK_WINDOW_ROUNDED_UP: first = min_int((max_int(0, block - W + 1) + BC - 1) / BC, full); break;
    case WALK_WINDOW_IN_TILES: first = max_int(0, min_int(full, block / BC) - W / BC); break;
    case WALK_LAST_TILE_ALONE: first = max_int(first, end - 1); break;
    default: break;
    }
    if (S > 0) {
        sink_end = (min_int(S, first * BC) + SC - 1) / SC;
        if (k->walk == WALK_SINKS_TWICE) sink_end = (min_int(S, block + 1) + SC - 1) / SC;
        if (k->walk == WALK_SINKS_TWICE_CAUSAL || k->walk == WALK_SINKS_TWICE_IN_TILES) sink_end = (S + SC - 1) / SC;
        if (k->walk == WALK_SINKS_ROUNDED_DOWN) sink_end = min_int(S, first * BC) / SC;
        if (k->walk == WALK_ONE_SINK_TILE) sink_end = min_int(sink_end, 1);
        if (k->sinks == SINKS_ONE_MORE) sink_end = (min_int(S + 1, first * BC) + SC - 1) / SC;
    }
    int n = 0;
    for (int t = 0; t < sink_end; t++)
        visits[n++] = (visit){t * SC, SC, k->walk == WALK_SINKS_TWICE_IN_TILES ? DIAGONAL : SINK};
    for (int t = first; t < end; t++) {
        const bool unseen = t * BC >= warp + rows || ((t + 1) * BC <= warp - W + 1 && t * BC >= S);
        if (k->ROWS && masked(in, k) && k->walk != WALK_ALL && unseen) continue;
        if (k->walk == WALK_EVERY_SECOND && (t - first) % 2) continue;
        const int times = k->walk == WALK_DIAGONAL_TWICE && diagonal > 0 && t >= full ? 2 : 1;
        for (int again = 0; again < times; again++) visits[n++] = (visit){t * BC, BC, t < full ? OFF : DIAGONAL};
    }
    return n;
}

// Whether this kernel's mask hides key j from query i.
static bool hides(const model_inputs *in, const kernel *k, int i, int j, phase phase)
{
    const attention_shape *s = in->shape;
    if (!masked(in, k)) return false;
    const int i_block = i / k->BR * k->BR, rows = k->ROWS ? k->ROWS : k->BR;
    const int i_local = i % k->BR, j_local = j % k->BC;
    const bool everywhere = k->one_mask || k->walk == WALK_ALL;
    bool future = false;
    if (phase == DIAGONAL || everywhere || (phase == SINK && in->problem->signature == WB_BACKWARD))
        switch (k->causal) {
        case CAUSAL_NONE: break;
        case CAUSAL_ONE_MORE: future = j > i + 1; break;
        case CAUSAL_ONE_LESS: future = j >= i; break;
        case CAUSAL_TRANSPOSED: future = j < i; break;
        case CAUSAL_LOCAL: future = j_local > i_local; break;
        case CAUSAL_LOCAL_QUERY: future = j > i_local; break;
        case CAUSAL_LOCAL_KEY: future = j_local > i; break;
        case CAUSAL_LOCAL_WARP: future = j_local > i % rows; break;
        case CAUSAL_NO_WARP: future = j > i_block + (i - i_block) % rows; break;
        case CAUSAL_END_ONE_EARLY: future = j > i || j >= min_int(i_block + k->BR, s->q_len) - 1; break;
        case CAUSAL_BEFORE_BLOCK: future = i_block > 0 ? j >= i_block : j > i; break;
        case CAUSAL_WINDOW: future = in->problem->window && j >= i + s->window; break;
        default: future = j > i;
        }
    if (!in->problem->window) return future;

    const int W = s->window, S = in->problem->sinks ? s->sinks : 0;
    bool old = false;
    switch (k->window) {
    case WINDOW_NONE: break;
    case WINDOW_ONE_MORE: old = j < i - W; break;
    case WINDOW_ONE_LESS: old = j <= i - W + 1; break;
    case WINDOW_NOT_ON_DIAGONAL: old = phase != DIAGONAL && j <= i - W; break;
    case WINDOW_ON_DIAGONAL_ALONE: old = phase == DIAGONAL && j <= i - W; break;
    case WINDOW_OF_BLOCK: old = j <= i_block - W; break;
    case WINDOW_HALF: old = j <= i - (W + 1) / 2; break;
    case WINDOW_PLUS_SINKS: old = j <= i - W - min_int(S, s->kv_len); break;
    case WINDOW_MINUS_SINKS: old = j <= i - max_int(1, W - S); break;
    case WINDOW_TESTED_BY_FIRST_ROW:
        old = j <= i - W && (phase == DIAGONAL || j / k->BC * k->BC <= i / rows * rows - W);
        break;
    case WINDOW_IN_TILES: old = i / k->BC - j / k->BC >= W; break;
    case WINDOW_CHUNKS: old = j < i / W * W; break;
    case WINDOW_TWO_CHUNKS: old = j < (i / W - 1) * W; break;
    case WINDOW_OF_BLOCK_END: old = j <= i_block + k->BR - 1 - W; break;
    case WINDOW_TWICE: old = j <= i - 2 * min_int(W, s->kv_len); break;
    case WINDOW_LOCAL: old = j_local <= i_local - W; break;
    case WINDOW_ONE_MORE_ON_DIAGONAL: old = phase == DIAGONAL ? j < i - W : j <= i - W; break;
    default: old = j <= i - W;
    }
    bool sink = j < S;
    switch (k->sinks) {
    case SINKS_NONE:
    case SINKS_EMPTY: sink = false; break;
    case SINKS_ONE_MORE: sink = S > 0 && j <= S; break;
    case SINKS_ONE_LESS: sink = j < S - 1; break;
    case SINKS_WHOLE_TILE: sink = S > 0 && j < (S + sink_keys(k) - 1) / sink_keys(k) * sink_keys(k); break;
    case SINKS_WHOLE_TILE_AMONG_SINKS:
        sink = phase == SINK ? S > 0 && j < (S + sink_keys(k) - 1) / sink_keys(k) * sink_keys(k) : sink;
        break;
    case SINKS_NOT_IN_WINDOW_TILES: sink = sink && phase != OFF; break;
    case SINKS_NOT_ON_DIAGONAL: sink = sink && phase != DIAGONAL; break;
    case SINKS_AMONG_SINKS_ALONE: sink = sink && phase == SINK; break;
    case SINKS_FIRST_ONLY: sink = j < min_int(S, 1); break;
    default: break;
    }
    if (k->sinks == SINKS_NOT_CAUSAL) return (future || old) && !sink;
    if (k->sinks == SINKS_HIDDEN_IN_WINDOW && phase != SINK) {
        const bool no_mask = phase == OFF && !everywhere && j / k->BC * k->BC > i / rows * rows + rows - 1 - W;
        return future || (!no_mask && (old || j < S));
    }
    if (phase == SINK && in->problem->signature == WB_FORWARD)
        return !sink || (k->walk == WALK_SINKS_TWICE_CAUSAL && j > i);
    return future || (old && !sink);
}

// ---------------------------------------------------------------------------------------------------------------- forward

// float32 overflows early. That it underflows early is looked at once, in finalize.
static double as_float(double x) { return fabs(x) > FLT_MAX ? copysign(INFINITY, x) : x; }

static double weight(double x) { return as_float(exp(x)); }

static double as_bf16(double x) { return isfinite(x) ? wb_from_bf16(wb_to_bf16((float)x)) : x; }

static double lse_of(const kernel *k, double m, double l, double scale)
{
    const double log_l = log(l);
    switch (k->lse) {
    case LSE_BASE_2: return (m + log_l) * LOG2E;
    case LSE_M_BASE_2: return m * LOG2E + log_l;
    case LSE_L_BASE_2: return m + log_l * LOG2E;
    case LSE_TIMES_LN2: return (m + log_l) * LN2;
    case LSE_M_TIMES_LN2: return m * LN2 + log_l;
    case LSE_NO_M: return log_l;
    case LSE_NO_M_BASE_2: return log_l * LOG2E;
    case LSE_ONLY_M: return m;
    case LSE_ONLY_M_BASE_2: return m * LOG2E;
    case LSE_M_PLUS_L: return m + l;
    case LSE_ONLY_L: return l;
    case LSE_M_UNSCALED: return m / scale + log_l;
    case LSE_MINUS: return m - log_l;
    case LSE_MINUS_M: return log_l - m;
    case LSE_EXP: return as_float(exp(m + log_l));
    case LSE_M_SCALED: return m * scale + log_l;
    default: return m + log_l;
    }
}

// The state of a row. Four lanes hold a row's columns (tile.cuh): a kernel that forgets to bring them together has four m and l.
typedef struct row_state {
    double m[4], l[4], O[128], size[128];  // size: the sum of absolute values, scaled alike
    double S[256], stale[256];             // this tile's exponents; the weights of the one before
    bool hidden[256];
    const float *v[256];
    double largest, l_size;
    int no_max;    // columns from here on do not count in the maximum
    bool unknown;  // depends on what was in memory before
    phase phase;
    int keys[2048], key_count;  // of packed tiles
} row_state;

static double dot(const float *a, const float *b, int D, double *size)
{
    double sum = 0, absolute = 0;
    for (int d = 0; d < D; d++) {
        const double term = (double)a[d] * b[d];
        sum += term, absolute += fabs(term);
    }
    *size = fmax(*size, absolute);
    return sum;
}

// Fills S, hidden and v of a row for a tile; columns left out have S = -infinity.
static void score(const model_inputs *in, const kernel *k, int b, int h, int i, visit at, row_state *r)
{
    const attention_shape *s = in->shape;
    const int Nk = s->kv_len, BC = k->BC;
    const int D = k->dims == -2 ? s->head_dim / 2 : k->dims ? min_int(k->dims, s->head_dim) : s->head_dim;
    const int b_Q = k->Q == Q_FIRST_BATCH ? 0 : b, h_Q = k->Q == Q_FIRST_HEAD ? 0 : h;
    int i_Q = i;
    if (k->Q == Q_FIRST_TILE) i_Q = i % k->BR;
    if (k->Q == Q_FIRST_WARP) i_Q = i / k->BR * k->BR + i % (k->ROWS ? k->ROWS : k->BR);
    const size_t q_row = row_at(k->layout & LAYOUT_Q, s->q_heads, b_Q * s->q_heads + h_Q, s->q_len, i_Q);
    const float *q = in->Q + q_row * (size_t)s->head_dim;
    const double scale = scale_of(k, s);
    const bool q_rounded = k->rounded == ROUNDED_Q || k->rounded == ROUNDED_Q_BASE_2;
    const double base = k->rounded == ROUNDED_Q_BASE_2 || k->rounded == ROUNDED_S_BASE_2 ? LOG2E : 1;
    float own_q[128];
    if (q_rounded) {
        for (int d = 0; d < s->head_dim; d++) own_q[d] = (float)as_bf16(q[d] * scale * base);
        q = own_q;
    }
    const int position = position_of(in, k, b, h, i);
    const int head_K = kv_head(s, k->map_K, b, h), head_V = kv_head(s, k->map_V, b, h);
    const float *K = k->operands == PAIR_QV_V || k->operands == PAIR_QV_K ? in->V : in->K;
    const float *V = k->operands == PAIR_QK_K || k->operands == PAIR_QV_K ? in->K : in->V;
    const bool plain =
        in->dots && k->map_K == MAP_RIGHT && K == in->K && !k->dims && !k->K_first_tile && !k->layout && !q_rounded;
    const bool tail = at.key + at.keys > Nk;

    r->no_max = BC, r->phase = at.phase;
    for (int c = 0; c < BC; c++) {
        const int n = at.key + c, j = !k->packed ? n : n < r->key_count ? r->keys[n] : Nk;
        r->S[c] = -INFINITY, r->hidden[c] = false, r->v[c] = NULL;
        if (c >= at.keys) continue;
        double x;
        if (j < Nk) {
            if (k->ghost == GHOST_LAST_MISSING && j == Nk - 1) continue;
            if (k->ghost == GHOST_LAST_OF_TAIL && tail && j == Nk - 1) continue;
            if (k->ghost == GHOST_FIRST_MISSING && j == 0) continue;
            const bool hidden = !k->packed && hides(in, k, position, j, at.phase);
            const bool by_0 =
                hidden && (k->hide == HIDE_BY_0 || (k->hide == HIDE_OLD_BY_0 && j <= i) ||
                           (k->hide == HIDE_FUTURE_BY_0 && j > i) || (k->hide == HIDE_SINKS_BY_0 && at.phase == SINK));
            if (hidden && !by_0 && k->hide != HIDE_AFTER_MAX && k->hide != HIDE_AFTER_SUM) continue;
            r->hidden[c] = hidden;
            if (by_0)
                x = 0, r->hidden[c] = false;
            else if (plain)
                x = in->dots[q_row * (size_t)Nk + (size_t)j];
            else
                x = dot(q, kv_row(in, k, K, head_K, k->K_first_tile ? c : j), D, &r->largest);
            int j_V = j;
            if (k->V_tile == V_NEXT_TILE) j_V = j + BC;
            if (k->V_tile == V_LAST_TILE) j_V = j >= BC ? j - BC : j;
            if (k->V_tile == V_FIRST_TILE) j_V = c;
            if (k->V_tile == V_NEXT_KEY) j_V = j + 1;
            if (k->V_tile == V_KEY_BEFORE) j_V = max_int(0, j - 1);
            if (k->V_tile == V_NEXT_TILE && j_V >= Nk) j_V = j >= BC ? j - BC : j;  // what a second buffer still holds
            r->v[c] = k->sinks == SINKS_WITHOUT_V && at.phase == SINK ? NULL : kv_row(in, k, V, head_V, j_V);
        } else {
            switch (k->ghost) {
            case GHOST_ZERO: x = 0; break;
            case GHOST_ONE_ZERO:
                if (j > Nk) continue;
                x = 0;
                break;
            case GHOST_CLAMPED:
                x = dot(q, kv_row(in, k, K, head_K, Nk - 1), D, &r->largest);
                r->v[c] = kv_row(in, k, V, head_V, Nk - 1);
                break;
            case GHOST_NEXT:
                x = dot(q, kv_row(in, k, K, head_K, j), D, &r->largest);
                r->v[c] = kv_row(in, k, V, head_V, j);
                break;
            case GHOST_STALE:
                if (at.key == 0) r->unknown = true;
                r->S[c] = r->stale[c] * LN2;
                r->no_max = c < r->no_max ? c : r->no_max;
                continue;
            default: continue;
            }
            if (k->packed) continue;
            if (hides(in, k, position, j, at.phase)) {
                if (k->hide == HIDE_RIGHT || k->hide == HIDE_OLD_BY_0 || k->hide == HIDE_SINKS_BY_0) continue;
                r->hidden[c] = k->hide == HIDE_AFTER_MAX || k->hide == HIDE_AFTER_SUM;
                x = 0;
            }
        }
        r->S[c] = q_rounded ? x / base : scale * x;
        if (k->rounded == ROUNDED_S) r->S[c] = scale * as_bf16(x);
        if (k->rounded == ROUNDED_S_SCALED || k->rounded == ROUNDED_S_BASE_2) r->S[c] = as_bf16(r->S[c] * base) / base;
    }
}

// What the maximum is measured in.
static double unit_of(const model_inputs *in, const kernel *k)
{
    return k->m_units == M_UNSCALED ? 1 / scale_of(k, in->shape) : k->m_units == M_WITHOUT_LOG2E ? LN2 : 1;
}

// One tile of the online softmax.
static void attend(const model_inputs *in, const kernel *k, row_state *r, bool first, bool outgrown, bool with_O)
{
    const int BC = k->BC, D = in->shape->head_dim;
    const double scale = scale_of(k, in->shape);
    double tile_max[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, m_new[4], alpha[4], added[4] = {0};
    const double unit = unit_of(in, k);
    for (int c = 0; c < BC && c < r->no_max; c++) tile_max[c % 8 / 2] = fmax(tile_max[c % 8 / 2], r->S[c] * unit);
    if (k->max != MAX_OF_OWN_COLUMNS) {
        const double whole = fmax(fmax(tile_max[0], tile_max[1]), fmax(tile_max[2], tile_max[3]));
        for (int p = 0; p < 4; p++) tile_max[p] = whole;
    }
    for (int p = 0; p < 4; p++) {
        const double m = r->m[p];
        m_new[p] = outgrown ? fmax(m, tile_max[p]) : m;
        if (k->max == MAX_NONE) m_new[p] = 0;
        if (k->max == MAX_OF_TILE && tile_max[p] > -INFINITY) m_new[p] = tile_max[p];
        if (k->max == MAX_FIRST_TILE && m > -INFINITY) m_new[p] = m;
        double d = m - m_new[p];
        if (m == -INFINITY && m_new[p] == -INFINITY) d = 0;
        if (k->alpha == ALPHA_INVERTED) d = -d;
        if (k->alpha == ALPHA_INVERTED_GUARDED) d = m == -INFINITY ? 0 : -d;
        if (k->alpha == ALPHA_UNSCALED) d /= scale;
        if (k->alpha == ALPHA_EXP2) d *= LN2;
        if (k->alpha == ALPHA_EXP) d *= LOG2E;
        if (k->max == MAX_NOT_KEPT) d = -INFINITY;
        if (k->max == MAX_NEVER_STORED && tile_max[p] > -INFINITY) m_new[p] = -FLT_MAX, d = -INFINITY;
        alpha[p] = d == -INFINITY ? 0 : as_float(exp(d));
        if (k->max == MAX_INFINITE && m_new[p] == -INFINITY) r->l[p] = NAN;
        if (m_new[p] == m && k->max != MAX_NOT_KEPT && k->max != MAX_NEVER_STORED) alpha[p] = 1;
    }

    double *O = r->O, *size = r->size;
    const int late = k->late & OF_LATER && first ? 0 : k->late,
              columns = k->columns == COLUMNS_HALF_RESCALED ? D / 2 : D;
    if (with_O && k->O_overwritten) memset(O, 0, sizeof r->O), memset(size, 0, sizeof r->size);
    if (with_O && !k->O_not_rescaled && !(late & OF_O))
        for (int d = 0; d < columns; d++) {
            const double a = k->twice & OF_O ? alpha[d % 8 / 2] * alpha[d % 8 / 2] : alpha[d % 8 / 2];
            O[d] *= a, size[d] *= a;
        }
    double l_size = 0;
    for (int c = 0; c < BC; c++) {
        const int p = c % 8 / 2;
        const double x = r->S[c];
        r->stale[c] = 0;
        if (x == -INFINITY) {
            if (k->l == L_OF_ALL_SCORES || k->l == L_OF_ALL_SCALED_SCORES) added[p] = -INFINITY;
            continue;
        }
        if (c >= r->no_max && x - m_new[p] > 80) r->unknown = true;  // exp2_fast makes anything of it
        double P = weight(x - (k->own_max & OF_O ? tile_max[p] : m_new[p]));
        double in_l = k->own_max ? weight(x - (k->own_max & OF_L ? tile_max[p] : m_new[p])) : P;
        if (k->rounded == ROUNDED_P) in_l = as_bf16(P);
        if (k->sinks == SINKS_NOT_IN_L && r->phase == SINK) in_l = 0;
        if (k->hide == HIDE_AFTER_MAX && r->hidden[c]) P = in_l = 0;
        if (k->hide == HIDE_AFTER_SUM && r->hidden[c]) P = 0;
        r->stale[c] = P;
        if (k->l == L_OLD_MAX) in_l = first || r->m[p] == -INFINITY ? P : weight(x - r->m[p]);
        if (k->l == L_OF_SCORES || k->l == L_OF_ALL_SCORES) in_l = x / scale;
        if (k->l == L_OF_ALL_SCALED_SCORES) in_l = x * LOG2E;
        if (k->l == L_OF_SHIFTED_SCORES) in_l = (x - m_new[p]) * LOG2E;
        if (k->l == L_OF_EVERY_32ND && c % 32) in_l = 0;
        added[p] += in_l, l_size += fabs(in_l);
        if (!with_O || !r->v[c] || P == 0) continue;
        const float *v = r->v[c];
        for (int d = 0; d < D; d++) O[d] += P * v[d];
        for (int d = 0; d < D; d++) size[d] += P * fabs((double)v[d]);
    }
    for (int p = 0; p < 4; p++) {
        const double a = k->l_not_rescaled ? 1 : k->twice & OF_L ? alpha[p] * alpha[p] : alpha[p];
        if (!(late & OF_L)) r->l[p] *= a;
        if (k->l == L_LAST_TILE) r->l[p] = 0;
        if (k->l != L_NEVER) r->l[p] += added[p];
        if (late & OF_L) r->l[p] *= a;
        if (k->rounded == ROUNDED_L_SUM) r->l[p] = as_bf16(r->l[p]);
        r->l[p] = as_float(r->l[p]);
        r->m[p] = m_new[p];
    }
    r->l_size = r->l_size + l_size;
    if (!with_O) return;
    if (late & OF_O)
        for (int d = 0; d < D; d++) O[d] *= alpha[d % 8 / 2], size[d] *= alpha[d % 8 / 2];
    for (int d = 0; d < D; d++) O[d] = k->rounded == ROUNDED_O ? as_bf16(O[d]) : as_float(O[d]);
    if (k->divide == DIVIDE_IN_LOOP || k->divide == DIVIDE_IN_LOOP_AND_AT_END) {
        const double l = r->l[0] + r->l[1] + r->l[2] + r->l[3];
        for (int d = 0; d < D; d++) O[d] /= l, size[d] /= l;
    }
}

static bool writes(const model_inputs *in, const kernel *k, bool is_O, int b, int h, int i, int d)
{
    const attention_shape *s = in->shape;
    switch (k->writes) {
    case WRITES_NO_O: return !is_O;
    case WRITES_NO_L: return is_O;
    case WRITES_WHOLE_TILES: return i < s->q_len / k->BR * k->BR;
    case WRITES_FIRST_TILE: return i < k->BR;
    case WRITES_FIRST_BATCH: return b == 0;
    case WRITES_FIRST_HEAD: return h == 0;
    case WRITES_FIRST_OF_GROUP: return h % (s->q_heads / s->kv_heads) == 0;
    case WRITES_KV_HEADS: return h < s->kv_heads;
    case WRITES_HALF_OF_D: return !is_O || d < s->head_dim / 2;
    default: return true;
    }
}

static void finalize(const model_inputs *in, const kernel *k, int b, int h, int i, row_state *r, bool is_O,
                     model_row *out)
{
    const attention_shape *s = in->shape;
    const int D = s->head_dim;
    const double scale = scale_of(k, s), largest = r->largest * scale;
    double l = r->l[0] + r->l[1] + r->l[2] + r->l[3];
    if (k->l == L_PLUS_ONE) l += 1;
    // Where all weights underflow. In between, it depends on whether small numbers are flushed to 0.
    if (k->l < L_OF_SCORES && l > 0 && l < 1e-36) {
        if (l < 1e-46)
            l = 0, memset(r->O, 0, sizeof r->O);
        else
            r->unknown = true;
    }
    if (!is_O) {
        if (k->l == L_OF_OWN_COLUMNS) l = r->l[0];
        const double exact = lse_of(k, r->m[0], l, scale), L = k->rounded == ROUNDED_L ? as_bf16(exact) : exact;
        out->value[0] = L;
        out->tolerance[0] = tolerance_L(L, largest, D, s->kv_len) + U_FLOAT * fabs(r->m[0]) * 4;
        out->tolerance[0] *= k->lse == LSE_ONLY_L || k->lse == LSE_M_PLUS_L ? 1 + fabs(l) : 1;
        if (k->l >= L_OF_SCORES && k->l <= L_OF_ALL_SCALED_SCORES)
            out->tolerance[0] += (U_FLOAT * s->kv_len + tolerance_logit(largest, D)) * r->l_size / fabs(l);
        if (k->lse == LSE_EXP) out->tolerance[0] = fabs(L) * (tolerance_L(log(L), largest, D, s->kv_len) + U_FLOAT);
        if (k->lse == LSE_M_UNSCALED) out->tolerance[0] += tolerance_logit(largest, D) / scale;
        if (r->unknown) out->tolerance[0] = MODEL_UNKNOWN;
        if (!writes(in, k, false, b, h, i, 0)) out->tolerance[0] = MODEL_UNWRITTEN;
        return;
    }
    for (int d = 0; d < D; d++) {
        double O = r->O[d], size = r->size[d], divisor = l;
        if (k->l == L_OF_OWN_COLUMNS) divisor = r->l[d % 8 / 2];
        if (k->divide == DIVIDE_NEVER || k->divide == DIVIDE_IN_LOOP) divisor = 1;
        if (k->divide == DIVIDE_TWICE) divisor *= divisor;
        if (k->divide == DIVIDE_BY_N) divisor = s->kv_len;
        if (k->divide == DIVIDE_UPSIDE_DOWN) divisor = 1 / divisor;
        if (k->divide == DIVIDE_AND_SCALE) divisor /= s->scale;
        if (k->columns == COLUMNS_HALF_NORMALISED && d >= D / 2) divisor = 1;
        O /= divisor, size /= fabs(divisor);
        out->value[d] = O;
        out->tolerance[d] = tolerance_O(O, size, largest, D, s->kv_len, in->bf16_output ? WB_BFLOAT16 : WB_FLOAT32);
        if (k->l >= L_OF_SCORES && k->l <= L_OF_ALL_SCALED_SCORES)
            out->tolerance[d] += fabs(O) * (U_FLOAT * s->kv_len + tolerance_logit(largest, D)) * r->l_size / fabs(l);
        if (r->unknown) out->tolerance[d] = MODEL_UNKNOWN;
        if (!writes(in, k, true, b, h, i, d)) out->tolerance[d] = MODEL_UNWRITTEN;
    }
}

static void forward_rows(const model_inputs *in, const kernel *k, int b, int h, int i0, int rows, bool is_O,
                         model_row *out)
{
    static _Thread_local row_state state[MODEL_ROWS];
    static _Thread_local visit visits[VISITS];
    for (int n = 0; n < rows; n++) {
        row_state *r = &state[n];
        memset(r->O, 0, sizeof r->O), memset(r->size, 0, sizeof r->size);
        for (int p = 0; p < 4; p++) r->m[p] = k->max == MAX_FROM_0 || k->max == MAX_NONE ? 0 : -INFINITY, r->l[p] = 0;
        if (k->sinks == SINKS_EMPTY && in->shape->sinks > 0 && in->shape->causal)
            for (int p = 0; p < 4; p++) r->m[p] = 0, r->l[p] = p == 0 ? in->shape->sinks : 0;
        r->largest = 0, r->l_size = 0, r->unknown = false;
        memset(r->stale, 0, sizeof r->stale);
        if (in->dots) {  // of the right keys: the scale of rounding errors
            const attention_shape *s = in->shape;
            const size_t row = ((size_t)b * (size_t)s->q_heads + (size_t)h) * (size_t)s->q_len + (size_t)(i0 + n);
            const float *q = in->Q + row * (size_t)s->head_dim;
            double size = 0;
            for (int d = 0; d < s->head_dim; d++) size += fabs((double)q[d]) * 4;  // |k| is seldom above 4
            r->largest = size;
        }
    }
    int count = k->packed ? 0 : walk_of(in, k, k->position_in_mask ? i0 : position_of(in, k, b, h, i0), visits);
    if (k->packed) {  // a row at a time
        state->key_count = 0;
        for (int j = 0; j < in->shape->kv_len && state->key_count < 2048; j++)
            if (oracle_visible(in->problem, in->shape, i0, j)) state->keys[state->key_count++] = j;
        while (count * k->BC < state->key_count) visits[count] = (visit){count * k->BC, k->BC, OFF}, count++;
    }
    for (int v = 0; v < count; v++) {
        bool outgrown = k->slack == 0;
        for (int n = 0; n < rows; n++) {
            score(in, k, b, h, i0 + n, visits[v], &state[n]);
            for (int c = 0; c < k->BC && !outgrown; c++)
                outgrown = state[n].S[c] * unit_of(in, k) > state[n].m[c % 8 / 2] + k->slack;
        }
        for (int n = 0; n < rows; n++) attend(in, k, &state[n], v == 0, outgrown, is_O);
    }
    for (int n = 0; n < rows; n++) finalize(in, k, b, h, i0 + n, &state[n], is_O, &out[n]);
}

// ------------------------------------------------------------------------------------------------------- parts and their merge

typedef struct part {
    double m, l, L, keys, O[128], size[128];  // O is divided by l
} part;

enum { PARTS = 512 };

static int part_of(const kernel *k, int Nk, int seen, int j, int n)
{
    switch (k->parts) {
    case PARTS_RUNS: return j / ((Nk + k->BC - 1) / k->BC);
    case PARTS_OF_SEEN: return n / ((seen + k->BC - 1) / k->BC);
    case PARTS_TURNS: return j % k->BC;
    default: return j / k->BC;
    }
}

// The softmax of each part of the keys of a row; returns how many parts have keys.
static int split(const model_inputs *in, const kernel *k, int b, int h, int i, bool is_O, part *parts, double *largest)
{
    static _Thread_local double S[2048];
    static _Thread_local short of[2048], place[PARTS];
    const attention_shape *s = in->shape;
    const int D = s->head_dim, Nk = min_int(s->kv_len, 2048), head = kv_head(s, MAP_RIGHT, b, h);
    const size_t row = row_at(false, s->q_heads, b * s->q_heads + h, s->q_len, i);
    int seen = 0, n = 0, count = 0;
    for (int j = 0; j < Nk; j++) seen += oracle_visible(in->problem, s, i, j);
    for (int p = 0; p < PARTS; p++) place[p] = -1;
    *largest = 0;
    for (int d = 0; d < D; d++) *largest += fabs((double)in->Q[row * (size_t)D + (size_t)d]) * 4;
    for (int j = 0; j < Nk; j++) {
        of[j] = -1;
        if (!oracle_visible(in->problem, s, i, j)) continue;
        const int p = min_int(part_of(k, Nk, seen, j, n++), PARTS - 1);
        if (place[p] < 0) {
            place[p] = (short)count;
            parts[count] = (part){.m = -INFINITY};
            count++;
        }
        of[j] = place[p];
        S[j] = s->scale * in->dots[row * (size_t)s->kv_len + (size_t)j];
        parts[of[j]].m = fmax(parts[of[j]].m, S[j]);
        parts[of[j]].keys++;
    }
    for (int j = 0; j < Nk; j++) {
        if (of[j] < 0) continue;
        part *p = &parts[of[j]];
        const double w = exp(S[j] - p->m);
        const float *v = kv_row(in, k, in->V, head, j);
        p->l += w;
        for (int d = 0; is_O && d < D; d++) p->O[d] += w * v[d], p->size[d] += w * fabs((double)v[d]);
    }
    for (int n = 0; n < count; n++) {
        parts[n].L = parts[n].m + log(parts[n].l);
        for (int d = 0; is_O && d < D; d++) parts[n].O[d] /= parts[n].l, parts[n].size[d] /= parts[n].l;
    }
    return count;
}

static double weight_of(const kernel *k, const part *p, double m, double L)
{
    switch (k->merge) {
    case MERGE_BY_MAXIMA: return exp(p->m - m);
    case MERGE_BY_SUMS: return p->l;
    case MERGE_SUMS_OVER_L: return p->l;
    case MERGE_BY_L: return p->L;
    case MERGE_BY_KEYS: return p->keys;
    case MERGE_NOT_DIVIDED: return exp(p->L - L);
    case MERGE_L_NOT_SHIFTED: return as_float(exp(p->L));
    case MERGE_RIGHT: return exp(p->L - L);
    default: return 1;
    }
}

// O and L of a row from those of parts of its keys.
static void merge_row(const model_inputs *in, const kernel *k, int b, int h, int i, bool is_O, model_row *out)
{
    static _Thread_local part parts[PARTS];
    const attention_shape *s = in->shape;
    const int D = s->head_dim;
    double m = -INFINITY, L = -INFINITY, total = 0, sum = 0, sum_L = 0, l = 0, sums = 0, largest;
    const int count = split(in, k, b, h, i, is_O, parts, &largest);
    for (int n = 0; n < count; n++) m = fmax(m, parts[n].m), L = fmax(L, parts[n].L), sum_L += parts[n].L;
    for (int n = 0; n < count; n++) l += parts[n].l * exp(parts[n].m - m), sums += parts[n].l;
    for (int n = 0; n < count; n++) total += weight_of(k, &parts[n], m, L), sum += exp(parts[n].L - L);
    double O[128] = {0}, size[128] = {0};
    double top = -INFINITY;
    for (int n = 0; n < count; n++) {
        double w = weight_of(k, &parts[n], m, L) / total, old = 1;
        if (k->merge == MERGE_SUM) w = 1;
        if (k->merge == MERGE_NOT_DIVIDED) w *= total;
        if (k->merge == MERGE_HALVES) old = n == 0 ? 0 : 0.5, w = 1 - old;
        if (k->merge == MERGE_LAST) w = n == count - 1;
        if (k->merge == MERGE_FIRST) w = n == 0;
        if (k->merge == MERGE_SUMS_OVER_L) w = parts[n].l / l;
        if (k->merge == MERGE_L_OF_SUMS) w = parts[n].l * exp(parts[n].m - m) / sums;
        if (k->merge == MERGE_EMPTY && count < k->BC) w = NAN;
        if (k->merge == MERGE_BY_MAXIMA_IN_TURN) {
            const double both = fmax(top, parts[n].m), a = exp(top - both), c = exp(parts[n].m - both);
            old = a / (a + c), w = c / (a + c), top = both;
        }
        for (int d = 0; d < D; d++) {
            O[d] = old * O[d] + w * parts[n].O[d];
            size[d] = old * size[d] + fabs(w) * parts[n].size[d];
        }
    }
    largest *= s->scale;
    for (int d = 0; is_O && d < D; d++) {
        out->value[d] = O[d];
        out->tolerance[d] =
            tolerance_O(O[d], size[d], largest, D, s->kv_len, in->bf16_output ? WB_BFLOAT16 : WB_FLOAT32);
        if (k->merge == MERGE_BY_L) out->tolerance[d] += size[d] * tolerance_L(L, largest, D, s->kv_len) * count;
    }
    if (is_O) return;
    double value = L + log(sum);
    if (k->merge == MERGE_L_OF_SUMS) value = m + log(sums);
    if (k->merge == MERGE_EMPTY && count < k->BC) value = NAN;
    switch (k->merged_L) {
    case MERGED_L_AS_O: value = k->merge == MERGE_SUM ? sum_L : m + log(total); break;
    case MERGED_L_MAX: value = L; break;
    case MERGED_L_SUM: value = sum_L; break;
    case MERGED_L_MEAN: value = sum_L / count; break;
    case MERGED_L_FIRST: value = parts[0].L; break;
    case MERGED_L_LAST: value = parts[count - 1].L; break;
    default: break;
    }
    out->value[0] = value;
    out->tolerance[0] = tolerance_L(value, largest, D, s->kv_len);
    if (k->merged_L == MERGED_L_SUM) out->tolerance[0] *= count;
}

// --------------------------------------------------------------------------------------------------------------- backward

typedef struct pair {
    double P, dP, dS, exponent, cancel;
} pair;

static const float *q_row_of(const model_inputs *in, const float *X, int b, int h, int i)
{
    const attention_shape *s = in->shape;
    return X + (((size_t)b * (size_t)s->q_heads + (size_t)h) * (size_t)s->q_len + (size_t)i) * (size_t)s->head_dim;
}

static double delta_of(const model_inputs *in, const kernel *k, int b, int h, int i, double *size)
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
        float own_q[128];
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

static void query_row(const model_inputs *in, const kernel *k, int b, int h, int i, model_row *out)
{
    static _Thread_local visit visits[VISITS];
    const attention_shape *s = in->shape;
    const int D = s->head_dim, BC = k->BC, head = kv_head(s, k->map_K, b, h);
    oracle_sum sum[128];
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

static void key_row(const model_inputs *in, const kernel *k, int kv, int j, bool is_dK, model_row *out)
{
    const attention_shape *s = in->shape;
    const int D = s->head_dim, group = s->q_heads / s->kv_heads, block = j / k->BR * k->BR;
    kernel turned = *k;  // a mask that forgets the tile sees tiles that lie on their sides
    turned.BC = k->BR, turned.BR = k->BC;
    oracle_sum sum[128];
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

// ---------------------------------------------------------------------------------------------------------------- row sum

// How often column j of row i counts. A thread takes BR neighbouring columns at a time, from the row's first multiple of 16 bytes on
// if BR is more than 1; BC threads share the row. The ends go to the first threads, a column each.
static double count_of(const model_inputs *in, const kernel *k, int i, int j)
{
    const int cols = in->cols, T = k->BC, V = k->BR;
    int head = 0;
    if (V == 8) head = min_int(cols, (int)((8 - (size_t)i * (size_t)cols % 8) % 8));
    const int loads = (cols - head) / V, load = (j - head) / V;
    const bool in_loads = j >= head && load < loads;
    const int thread = in_loads ? load % T : j < head ? j : j - loads * V;
    switch (k->sum) {
    case SUM_TAIL_DROPPED: return (j - head) < (cols - head) / (T * V) * (T * V) ? 1 : 0;
    case SUM_HALF_WARP: return thread % min_int(T, 32) < min_int(T, 32) / 2;
    case SUM_LANE_0: return thread % 32 == 0;
    case SUM_THREAD_0: return thread == 0;
    case SUM_FIRST_WARP: return thread < 32;
    case SUM_LAST_WARP_LOST: return thread < T - 32;
    case SUM_WARP_STRIDE: return in_loads ? min_int(max_int(1, T / 32), load / 32 + 1) : 1;
    case SUM_BLOCK_ONCE: return in_loads ? load < T : 1;
    case SUM_LAST_COLUMN_LOST: return j < cols - 1;
    case SUM_COLUMN_TWICE:
        return V == 1      ? (j == 0 ? 2 : 1)
               : V == 2    ? (j == cols - 1 ? 2 : 1)
               : V == 4    ? (j == 1 ? 2 : 1)
               : j == head ? 2
                           : 1;
    case SUM_HEAD_TWICE: return loads == 0 ? 1 : j == head ? 2 : j == loads * V + head ? 0 : 1;
    case SUM_WITHOUT_ONE_SHUFFLE: return (thread & k->dims) == 0;
    case SUM_HALF_BLOCK: return thread < T / 2;
    case SUM_FIRST_COLUMN_LOST: return j > 0;
    case SUM_FIRST_OF_LOAD: return in_loads ? (j - head) % V == 0 : 1;
    case SUM_TAIL_BY_ALL: return in_loads ? 1 : min_int(T, 32);
    case SUM_TWICE: return 2;
    case SUM_32_TIMES: return 32;
    default: return 1;
    }
}

// Thread by thread, in the order of count_of, with sums that are rounded to bfloat16: each thread's own, those of shuffles, all.
static double rounded_sum(const model_inputs *in, const kernel *k, int i)
{
    static _Thread_local double part[1024];
    const int cols = in->cols, T = k->BC, V = k->BR;
    const int head = V == 8 ? min_int(cols, (int)((8 - (size_t)i * (size_t)cols % 8) % 8)) : 0;
    const int loads = (cols - head) / V;
    memset(part, 0, sizeof part);
    for (int j = 0; j < cols; j++) {
        const int load = (j - head) / V;
        const int thread = j >= head && load < loads ? load % T : (j < head ? j : j - head - loads * V) % T;
        const float product = in->x[(size_t)i * (size_t)cols + (size_t)j] * in->w[j];
        part[thread] = as_bf16((float)part[thread] + product);
    }
    for (int far = min_int(T, 32) / 2; far > 0; far /= 2)
        for (int t = 0; t < T; t++)
            if (t % 32 < far) {
                const double sum = part[t] + part[t + far];
                part[t] = k->sum >= SUM_AND_SHUFFLES_IN_BF16 ? as_bf16(sum) : sum;
            }
    double sum = 0;
    for (int t = 0; t < T; t += 32) sum = k->sum == SUM_ALL_IN_BF16 ? as_bf16(sum + part[t]) : sum + part[t];
    return sum;
}

static void sum_row(const model_inputs *in, const kernel *k, int i, model_row *out)
{
    const size_t rows = (size_t)in->rows, cols = (size_t)in->cols;
    double sum = 0, size = 0, all_w = 0;
    const int from = k->sum == SUM_ALL_ROWS ? i / k->BC * k->BC : i,
              to = k->sum == SUM_ALL_ROWS ? min_int(from + k->BC, in->rows) : i + 1;
    for (int r = from; r < to; r++)
        for (size_t j = 0; j < cols; j++) {
            const double count = count_of(in, k, i, (int)j);
            size_t at = (size_t)r * cols + j, w_at = j;
            if (k->sum == SUM_STRIDE_OF_ROWS) at = (size_t)r * rows + j;
            if (k->sum == SUM_TRANSPOSED) at = j * rows + (size_t)r;
            if (k->sum == SUM_FIRST_ROW) at = j;
            if (k->sum == SUM_FIRST_ROW_OF_BLOCK) at = (size_t)(i / k->BC * k->BC) * cols + j;
            if (k->sum == SUM_NEXT_ROW) at += cols;
            if (k->sum == SUM_W_OF_ROW) w_at = (size_t)r;
            if (k->sum == SUM_W_OF_THREAD) w_at = j % (size_t)k->BC;
            if (k->sum == SUM_ALIGNED_DOWN) at = (size_t)r * cols / (size_t)k->BR * (size_t)k->BR + j;
            if (k->sum == SUM_W_WITHOUT_HEAD) {
                const size_t head = (8 - (size_t)r * cols % 8) % 8, loads = head < cols ? (cols - head) / 8 : 0;
                if (j >= head && j < head + loads * 8) w_at = j - head;
            }
            if (count == 0) continue;
            const double x = k->sum == SUM_NO_X ? 1 : at < rows * cols ? in->x[at] : NAN;
            const double w = k->sum == SUM_NO_W ? 1 : w_at < cols ? in->w[w_at] : NAN;
            double term = count * x * w;
            if (k->sum == SUM_X_PLUS_W) term = x + w;
            if (k->sum == SUM_OF_SQUARES) term = x * x;
            if (k->sum == SUM_PRODUCTS_IN_BF16) term = as_bf16((float)term);
            sum += term, size += k->sum == SUM_X_PLUS_W ? fabs(x) + fabs(w) : fabs(term), all_w += w;
        }
    if (k->sum == SUM_MEAN) sum /= in->cols, size /= in->cols;
    if (k->sum == SUM_OVER_W) sum /= all_w, size = size / fabs(all_w) * (1 + cols * 0x1p-6);
    if (k->sum == SUM_RESULT_IN_BF16) sum = as_bf16((float)sum);
    if (k->sum >= SUM_IN_BF16 && k->sum <= SUM_ALL_IN_BF16) sum = rounded_sum(in, k, i);
    out->value[0] = sum;
    out->tolerance[0] = tolerance_row_sum(size, in->cols);
    const size_t head = k->BR == 8 ? (size_t)min_int(in->cols, (int)((8 - (size_t)i * cols % 8) % 8)) : 0;
    const size_t step = (size_t)(k->BC * k->BR), end = head + (cols - head + step - 1) / step * step;
    const size_t reach = k->BR == 8 ? (cols - head) / 8 * 8 + (size_t)k->BC : end;
    if (k->sum == SUM_READS_PAST_ROW && end > cols) out->value[0] = NAN;
    if (k->sum == SUM_READS_PAST_END && (size_t)i * cols + reach > rows * cols) out->value[0] = NAN;
    if (k->sum == SUM_ROWS_OVERLAP && i >= (in->rows - 1) / k->BC + k->BC) out->tolerance[0] = MODEL_UNWRITTEN;
    if (k->sum == SUM_ROWS_LOST_BUT_FIRST && i >= max_int(1, in->rows / k->BC) * k->BC)
        out->tolerance[0] = MODEL_UNWRITTEN;
    if (k->sum == SUM_NOT_WRITTEN || (k->sum == SUM_ROWS_LOST && i >= in->rows / k->BC * k->BC))
        out->tolerance[0] = MODEL_UNWRITTEN;
}

// ------------------------------------------------------------------------------------------------------------------ rows

int model_group(const model_inputs *in, const kernel *k)
{
    return in->problem->signature == WB_FORWARD && k->slack > 0 ? k->ROWS : 1;
}

void model_rows(const model_inputs *in, const kernel *k, int output, size_t row, int count, model_row *out)
{
    if (in->problem->signature == WB_ROW_SUM) {
        sum_row(in, k, (int)row, out);
        return;
    }
    const attention_shape *s = in->shape;
    if (in->problem->signature == WB_BACKWARD && (output == 1 || output == 2)) {
        key_row(in, k, (int)(row / (size_t)s->kv_len), (int)(row % (size_t)s->kv_len),
                (output == 1) != k->dK_and_dV_swapped, out);
        return;
    }
    int i = (int)(row % (size_t)s->q_len), bh = (int)(row / (size_t)s->q_len), b = bh / s->q_heads, h = bh % s->q_heads;
    if (k->layout & (output == 0 ? LAYOUT_O : LAYOUT_L)) {  // what stands in row i of head h is of another
        const int n = h * s->q_len + i;
        i = n / s->q_heads, h = n % s->q_heads;
    }
    if (in->problem->signature == WB_FORWARD && k->parts)
        merge_row(in, k, b, h, i, output == 0, out);
    else if (in->problem->signature == WB_FORWARD)
        forward_rows(in, k, b, h, i, count, output == 0, out);
    else if (output == 0)
        query_row(in, k, b, h, i, out);
    else {
        double size;
        out->value[0] = delta_of(in, k, b, h, i, &size);
        out->tolerance[0] = k->writes == WRITES_NO_DELTA ? MODEL_UNWRITTEN : tolerance_delta(size, s->head_dim);
    }
}
