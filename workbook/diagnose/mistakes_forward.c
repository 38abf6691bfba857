// mistakes_forward.c - what a forward with a mistake returns: the online softmax, tile by tile.
#include "mistakes_model.h"

static double weight(double x) { return as_float(exp(x)); }

static double lse_of(const kernel *k, double m, double l)
{
    const double log_l = log(l);
    switch (k->lse) {
    case LSE_BASE_2: return (m + log_l) * LOG2E;
    case LSE_BASE_4: return (m + log_l) * LOG2E * LOG2E;
    case LSE_M_BASE_2: return m * LOG2E + log_l;
    case LSE_M_BASE_4: return m * LOG2E * LOG2E + log_l;
    case LSE_L_BASE_2: return m + log_l * LOG2E;
    case LSE_L_TIMES_LN2: return m + log_l * LN2;
    case LSE_TIMES_LN2: return (m + log_l) * LN2;
    case LSE_M_TIMES_LN2: return m * LN2 + log_l;
    case LSE_NO_M: return log_l;
    case LSE_NO_M_BASE_2: return log_l * LOG2E;
    case LSE_NO_M_TIMES_LN2: return log_l * LN2;
    case LSE_ONLY_M: return m;
    case LSE_ONLY_M_BASE_2: return m * LOG2E;
    case LSE_M_PLUS_L: return m + l * LN2;
    case LSE_M_PLUS_L_BASE_2: return m + l;
    case LSE_ONLY_L: return l;
    case LSE_MINUS: return m - log_l;
    case LSE_MINUS_M: return log_l - m;
    case LSE_EXP: return as_float(exp(m + log_l));
    case LSE_NOT_SET: return 0;
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
} row_state;

// Whether column c of a tile, a key that does not exist, gets a score all the same.
static bool is_ghost(const model_inputs *in, const kernel *k, int i, visit at, int c)
{
    const int Nk = in->shape->kv_len;
    switch (k->ghost) {
    case GHOST_ZERO:
    case GHOST_STALE: return true;
    case GHOST_ONE_ZERO: return at.key + c == Nk;
    case GHOST_BUT_IN_ONE_TILE: return Nk > k->BC;
    case GHOST_BY_ROW: return i % (k->ROWS ? k->ROWS : k->BR) < Nk - at.key;
    default: return false;
    }
}

// Fills S, hidden and v of a row for a tile; columns left out have S = -infinity.
static void score(const model_inputs *in, const kernel *k, int b, int h, int i, visit at, row_state *r)
{
    const attention_shape *s = in->shape;
    const int Nk = s->kv_len, BC = k->BC, D = s->head_dim;
    const long long q_row = ((long long)b * s->q_heads + h) * s->q_len + i;
    const double scale = scale_of(k, s);
    const int head_K = kv_head(s, k->map_K, b, h), head_V = kv_head(s, k->map_V, b, h);
    const bool plain = k->map_K == MAP_RIGHT, tail = at.key + at.keys > Nk;
    model_pairs += BC;

    r->no_max = BC;
    for (int c = 0; c < BC; c++) {
        const int j = at.key + c, from = at.from + c;
        r->S[c] = -INFINITY, r->hidden[c] = false, r->v[c] = NULL;
        if (c >= at.keys || (j >= Nk && !is_ghost(in, k, i, at, c))) continue;
        if (k->ghost == GHOST_LAST_OF_TAIL && tail && j == Nk - 1) continue;
        if (k->ghost == GHOST_BY_ROW && tail && !is_ghost(in, k, i, at, c)) continue;
        if (k->ghost == GHOST_STALE && j >= Nk) {
            if (at.key == 0) r->unknown = true;
            r->S[c] = r->stale[c] * LN2;
            r->no_max = c < r->no_max ? c : r->no_max;
            continue;
        }
        const bool hidden = hides(in, k, i, j, at.phase);
        const bool by_0 =
            hidden && (k->hide == HIDE_BY_0 || (k->hide == HIDE_OLD_BY_0 && j <= i) ||
                       (k->hide == HIDE_FUTURE_BY_0 && j > i) || (k->hide == HIDE_SINKS_BY_0 && at.phase == SINK));
        if (hidden && !by_0 && k->hide != HIDE_AFTER_MAX) continue;
        r->hidden[c] = hidden && !by_0;
        double x = 0;  // what was filled with zeros
        if (from < Nk) {
            if (plain && !by_0)
                x = in->dots[q_row * Nk + from].QK;
            else if (!by_0)
                x = dot(row_of(s, in->Q, s->q_heads, s->q_len, q_row),
                        row_of(s, in->K, s->kv_heads, Nk, (long long)head_K * Nk + from), D, &r->largest);
            r->v[c] = row_of(s, in->V, s->kv_heads, Nk, (long long)head_V * Nk + from);
        }
        r->S[c] = scale * x;
    }
}

// What the maximum is measured in.
static double unit_of(const model_inputs *in, const kernel *k)
{
    const double scale = scale_of(k, in->shape);
    return k->m_units == M_UNSCALED ? 1 / scale
           : k->m_units == M_RAW    ? LN2 / scale
           : k->m_units == M_SCALED ? in->shape->scale / scale
           : k->m_units             ? LN2
                                    : 1;
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
        if (k->alpha == ALPHA_EXP2) d *= LN2;
        if (k->alpha == ALPHA_EXP) d *= LOG2E;
        if (k->max == MAX_NOT_KEPT || k->max == MAX_NEVER_STORED_BUT_USED) d = -INFINITY;
        if (k->max == MAX_NEVER_STORED && tile_max[p] > -INFINITY) m_new[p] = -FLT_MAX, d = -INFINITY;
        alpha[p] = d == -INFINITY ? 0 : as_float(exp(d));
        if (m_new[p] == m && (k->max < MAX_NOT_KEPT || k->max > MAX_NEVER_STORED_BUT_USED)) alpha[p] = 1;
    }

    double *O = r->O, *size = r->size;
    for (int d = 0; with_O && !k->O_not_rescaled && d < D; d++) {
        const double a = k->twice & OF_O ? alpha[d % 8 / 2] * alpha[d % 8 / 2] : alpha[d % 8 / 2];
        O[d] *= a, size[d] *= a;
    }
    double l_size = 0;
    for (int c = 0; c < BC; c++) {
        const int p = c % 8 / 2;
        const double x = r->S[c];
        r->stale[c] = 0;
        if (x == -INFINITY) {
            if (k->l == L_OF_ALL_SCORES) added[p] = -INFINITY;
            continue;
        }
        if (c >= r->no_max && x - m_new[p] > 80) r->unknown = true;  // exp2_fast makes anything of it
        double P = weight(x - (k->own_max ? tile_max[p] : m_new[p]));
        if (r->hidden[c]) P = 0;
        double in_l = r->stale[c] = P;
        if (k->l == L_OLD_MAX) in_l = first || r->m[p] == -INFINITY ? P : weight(x - r->m[p]);
        if (k->l == L_OF_SCORES || k->l == L_OF_ALL_SCORES) in_l = x / scale;
        added[p] += in_l, l_size += fabs(in_l);
        if (!with_O || !r->v[c] || P == 0) continue;
        const float *v = r->v[c];
        for (int d = 0; d < D; d++) O[d] += P * v[d];
        for (int d = 0; d < D; d++) size[d] += P * fabs((double)v[d]);
    }
    for (int p = 0; p < 4; p++) {
        const double a = k->l_not_rescaled ? 1 : k->twice & OF_L ? alpha[p] * alpha[p] : alpha[p];
        if (!k->l_rescaled_late) r->l[p] *= a;
        if (k->l == L_LAST_TILE) r->l[p] = 0;
        if (k->l != L_NEVER) r->l[p] += added[p];
        if (k->l_rescaled_late) r->l[p] *= a;
        r->l[p] = as_float(r->l[p]);
        r->m[p] = k->max == MAX_NEVER_STORED_BUT_USED ? -INFINITY : m_new[p];
    }
    if (k->l == L_COMPLETED_IN_LOOP) r->l[0] = r->l[1] = r->l[2] = r->l[3] = r->l[0] + r->l[1] + r->l[2] + r->l[3];
    r->l_size = r->l_size + l_size;
    if (!with_O) return;
    for (int d = 0; d < D; d++) O[d] = as_float(O[d]);
    if (k->divide == DIVIDE_IN_LOOP || k->divide == DIVIDE_IN_LOOP_AND_AT_END) {
        const double l = r->l[0] + r->l[1] + r->l[2] + r->l[3];
        for (int d = 0; d < D; d++) O[d] /= l, size[d] /= l;
    }
}

// The sink logit that this kernel takes for query head h of batch b. NaN: what lies past the end.
static double logit_of(const model_inputs *in, const kernel *k, int b, int h, bool is_O)
{
    const attention_shape *s = in->shape;
    const double right = in->sink_logits[h];
    if (k->logit_of && k->logit_of != (is_O ? OF_O : OF_L)) return right;
    switch (k->logit) {
    case LOGIT_NONE: return -INFINITY;
    case LOGIT_SCALED: return right * s->scale;
    case LOGIT_2: return right * LN2;
    case LOGIT_LOG2E: return right * LOG2E;
    case LOGIT_NO_0: return right == 0 ? -INFINITY : right;
    case LOGIT_FROM_0: return fmax(right, 0);
    case LOGIT_1: return 0;
    case LOGIT_MINUS: return -right;
    case LOGIT_CLAMPED: return fmin(fmax(right, -88), 88);
    case LOGIT_FIRST_HEAD: return in->sink_logits[0];
    case LOGIT_KEY_HEAD: return in->sink_logits[h / (s->q_heads / s->kv_heads)];
    case LOGIT_OF_ALL_HEADS: return b > 0 ? NAN : right;
    default: return right;
    }
}

// By what the denominator of a row, whose keys have the logarithm L of their sum, grows when its sink joins it.
static double sink_factor(const model_inputs *in, const kernel *k, int b, int h, int tiles, double L)
{
    const bool here = k->logit_of != OF_L;
    const double r = as_float(exp(logit_of(in, k, b, h, true) - L));
    switch (here ? k->logit_counts : LOGIT_ONCE) {
    case LOGIT_TWICE: return 1 + 2 * r;
    case LOGIT_DIVIDES_TWICE: return (1 + r) * (1 + r);
    case LOGIT_IN_LANES: return 1 + 4 * r;
    case LOGIT_IN_TILES: return 1 + tiles * r;
    case LOGIT_ON_SCORES: return 1;
    case LOGIT_EXP2: return 1 + pow(r, LN2);
    default: return 1 + r;
    }
}

// L of a row with its sink.
static double sink_L(const model_inputs *in, const kernel *k, int b, int h, int tiles, double L)
{
    const bool here = k->logit_of != OF_O;
    const double s = logit_of(in, k, b, h, false), most = fmax(L, s);
    const int counts = here ? k->logit_counts : LOGIT_ONCE;
    const double times = counts == LOGIT_TWICE      ? 2
                         : counts == LOGIT_IN_LANES ? 4
                         : counts == LOGIT_IN_TILES ? tiles
                                                    : 1;
    if (counts == LOGIT_ON_SCORES) return L + s;
    if (isinf(s) || isnan(s)) return s > 0 ? INFINITY : isnan(s) ? NAN : L;
    if (counts == LOGIT_EXP2) return most + log(1 + exp(-fabs(L - s) * LN2));
    if (k->logit_sum == LOGIT_BY_ITSELF && most < -104) return -INFINITY;  // where float32 underflows
    if (k->logit_sum == LOGIT_BY_ITSELF ? exp(most) > FLT_MAX : k->logit_sum && exp(s - L) > FLT_MAX) return INFINITY;
    return most + log(exp(L - most) + times * exp(s - most));
}

static void finalize(const model_inputs *in, const kernel *k, row_state *r, int b, int h, int tiles, bool is_O,
                     model_row *out)
{
    const attention_shape *s = in->shape;
    const int D = s->head_dim;
    const double largest = r->largest * scale_of(k, s);
    double l = r->l[0] + r->l[1] + r->l[2] + r->l[3];
    if (k->l == L_COMPLETED_TWICE) l *= 4;
    // Where all weights underflow. In between, it depends on whether small numbers are flushed to 0.
    if (k->l < L_OF_SCORES && l > 0 && l < 1e-36) {
        if (l < 1e-46)
            l = 0, memset(r->O, 0, sizeof r->O);
        else
            r->unknown = true;
    }
    const bool sums_scores = k->l == L_OF_SCORES || k->l == L_OF_ALL_SCORES;
    const double score_error = (U_FLOAT * s->kv_len + tolerance_logit(largest, D)) * r->l_size / fabs(l);
    if (!is_O) {
        if (k->l == L_OF_OWN_COLUMNS || k->l == L_COMPLETED_AFTER_L) l = r->l[0];
        const double m = k->max == MAX_NEVER_STORED_BUT_USED ? -FLT_MAX * LN2 : r->m[0], of_keys = lse_of(k, m, l);
        const double L = in->sink_logits ? sink_L(in, k, b, h, tiles, of_keys) : of_keys;
        out->value[0] = L;
        out->tolerance[0] = tolerance_L(L, largest, D, s->kv_len) + U_FLOAT * fabs(m) * 4;
        out->tolerance[0] *= k->lse >= LSE_M_PLUS_L && k->lse <= LSE_ONLY_L ? 1 + fabs(l) : 1;
        if (sums_scores) out->tolerance[0] += score_error;
        if (k->lse == LSE_EXP) out->tolerance[0] = fabs(L) * (tolerance_L(log(L), largest, D, s->kv_len) + U_FLOAT);
        if (r->unknown || isnan(L)) out->tolerance[0] = MODEL_UNKNOWN;
        if (k->lse == LSE_NOT_SET && in->problem->on_host) out->tolerance[0] = MODEL_UNWRITTEN;
        return;
    }
    for (int d = 0; d < D; d++) {
        double O = r->O[d], size = r->size[d], divisor = l;
        if (k->l == L_OF_OWN_COLUMNS || k->l == L_COMPLETED_AFTER_O) divisor = r->l[d % 8 / 2];
        if (k->divide == DIVIDE_NEVER || k->divide == DIVIDE_IN_LOOP) divisor = 1;
        if (k->divide == DIVIDE_TWICE) divisor *= divisor;
        if (k->divide == DIVIDE_UPSIDE_DOWN) divisor = 1 / divisor;
        if (in->problem->on_host && !(l > 0)) O = size = 0, divisor = 1;
        if (in->sink_logits) divisor *= sink_factor(in, k, b, h, tiles, lse_of(k, r->m[0], l));
        O /= divisor, size /= fabs(divisor);
        out->value[d] = O;
        out->tolerance[d] = tolerance_O(O, size, largest, D, s->kv_len, in->bf16_output ? WB_BFLOAT16 : WB_FLOAT32);
        if (sums_scores) out->tolerance[d] += fabs(O) * score_error;
        if (r->unknown || (in->sink_logits && isnan(O))) out->tolerance[d] = MODEL_UNKNOWN;
    }
}

void forward_rows(const model_inputs *in, const kernel *k, int b, int h, int i0, int rows, bool is_O, model_row *out)
{
    static _Thread_local row_state state[MODEL_ROWS];
    static _Thread_local visit visits[VISITS];
    const attention_shape *s = in->shape;
    for (int n = 0; n < rows; n++) {
        row_state *r = &state[n];
        memset(r->O, 0, sizeof r->O), memset(r->size, 0, sizeof r->size);
        for (int p = 0; p < 4; p++) r->m[p] = k->max == MAX_FROM_0 || k->max == MAX_NONE ? 0 : -INFINITY, r->l[p] = 0;
        r->largest = 0, r->l_size = 0, r->unknown = false;
        memset(r->stale, 0, sizeof r->stale);
        // The scale of rounding errors: |k| is seldom above 4.
        const float *q = row_of(s, in->Q, s->q_heads, s->q_len, ((long long)b * s->q_heads + h) * s->q_len + i0 + n);
        for (int d = 0; d < s->head_dim; d++) r->largest += fabs((double)q[d]) * 4;
    }
    const int count = walk_of(in, k, i0, visits);
    for (int v = 0; v < count; v++) {
        bool outgrown = k->slack == 0;
        for (int n = 0; n < rows; n++) {
            score(in, k, b, h, i0 + n, visits[v], &state[n]);
            for (int c = 0; c < k->BC && !outgrown; c++)
                outgrown = state[n].S[c] * unit_of(in, k) > state[n].m[c % 8 / 2] + k->slack;
        }
        for (int n = 0; n < rows; n++) attend(in, k, &state[n], v == 0, outgrown, is_O);
    }
    for (int n = 0; n < rows; n++) finalize(in, k, &state[n], b, h, count, is_O, &out[n]);
}
