// mistakes_lists.c - models of problems 13 to 15, where memory says which keys a row sees: pages and shares, lists and bits. What was seen of
// some keys is a part. Sizes of tiles are those of the files, for they stand outside of all gaps: of a GPU with less shared memory nothing fits.
#include "mistakes_model.h"

enum { PARTS = 300, AT_ONCE = 8, KEYS = 16, WARP_KEYS = 32, TILE = 64 };

typedef struct part {
    double m, l, O[WB_MAX_HEAD_DIM], size[WB_MAX_HEAD_DIM];
} part;

static const part nothing = {.m = -INFINITY};
static const float no_key[WB_MAX_HEAD_DIM];  // loads beyond the last key make zeros

// What a key's score, its term of l and its weight are multiplied by.
typedef struct factors {
    double S, l, P;
} factors;

static void see(part *p, const model_inputs *in, const float *q, const float *k, const float *v, factors f,
                double *largest)
{
    const int D = in->shape->head_dim;
    double size = 0, s = dot(q, k, D, &size) * in->shape->scale * f.S;
    if (f.S == 0) s = 0;
    model_pairs++;
    *largest = fmax(*largest, size * in->shape->scale * fabs(f.S));
    const double m = fmax(p->m, s), a = p->m > -INFINITY ? exp(p->m - m) : 0, w = exp(s - m);
    p->m = m, p->l = p->l * a + w * f.l;
    for (int d = 0; d < D; d++) {
        const double x = f.P * v[d];
        p->O[d] = p->O[d] * a + w * x, p->size[d] = p->size[d] * a + w * fabs(x);
    }
}

// A key that is hidden has a weight of 0, and 0 * NaN is NaN.
static void pass(part *p, const float *v, double factor, int D)
{
    for (int d = 0; d < D; d++)
        if (!isfinite(v[d] * factor)) p->O[d] = NAN;
}

static double L_of(const part *p) { return p->l > 0 || isnan(p->l) ? p->m + log(p->l) : -INFINITY; }

// O = p->O / p->l, and L.
static void put(const model_inputs *in, const part *p, double L, double largest, bool is_O, model_row *out)
{
    const int D = in->shape->head_dim, N = in->shape->kv_len;
    if (!is_O) {
        out->value[0] = L;
        out->tolerance[0] = fabs(L) > 1e30 ? 1e-3 * fabs(L) : tolerance_L(L, largest, D, N);
        return;
    }
    for (int d = 0; d < D; d++) {
        const double O = p->O[d] / p->l;
        out->value[d] = O;
        out->tolerance[d] = tolerance_O(O, p->size[d] / p->l, largest, D, N, WB_BFLOAT16);
    }
}

static void fill(const model_inputs *in, bool is_O, double tolerance, model_row *out)
{
    for (int d = 0; d < (is_O ? in->shape->head_dim : 1); d++) out->value[d] = 0, out->tolerance[d] = tolerance;
}

// ----------------------------------------------------------------------------------------------------------------- decoding

static int tiles_of(int keys) { return (keys - 1) / TILE + 1; }

// Rows of a block: its team has a member for each so many packed rows of each key head.
static int rows_of(int packed) { return packed <= 16 ? 16 : 32; }

// As blocks_of_teams of paged.cuh: of so many teams, one in sixteen less at most.
static int teams_of(int most, int batch)
{
    for (int teams = most; teams >= most - most / 16; teams--)
        if (teams % batch == 0 || batch % teams == 0) return teams;
    return most;
}

static long long first_of(const kernel *k, long long total, int team, int teams)
{
    const long long rest = total % teams;
    return total / teams * team + (k->decode == DECODE_REST_LEFT ? 0 : team < rest ? team : rest);
}

// Where key j of sequence b lies, counted in rows of the cache; negative: nowhere.
static long long place_of(const model_inputs *in, const kernel *k, int b, int j)
{
    const decode_shape *s = &in->decode;
    const int column = j / s->page_size, first = in->kv_len[b] > 0 ? (in->kv_len[b] - 1) / s->page_size + 1 : 1;
    long long at = (long long)b * s->max_pages + column;
    switch (k->decode) {
    case DECODE_FIRST_SEQUENCE: at = column; break;
    case DECODE_TABLE_PACKED: at = (long long)b * first + column; break;
    case DECODE_COLUMN_IN_TILES: at = (long long)b * s->max_pages + j / TILE; break;
    case DECODE_COLUMN_IN_TILES_WRAPPED: at = (long long)b * s->max_pages + j / TILE % s->max_pages; break;
    default: break;
    }
    if (at >= (long long)s->batch * s->max_pages) return -1;
    const int page = k->decode == DECODE_NO_TABLE           ? min_int((int)at, s->pages - 1)
                     : k->decode == DECODE_NO_TABLE_COLUMNS ? column
                                                            : in->table[at];
    return page < 0 || page >= s->pages ? -1 : (long long)page * s->page_size + j % s->page_size;
}

static bool hidden(const model_inputs *in, const kernel *k, int keys, int r, int j)
{
    const int Nq = in->decode.q_len, group = in->decode.q_heads / in->decode.kv_heads;
    if (j / KEYS * KEYS + KEYS <= keys - Nq + 1) return false;  // all tokens see all of these
    const int i = k->decode == DECODE_TOKENS_FIRST  ? r / group
                  : k->decode == DECODE_ROW_OF_TILE ? r % rows_of(group * Nq) % Nq
                                                    : r % Nq;
    switch (k->decode) {
    case DECODE_ONE_LESS: return j >= keys - Nq + i;
    case DECODE_ONE_MORE: return j > keys - Nq + i + 1 || j >= keys;
    case DECODE_ONE_MORE_GHOST: return j > keys - Nq + i + 1;
    case DECODE_FROM_START: return j > i;
    case DECODE_FUTURE_SEEN: return j >= keys;
    case DECODE_NO_MASK: return false;
    default: return j > keys - Nq + i;
    }
}

// The scale that the file has for key j. They are sent for in rows of 16; behind the last key there are zeros, behind an array NaN.
static double row_scale(const model_inputs *in, const kernel *k, const float *scales, int b, int head, int j)
{
    const decode_shape *s = &in->decode;
    const int keys = in->kv_len[b], begin = j / KEYS * KEYS;
    if (begin >= keys || (j >= keys && k->scales != SCALES_OF_TAIL)) return 0;
    const long long at = place_of(in, k, b, begin);
    long long page = at / s->page_size * s->kv_heads, row = at % s->page_size;
    switch (k->scales) {
    case SCALES_OF_FIRST_HEAD: head = 0; break;
    case SCALES_OF_FIRST_ROWS: row = 0; break;
    case SCALES_OF_FIRST_PAGES: page = (long long)(begin / s->page_size) * s->kv_heads; break;
    case SCALES_OF_ONE_HEAD: page /= s->kv_heads; break;
    case SCALES_OF_KEY: row = begin; break;
    default: break;
    }
    const long long n = (page + head) * s->page_size + row + j % KEYS;
    return n < (long long)s->pages * s->kv_heads * s->page_size ? scales[n] : NAN;
}

static factors factors_of(const model_inputs *in, const kernel *k, int b, int head, int r, int j)
{
    if (!in->K_scale) return (factors){1, 1, 1};
    const int first = j / WARP_KEYS * WARP_KEYS, other = k->ROWS ? first + r % k->ROWS : first;
    const bool on_S = k->scales == SCALES_ROWS_ON_S || k->scales == SCALES_FIRST_ON_S;
    const bool on_P = k->scales == SCALES_ROWS_ON_P || k->scales == SCALES_FIRST_ON_P;
    const double K = row_scale(in, k, in->K_scale, b, head, on_S ? other : j);
    const double V = row_scale(in, k, in->V_scale, b, head, on_P ? other : j);
    switch (k->scales) {
    case SCALES_NOT_ON_S: return (factors){1, 1, V};
    case SCALES_V_ON_S: return (factors){V, 1, V};
    case SCALES_ALL_ON_P: return (factors){1, 1, K * V};
    case SCALES_ALL_ON_P_K_IN_L: return (factors){1, K, K * V};
    case SCALES_NOT_ON_P: return (factors){K, 1, 1};
    case SCALES_K_ON_P: return (factors){K, 1, K};
    case SCALES_V_IN_L: return (factors){K, V, V};
    case SCALES_EXCHANGED: return (factors){V, 1, K};
    case SCALES_NO_L: return (factors){K, 0, V};
    case SCALES_L_COMPLETED: return (factors){K, 4, V};  // by four lanes
    default: return (factors){K, 1, V};
    }
}

static double as_float32(double x) { return fabs(x) < 1e-45 ? 0 : as_float(x); }

// O and L of the parts of a row, each of which is divided by its l. They come eight at a time, and where there are fewer -infinity stands for L.
static part merge(const kernel *k, const part *parts, int count, int D, double *L)
{
    part all = {.m = -FLT_MAX};
    double base = -FLT_MAX;
    const int from = k->decode == DECODE_FIRST_PART_LEFT, to = count - (k->decode == DECODE_LAST_PART_LEFT);
    for (int n = 0; n < count; n++) {
        if (n % AT_ONCE == 0) {
            const int end = min_int(n + AT_ONCE, count);
            const double before = base;
            for (int p = n; p < end; p++) base = fmax(base, L_of(&parts[p]));
            if (k->decode == DECODE_UNDER_LAST) base = n + AT_ONCE == end ? L_of(&parts[end - 1]) : -INFINITY;
            if (k->decode == DECODE_UNDER_FIRST) base = L_of(&parts[n]);
            if (k->decode == DECODE_NO_MAX) base = 0;
            const double alpha = k->decode == DECODE_NO_MAX_FOR_O && n > 0 ? 1 : as_float32(exp(before - base));
            all.l *= alpha;
            for (int d = 0; d < D; d++) all.O[d] *= alpha, all.size[d] *= alpha;
        }
        if (n < from || n >= to) continue;
        const double L_part = L_of(&parts[n]);
        double w = exp(L_part - base);
        if (k->decode == DECODE_MEAN) w = 1;
        if (k->decode == DECODE_BASE_2) w = exp2(L_part - base);
        if (k->decode == DECODE_NO_MAX || k->decode == DECODE_NO_MAX_FOR_O) w = exp(L_part);
        w = as_float32(w);
        all.l += w;
        for (int d = 0; d < D; d++) {
            const double l = parts[n].l > 0 || isnan(parts[n].l) ? parts[n].l : 1;
            all.O[d] += w * parts[n].O[d] / l, all.size[d] += w * parts[n].size[d] / l;
        }
    }
    *L = (k->decode == DECODE_NO_MAX_FOR_O ? -FLT_MAX : base) + log(as_float(all.l));
    return all;
}

void decode_row(const model_inputs *in, const kernel *k, size_t row, bool is_O, model_row *out)
{
    static _Thread_local part parts[PARTS];
    const decode_shape *s = &in->decode;
    const int D = s->head_dim, packed = s->q_heads / s->kv_heads * s->q_len, rows = rows_of(packed);
    const int b = (int)(row / (size_t)packed) / s->kv_heads, head = (int)(row / (size_t)packed) % s->kv_heads,
              r = (int)(row % (size_t)packed), keys = in->kv_len[b], members = s->kv_heads * ((packed - 1) / rows + 1);
    const float *q = in->Q + row * (size_t)D;
    long long total = 0, first = 0;
    for (int n = 0; n < s->batch; n++) {
        if (n == b) first = total;
        total += tiles_of(in->kv_len[n]);
    }
    const int most = teams_of(in->blocks < members ? 1 : in->blocks / members, s->batch);
    const int teams = (int)(most < total ? most : total);
    int count = 0, team = -1;
    bool lost = false, nowhere = false;
    double largest = 0;
    for (int t = 0; t < tiles_of(keys); t++) {
        int owner = team < 0 ? 0 : team;
        while (owner < teams && first_of(k, total, owner + 1, teams) <= first + t) owner++;
        lost |= owner == teams;
        if (owner != team && count < PARTS) parts[count++] = nothing;
        team = owner;
        for (int j = t * TILE; j < (t + 1) * TILE; j++) {
            const long long at = j < keys ? place_of(in, k, b, j / KEYS * KEYS) + j % KEYS : 0;
            nowhere |= at < j % KEYS && j < keys;
            const size_t row_of_cache = ((size_t)(at > 0 ? at : 0) * (size_t)s->kv_heads + (size_t)head) * (size_t)D;
            const bool some = j < keys && !nowhere;
            const float *key = some ? in->K + row_of_cache : no_key, *value = some ? in->V + row_of_cache : no_key;
            const factors f = factors_of(in, k, b, head, r, j);
            if (hidden(in, k, keys, r, j))
                pass(&parts[count - 1], value, f.P, D);
            else if (!(fabs(f.S) < 1e30))  // the scale of no key: which NaN become 0 is the machine's
                nowhere = true;
            else
                see(&parts[count - 1], in, q, key, value, f, &largest);
        }
    }
    const bool undivided = is_O && k->scales == SCALES_NO_L;  // O as the last maximum left it
    if (nowhere || count == PARTS || (lost && count > 2) || undivided) {
        fill(in, is_O, MODEL_UNKNOWN, out);
    } else if (lost) {
        fill(in, is_O, MODEL_UNWRITTEN, out);
    } else {
        double L = L_of(&parts[0]);
        part all = count > 1 ? merge(k, parts, count, D, &L) : parts[0];
        if (count > 1 && !(all.l > 0)) all = nothing;
        if (!(all.l > 0)) all.l = 1;
        put(in, &all, L, largest, is_O, out);
    }
}

// -------------------------------------------------------------------------------------------------------------- lists of tiles

// Keys of a step and rows of a warp, as the file chooses them.
static void sizes_of(const model_inputs *in, int *BC, int *ROWS)
{
    const bool small = in->lists.q_tile == 64;
    *BC = small && in->shape->head_dim > 16 ? 32 : 64, *ROWS = small ? 16 : 32;
}

// Whether row i sees key c of the step that begins at key `half` of tile n of the list in part.
static bool bit_of(const model_inputs *in, const kernel *k, int parts, int n, int i, int c, int half, bool whole_warp)
{
    const block_mask *m = &in->lists;
    int row = i % m->q_tile, word = (half + c) / 32, bit = c % 32;
    const int t = c % 8 / 2,
              slot = c / 8 * 2 + c % 2;  // of the lane that has column c: which it is, and which of its columns
    if (!whole_warp) switch (k->lists) {
        case LISTS_BITS_FROM_LEFT: bit = bit + 2 * t > 31 ? -1 : 31 - bit; break;
        case LISTS_BITS_FROM_LEFT_OF_LANE: bit = 31 - bit + 4 * t; break;
        case LISTS_BITS_SHIFTED_TWICE: bit = bit + 2 * t; break;
        case LISTS_BITS_OF_NEIGHBOURS: bit = slot % 8 + 2 * t; break;
        case LISTS_FIRST_WORD: word = half / 32; break;
        case LISTS_OTHER_ROW: row ^= 8; break;
        default: break;
        }
    if (k->lists == LISTS_FIRST_HALF_OF_BITS) word = c / 32;
    if (k->lists == LISTS_BITS_OF_FIRST_TILE) n = 0;
    const size_t at = ((size_t)(parts + n) * (size_t)m->q_tile + (size_t)row) * (TILE / 32) + (size_t)word;
    return bit >= 0 && bit < 32 && m->bits[at] >> bit & 1;
}

void listed_row(const model_inputs *in, const kernel *k, size_t row, bool is_O, model_row *out)
{
    const attention_shape *s = in->shape;
    const block_mask *m = &in->lists;
    const int D = s->head_dim, i = (int)row % s->q_len, h = (int)(row / (size_t)s->q_len) % s->q_heads,
              b = (int)(row / (size_t)s->q_len) / s->q_heads, q_tiles = (s->q_len - 1) / m->q_tile + 1;
    const int mask = m->masks > 1 && k->lists != LISTS_FIRST_MASK ? b : 0;
    const int list = mask * (k->lists == LISTS_NO_END ? q_tiles : q_tiles + 1) +
                     i / (k->lists == LISTS_TILES_OF_128 ? 128 : m->q_tile);
    int BC, ROWS;
    sizes_of(in, &BC, &ROWS);
    const int steps = TILE / BC, parts = k->lists == LISTS_STARTS_OF_WHOLE ? m->whole_start[list] : m->part_start[list];
    int whole = (m->whole_start[list + 1] - m->whole_start[list]) * steps,
        in_part = (m->part_start[list + 1] - parts) * steps;
    const int first_whole = k->lists == LISTS_WHOLE_FROM_FIRST ? 0 : m->whole_start[list],
              first_part = k->lists == LISTS_PART_FROM_FIRST ? 0 : parts;
    switch (k->lists) {
    case LISTS_ENDS_ARE_COUNTS: whole = m->whole_start[list + 1] * steps; break;
    case LISTS_PART_ENDS_ARE_COUNTS: in_part = m->part_start[list + 1] * steps; break;
    case LISTS_WHOLE_ALONE: in_part = 0; break;
    case LISTS_PART_ALONE: whole = 0; break;
    case LISTS_LAST_PART_LEFT: in_part = max_int(0, in_part - steps); break;
    case LISTS_STEPS_ARE_TILES: whole /= steps; break;
    case LISTS_ALL_STEPS_ARE_TILES: whole /= steps, in_part /= steps; break;
    default: break;
    }
    const float *q = in->Q + row * (size_t)D;
    const size_t kv = (size_t)b * (size_t)s->kv_heads + (size_t)(h / (s->q_heads / s->kv_heads));
    part all = nothing;
    double largest = 0;
    for (int step = 0; step < whole + in_part; step++) {
        const bool in_parts = step >= whole;
        const int n = (in_parts ? step - whole : step) / steps, at = n + (in_parts ? first_part : first_whole);
        if (at < 0 || at >= (in_parts ? in->parts : in->wholes)) {
            fill(in, is_O, MODEL_UNKNOWN, out);
            return;
        }
        const int t = in_parts ? m->part[at] : m->whole[at], half = (in_parts ? step - whole : step) % steps * BC;
        const int key = t * (k->lists == LISTS_TILES_OF_BC ? BC : TILE) +
                        (k->lists == LISTS_FIRST_HALF_TWICE ? 0 : step % steps * BC);
        if (in_parts && (size_t)(parts + n + 1) * (size_t)m->q_tile * (TILE / 32) > in->bit_words) {
            fill(in, is_O, MODEL_UNKNOWN, out);
            return;
        }
        bool any = !in_parts || k->lists == LISTS_NO_BITS;
        for (int w = i / ROWS * ROWS; w < (i / ROWS + 1) * ROWS && !any; w++)
            for (int c = 0; c < BC && !any; c++) any = bit_of(in, k, parts, n, w, c, half, true);
        for (int c = 0; c < BC && any; c++) {
            const bool visible = !in_parts || k->lists == LISTS_NOT_MASKED || k->lists == LISTS_NO_BITS ||
                                 bit_of(in, k, parts, n, i, c, half, false) != (k->lists == LISTS_BITS_UPSIDE_DOWN);
            if (!visible && k->lists != LISTS_HIDDEN_BY_0) continue;
            const bool some = key + c < s->kv_len;
            const size_t from = (kv * (size_t)s->kv_len + (size_t)(key + c)) * (size_t)D;
            see(&all, in, q, some ? in->K + from : no_key, some ? in->V + from : no_key, (factors){visible, 1, 1},
                &largest);
        }
    }
    double L = L_of(&all);
    if (!(all.l > 0)) {
        if (isinf(L) && k->lists == LISTS_EMPTY_L_FINITE) L = -FLT_MAX * LN2;
        if (k->lists != LISTS_EMPTY_NAN && !isnan(all.l)) all.l = 1;
    } else if (k->lists == LISTS_L_IN_BASE_2) {
        L *= LOG2E;
    }
    put(in, &all, L, largest, is_O, out);
}
