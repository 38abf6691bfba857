// mistakes_walk.c - how a kernel with a mistake walks: its heads, its mask, the tiles it visits.
#include "mistakes_model.h"

double scale_of(const kernel *k, const attention_shape *s)
{
    const double scale = s->scale;
    switch (k->scale) {
    case SCALE_NONE: return LN2;
    case SCALE_LN2: return scale * LN2;
    case SCALE_LOG2E: return scale * LOG2E;
    case SCALE_TWICE: return scale * scale * LOG2E;
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
    case MAP_COUNTED_IN_QUERY_HEADS: return b * G + h / group * group % G;
    default: return b * G + h / group;
    }
}

const float *row_of(const attention_shape *s, const float *X, int heads, int rows, long long row)
{
    static _Thread_local float nowhere[WB_MAX_HEAD_DIM];
    if (row >= 0 && row < (long long)s->batch * heads * rows) return X + row * s->head_dim;
    for (int d = 0; d < WB_MAX_HEAD_DIM; d++) nowhere[d] = NAN;
    return nowhere;
}

static bool masked(const model_inputs *in) { return in->problem->mask != WB_NO_MASK && in->shape->causal; }

static int sink_keys(const kernel *k) { return k->SC ? k->SC : k->BC; }

// The walk of a backward with a window, in keys: the sinks' tiles, then from the first key in the window on.
static int window_walk(const model_inputs *in, const kernel *k, int i, visit *visits)
{
    const attention_shape *s = in->shape;
    const int BC = k->BC, BR = k->BR, N = s->kv_len, W = min_int(s->window, N), block = i / BR * BR;
    const int rows = k->ROWS ? k->ROWS : BR, warp = i / rows * rows;
    int S = in->problem->sinks ? min_int(s->sinks, N) : 0, first = max_int(0, block - W + 1),
        end = min_int(N, block + BR);
    switch (k->walk) {
    case WALK_DIAGONAL_SKIPPED: end = min_int(N, block); break;
    case WALK_LAST_SKIPPED: end = block + BR - BC; break;
    case WALK_BLOCK_WHOLE_TILES: end = end / BC * BC; break;
    case WALK_WINDOW_FROM_LAST_ROW: first = max_int(0, block + BR - W); break;
    case WALK_WINDOW_ROUNDED_UP: first = (first + BC - 1) / BC * BC; break;
    case WALK_WINDOW_ONE_MORE: first += 1 + (block - W + 1 < 0 ? min_int(0, block - W + 1) : 0); break;
    case WALK_WINDOW_FROM_BLOCK: first = block; break;
    case WALK_SINKS_ROUNDED_DOWN: S = S / BC * BC; break;
    case WALK_ONE_SINK_TILE: S = min_int(S, BC); break;
    case WALK_END_IN_TILES: end = (end - 1) / BC + 1; break;
    default: break;
    }
    first = max_int(0, first);
    int n = 0, sink_end = k->walk == WALK_NO_SINK_TILES ? 0 : S;
    if (k->walk == WALK_SINKS_TWICE) {  // the window's tiles are not told which of the sinks were there
        for (int j = 0; j < S; j += BC) visits[n++] = (visit){j, j, BC, SINK};
        sink_end = 0;
    }
    for (int j = sink_end ? 0 : first; j < end; j = j + BC < sink_end ? j + BC : max_int(j + BC, first)) {
        const bool unseen = j >= warp + rows || (j + BC <= warp - W + 1 && j >= S);
        if (!unseen) visits[n++] = (visit){j, j, BC, j + BC - 1 <= warp ? OFF : DIAGONAL};
        if (k->walk == WALK_FIRST_TILE_ALONE && n) break;
    }
    if (k->walk == WALK_LAST_TILE_ALONE && n) visits[0] = visits[n - 1], n = 1;
    return n;
}

int walk_of(const model_inputs *in, const kernel *k, int i, visit *visits)
{
    if (in->problem->signature == WB_BACKWARD && in->problem->window) return window_walk(in, k, i, visits);
    const int block = i / k->BR * k->BR, rows = k->ROWS ? k->ROWS : k->BR, warp = i / rows * rows;
    const attention_shape *s = in->shape;
    const int BC = k->BC, SC = sink_keys(k), BR = k->BR, all = (s->kv_len - 1) / BC + 1, N = s->kv_len;
    const bool forward = in->problem->signature == WB_FORWARD;
    const int W = in->problem->window ? s->window : N + 1, S = in->problem->sinks ? min_int(s->sinks, N) : 0;
    int first = 0, full = all, end = all, sink_end = 0;
    if (masked(in)) {
        full = (block + 1) / BC;
        end = (min_int(block + BR, N) - 1) / BC + 1;
        first = max_int(0, block - W + 1) / BC;
    }
    const int diagonal = end - full;
    switch (k->walk) {
    case WALK_DIAGONAL_SKIPPED: end = min_int(end, full); break;
    case WALK_LAST_SKIPPED: end--; break;
    case WALK_ONE_ON_DIAGONAL: end = min_int(end, full + 1); break;
    case WALK_END_IN_BLOCKS: end = min_int(max_int(full, block / BR) + 1, all); break;
    case WALK_BLOCK_WHOLE_TILES: end = min_int(end, min_int(block + BR, N) / BC); break;
    case WALK_FULL_ONE_MORE: full = min_int(full + 1, end); break;
    case WALK_FULL_OF_LAST_ROW: full = min_int(block + BR, N) / BC; break;
    case WALK_FULL_ROUNDED_UP: full = min_int((block + BC) / BC, end); break;
    case WALK_ALL_FULL: full = end; break;
    case WALK_FIRST_TILE_ALONE: end = min_int(end, first + 1); break;
    case WALK_SKIPS_FIRST_TILE: first++; break;
    case WALK_WINDOW_FROM_LAST_ROW: first = max_int(0, block + BR - W) / BC; break;
    case WALK_WINDOW_ROUNDED_UP: first = (max_int(0, block - W + 1) + BC - 1) / BC; break;
    case WALK_WINDOW_ONE_MORE: first++; break;
    case WALK_WINDOW_IN_TILES: first = max_int(0, block / BC - W / BC); break;
    case WALK_WINDOW_FROM_BLOCK: first = block / BC; break;
    case WALK_LAST_TILE_ALONE: first = max_int(first, end - 1); break;
    default: break;
    }
    full = min_int(full, end);
    if (S > 0) {
        const int sink_tiles = (S + SC - 1) / SC;
        sink_end = min_int(sink_tiles, (first * BC + SC - 1) / SC);
        if (k->sinks == SINKS_ONE_MORE) sink_end = (min_int(S + 1, first * BC) + SC - 1) / SC;
        switch (k->walk) {
        case WALK_SINKS_TWICE_TO_BLOCK: sink_end = (min_int(S, block + 1) + SC - 1) / SC; break;
        case WALK_SINKS_TWICE:
        case WALK_SINKS_TWICE_CAUSAL: sink_end = sink_tiles; break;
        case WALK_SINKS_ROUNDED_DOWN: sink_end = min_int(S, first * BC) / SC; break;
        case WALK_SINKS_OF_FIRST_TILE: sink_end = (min_int(S, first) + SC - 1) / SC; break;
        case WALK_ONE_SINK_TILE: sink_end = min_int(sink_end, 1); break;
        case WALK_NO_SINK_TILES: sink_end = 0; break;
        default: break;
        }
    }
    int n = 0;
    for (int t = 0; t < sink_end; t++) visits[n++] = (visit){t * SC, t * SC, SC, SINK};
    // Phase 3 begins with the tile that was loaded first, whichever that was.
    const bool late = forward && masked(in) && !in->problem->on_host && first > full;
    const int begin = late ? full : first;
    for (int t = begin; t < end; t++) {
        const bool off = forward ? t < full : (t + 1) * BC - 1 <= warp;
        const bool unseen = (!off && t * BC >= warp + rows) || ((t + 1) * BC <= warp - W + 1 && t * BC >= S);
        if (k->ROWS && masked(in) && unseen) continue;
        const int times = k->walk == WALK_DIAGONAL_TWICE && diagonal > 0 && t >= full ? 2 : 1;
        for (int again = 0; again < times; again++)
            visits[n++] = (visit){t * BC, (late && t == begin ? first : t) * BC, BC, off ? OFF : DIAGONAL};
    }
    return n;
}

static bool in_future(const model_inputs *in, const kernel *k, int kind, int i, int j)
{
    const attention_shape *s = in->shape;
    const int rows = k->ROWS ? k->ROWS : k->BR, i_block = i / k->BR * k->BR;
    const int i_local = i % k->BR, i_warp = i % rows, j_local = j % k->BC;
    switch (kind) {
    case CAUSAL_NONE: return false;
    case CAUSAL_ONE_MORE: return j > i + 1;
    case CAUSAL_ONE_LESS: return j >= i;
    case CAUSAL_TRANSPOSED: return j < i;
    case CAUSAL_LOCAL: return j_local > i_local;
    case CAUSAL_LOCAL_QUERY: return j > i_local;
    case CAUSAL_LOCAL_KEY: return j_local > i;
    case CAUSAL_LOCAL_WARP: return j_local > i_warp;
    case CAUSAL_NO_WARP: return j > i_block + i_warp;
    case CAUSAL_OF_WARP: return j > i - i_warp;
    case CAUSAL_OF_BLOCK: return j > i_block;
    case CAUSAL_BEFORE_BLOCK: return j > i || j >= i_block;
    case CAUSAL_TESTED_BY_FIRST_ROW: return j > i && j / k->BC * k->BC > i / rows * rows;
    case CAUSAL_END_ONE_EARLY: return j > i || j >= min_int(i_block + k->BR, s->q_len) - 1;
    case CAUSAL_WINDOW: return in->problem->window && j >= i + s->window;
    default: return j > i;
    }
}

static bool too_old(const model_inputs *in, const kernel *k, int kind, int i, int j, phase phase)
{
    const attention_shape *s = in->shape;
    const int W = s->window, S = in->problem->sinks ? s->sinks : 0;
    const int rows = k->ROWS ? k->ROWS : k->BR, i_block = i / k->BR * k->BR;
    switch (kind) {
    case WINDOW_NONE: return false;
    case WINDOW_ONE_MORE: return j < i - W;
    case WINDOW_ONE_LESS: return j <= i - W + 1;
    case WINDOW_OF_BLOCK: return j <= i_block - W;
    case WINDOW_OF_WARP: return j <= i / rows * rows - W;
    case WINDOW_OF_BLOCK_END: return j <= i_block + k->BR - 1 - W;
    case WINDOW_HALF: return j <= i - (W + 1) / 2;
    case WINDOW_TWICE: return j <= i - 2 * min_int(W, s->kv_len);
    case WINDOW_PLUS_SINKS: return j <= i - W - min_int(S, s->kv_len);
    case WINDOW_MINUS_SINKS: return j <= i - max_int(1, W - S);
    case WINDOW_LOCAL: return j % k->BC <= i % rows - W;
    case WINDOW_AND_FUTURE: return j <= i - W || j >= i + W;
    case WINDOW_TESTED_BY_FIRST_ROW:
        return j <= i - W && (phase == DIAGONAL || j / k->BC * k->BC <= i / rows * rows - W);
    default: return j <= i - W;
    }
}

bool hides(const model_inputs *in, const kernel *k, int i, int j, phase phase)
{
    if (!masked(in)) return false;
    const attention_shape *s = in->shape;
    const bool here = k->where == EVERYWHERE || (k->where == ON_DIAGONAL && phase == DIAGONAL) ||
                      (k->where == OFF_DIAGONAL && phase == OFF) || (k->where == AMONG_SINKS && phase == SINK);
    const bool forward = in->problem->signature == WB_FORWARD;
    const int rows = k->ROWS ? k->ROWS : k->BR, last = i / rows * rows + rows - 1;
    // Left of the diagonal only those tiles are masked which the warp's last row does not see whole.
    if (forward && phase == OFF && !k->one_mask && j / k->BC * k->BC > last - s->window) return false;
    const int sinks = here ? k->sinks : SINKS_RIGHT, SC = sink_keys(k), S = in->problem->sinks ? s->sinks : 0;
    const bool future = (phase == DIAGONAL || (!forward && (k->one_mask || phase == SINK))) &&
                        in_future(in, k, here ? k->causal : CAUSAL_RIGHT, i, j);
    if (!in->problem->window) return future;
    const bool old = too_old(in, k, here ? k->window : WINDOW_RIGHT, i, j, phase);
    bool sink = j < S;
    switch (sinks) {
    case SINKS_NONE: sink = false; break;
    case SINKS_ONE_MORE: sink = S > 0 && j <= S; break;
    case SINKS_ONE_LESS: sink = j < S - 1; break;
    case SINKS_WHOLE_TILE: sink = S > 0 && j < (S + SC - 1) / SC * SC; break;
    case SINKS_FIRST_ONLY: sink = j < min_int(S, 1); break;
    case SINKS_IN_KEY_TILES: sink = phase == SINK ? j / SC * k->BC + j % SC < S || (j / SC + 1) * SC <= S : sink; break;
    default: break;
    }
    if (sinks == SINKS_NOT_CAUSAL) return (future || old) && !sink;
    if (sinks == SINKS_HIDDEN && phase != SINK) return future || old || sink;
    if (sinks == SINKS_ALONE && phase != SINK) return future || old || !sink;
    if (sinks == SINKS_HIDDEN_ALONE && phase != SINK) return future || (old && sink);
    if (phase == SINK && forward) return !sink || (k->walk == WALK_SINKS_TWICE_CAUSAL && j > i);
    return future || (old && !sink);
}
