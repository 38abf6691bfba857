// mistakes_walk.c - how a kernel with a mistake walks: its heads, its mask, the tiles it visits.
#include "mistakes_model.h"

// ------------------------------------------------------------------------------------------------------ heads, scale, mask

double scale_of(const kernel *k, const attention_shape *s)
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

int kv_head(const attention_shape *s, int map, int b, int h)
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
    static _Thread_local float row[WB_MAX_HEAD_DIM];
    for (int d = 0; d < WB_MAX_HEAD_DIM; d++) row[d] = NAN;
    return row;
}

size_t row_at(bool inside, int heads, int head, int rows, int row)
{
    const size_t b = (size_t)(head / heads), h = (size_t)(head % heads);
    return inside ? (b * (size_t)rows + (size_t)row) * (size_t)heads + h : (size_t)head * (size_t)rows + (size_t)row;
}

const float *kv_row(const model_inputs *in, const kernel *k, const float *X, int head, int row)
{
    const attention_shape *s = in->shape;
    const size_t at = row_at(k->layout & LAYOUT_KV, s->kv_heads, head, s->kv_len, row);
    return at < (size_t)s->batch * (size_t)s->kv_heads * (size_t)s->kv_len ? X + at * (size_t)s->head_dim : nowhere();
}

static bool masked(const model_inputs *in, const kernel *k)
{
    return in->problem->mask != WB_NO_MASK && (in->shape->causal || k->causal == CAUSAL_ALWAYS);
}

int position_of(const model_inputs *in, const kernel *k, int b, int h, int i)
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

int walk_of(const model_inputs *in, const kernel *k, int i, visit *visits)
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

bool hides(const model_inputs *in, const kernel *k, int i, int j, phase phase)
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
