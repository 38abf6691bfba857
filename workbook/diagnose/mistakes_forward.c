// mistakes_forward.c - what a forward with a mistake returns: the online softmax, tile by tile, or in parts that are merged.
#include "mistakes_model.h"

static double weight(double x) { return as_float(exp(x)); }

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
    double m[4], l[4], O[WB_MAX_HEAD_DIM], size[WB_MAX_HEAD_DIM];  // size: the sum of absolute values, scaled alike
    double S[256], stale[256];  // this tile's exponents; the weights of the one before
    bool hidden[256];
    const float *v[256];
    double largest, l_size;
    int no_max;    // columns from here on do not count in the maximum
    bool unknown;  // depends on what was in memory before
    phase phase;
    int keys[2048], key_count;  // of packed tiles
} row_state;

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
    float own_q[WB_MAX_HEAD_DIM];
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

void forward_rows(const model_inputs *in, const kernel *k, int b, int h, int i0, int rows, bool is_O, model_row *out)
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
    double m, l, L, keys, O[WB_MAX_HEAD_DIM], size[WB_MAX_HEAD_DIM];  // O is divided by l
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

void merge_row(const model_inputs *in, const kernel *k, int b, int h, int i, bool is_O, model_row *out)
{
    static _Thread_local part parts[PARTS];
    const attention_shape *s = in->shape;
    const int D = s->head_dim;
    double m = -INFINITY, L = -INFINITY, total = 0, sum = 0, sum_L = 0, l = 0, sums = 0, largest;
    const int count = split(in, k, b, h, i, is_O, parts, &largest);
    for (int n = 0; n < count; n++) m = fmax(m, parts[n].m), L = fmax(L, parts[n].L), sum_L += parts[n].L;
    for (int n = 0; n < count; n++) l += parts[n].l * exp(parts[n].m - m), sums += parts[n].l;
    for (int n = 0; n < count; n++) total += weight_of(k, &parts[n], m, L), sum += exp(parts[n].L - L);
    double O[WB_MAX_HEAD_DIM] = {0}, size[WB_MAX_HEAD_DIM] = {0};
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
