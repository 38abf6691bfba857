#include "case/cover.h"

#include "case/mix.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef enum dimension {
    ROWS,
    COLUMNS,
    BATCH,
    KV_HEADS,
    GROUP,
    QUERIES,
    KEYS,
    NEW_TOKENS,
    CACHED,
    SHARED_OUT,  // the queries of a sequence that lies on several ranks
    HEAD_DIM,
    SCALE,
    CAUSAL,
    WINDOW,
    SINKS,
    LOGITS,
    MASK,
    MASKS,
    Q_TILE,
    PAGE,
    PAGES,
    LENS,
    RANKS,
    LEVELS,
    INPUT,
    OFFSET,
    ONE_TENSOR,
    ROOM,
    LATE,
    ORDER,
    PRIOR,
    PROCESSORS,
    LAST
} dimension;
_Static_assert((int)LAST <= (int)WB_DIMENSIONS, "a row has a value of each");

// A class: any of these numbers. The first class of a dimension is the simplest, and the cheapest.
typedef struct span {
    int from, to;
} span;

// clang-format off
static const span table[LAST][WB_CLASSES] = {
    [ROWS] = {{1, 1}, {2, 15}, {16, 130}, {131, 2000}},
    [COLUMNS] = {{1, 1}, {2, 31}, {32, 130}, {131, 1030}, {1031, 5000}},
    [BATCH] = {{1, 1}, {2, 2}, {3, 8}, {257, 262}},  // B
    [KV_HEADS] = {{1, 1}, {2, 4}, {5, 12}, {1022, 1030}},  // Hkv
    [GROUP] = {{1, 1}, {2, 2}, {3, 7}, {8, 16}},  // Hq / Hkv
    [QUERIES] = {{1, 1}, {2, 14}, {15, 33}, {62, 66}, {126, 130}, {131, 400}, {401, 1000}},  // Nq
    [KEYS] = {{1, 1}, {2, 14}, {15, 33}, {62, 66}, {126, 130}, {131, 400}, {401, 1000}},  // Nk
    [NEW_TOKENS] = {{1, 1}, {2, 7}, {8, 16}},  // Nq
    [CACHED] = {{1, 1}, {2, 33}, {34, 300}, {301, 1500}},  // Nk
    [SHARED_OUT] = {{1, 1}, {2, 20}, {21, 90}, {91, 160}},  // N
    [HEAD_DIM] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}},  // D, of those that it takes, number
    [SCALE] = {{0, 0}, {1, 60}, {61, 2500}},  // 1000 scale, 0 for 1000 / sqrt(D)
    [CAUSAL] = {{0, 0}, {1, 1}},
    [WINDOW] = {{1, 1}, {2, 14}, {15, 66}, {67, 140}, {141, 500}, {65536, INT_MAX}},  // W
    [SINKS] = {{0, 0}, {1, 4}, {5, 70}, {71, 200}, {401, 70000}},  // sinks
    // sink logit, 2000 if normal, 2001 if mixed, 2002 if -inf; the last as large as scores of a tower
    [LOGITS] = {{2000, 2000}, {2001, 2001}, {2002, 2002}, {-90, 90}, {-1100, -200}, {930, 1070}},
    [MASK] = {{WB_MASK_FULL, WB_MASK_FULL}, {WB_MASK_CAUSAL, WB_MASK_CAUSAL}, {WB_MASK_DOCUMENTS, WB_MASK_PADDED},
              {WB_MASK_PREFIX, WB_MASK_WINDOW}, {WB_MASK_EMPTY, WB_MASK_EMPTY}, {WB_MASK_RANDOM, WB_MASK_GAPS},
              {WB_MASK_LAST, WB_MASK_LOOSE}},
    [MASKS] = {{0, 0}, {1, 1}},  // a mask a sequence
    [Q_TILE] = {{1, 1}, {2, 2}},  // rows of a mask's tile / 64
    [PAGE] = {{4, 4}, {5, 6}, {7, 8}},  // log2 of a page's keys
    [PAGES] = {{0, 0}, {100000, 131072}},  // pages of the cache, 0: about as many as are used
    [LENS] = {{WB_LENS_SAME, WB_LENS_SAME}, {WB_LENS_MIXED, WB_LENS_ZIPF}, {WB_LENS_EDGES, WB_LENS_EDGES},
                {WB_LENS_EMPTY, WB_LENS_EMPTY}},
    [RANKS] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 7}, {8, 8}},
    [LEVELS] = {{1, 1}, {2, 2}},
    [INPUT] = {{WB_NORMAL, WB_NORMAL}, {WB_HUGE, WB_TINY}, {WB_EARLY_MAX, WB_LATE_MAX}, {WB_STAIRS, WB_FALLING},
               {WB_FLAT, WB_ONES}, {WB_TOWER, WB_TOWER}, {WB_ABYSS, WB_ABYSS},
               {WB_ZERO_ROWS, WB_ZERO_ROWS}, {WB_OUTLIERS, WB_ANY_BYTES}, {WB_SIZES, WB_MEAN_ONE}},  // of eight bits
    [OFFSET] = {{0, 0}, {1, 15}, {17, 250}},  // 16-byte units past a multiple of 256, 17 and more: each tensor others
    [ONE_TENSOR] = {{0, 0}, {1, 1}},  // K is V
    [ROOM] = {{0, 0}, {1, 1}},  // more workspace than asked for
    [LATE] = {{0, 0}, {1, 1}, {2, 2}},  // inputs arrive late on a stream of their own, 2: another call meanwhile
    [ORDER] = {{0, 0}, {1, 1}, {2, 1000000}},  // order of what nothing orders
    [PRIOR] = {{0, 0}, {255, 255}, {1, 254}},  // 255 - a byte of outputs and workspace before the call
    [PROCESSORS] = {{0, 0}, {1, 7}, {100, 200}},  // multiprocessors, 0: as always
};
// clang-format on

static bool has(const wb_problem *p, int d)
{
    const wb_signature takes = p->signature;
    const bool sum = takes == WB_ROW_SUM, decode = takes == WB_DECODE, ranks = wb_has_ranks(p);
    switch ((dimension)d) {
    case ROWS:
    case COLUMNS: return sum;
    case BATCH:
    case KV_HEADS:
    case SCALE: return !sum;
    case GROUP: return p->grouped;
    case QUERIES: return !sum && !decode && !ranks;
    case KEYS: return !sum && !decode && !ranks && p->mask != WB_CAUSAL;
    case NEW_TOKENS:
    case CACHED:
    case PAGE:
    case PAGES:
    case LENS: return decode;
    case HEAD_DIM: return p->head_dims[0] != 0;
    case CAUSAL: return p->mask == WB_CAUSAL_OPTIONAL;
    case WINDOW: return p->window;
    case SINKS: return p->sinks;
    case LOGITS: return p->sink_logits;
    case MASK:
    case MASKS:
    case Q_TILE: return takes == WB_BLOCK_MASK;
    case SHARED_OUT:
    case RANKS: return ranks;
    case LEVELS: return takes == WB_FP8;
    case ROOM: return decode || ranks;
    case ONE_TENSOR: return takes == WB_FORWARD || takes == WB_BACKWARD || takes == WB_BLOCK_MASK;
    case LATE:
    case ORDER: return !p->on_host;
    case PROCESSORS: return !p->on_host && !ranks;
    default: return true;
    }
}

// How many classes it has; 0: none, the problem has no such dimension.
static int classes_of(const wb_problem *p, int d)
{
    enum { EVERYWHERE = 7 };  // inputs
    if (d == INPUT && p->signature != WB_FP8 && !p->int8_cache) return EVERYWHERE;
    int count = has(p, d);
    while (count && count < WB_CLASSES && (table[d][count].from || table[d][count].to)) count++;
    if (d != HEAD_DIM || !count) return count;
    for (count = 0; p->head_dims[count];) count++;
    return count;
}

static int any_of(uint64_t *dice, span s)
{
    *dice = mix(*dice);
    return s.from + (int)(*dice % (uint64_t)((int64_t)s.to - s.from + 1));
}

wb_case wb_cover_case(const wb_problem *p, const wb_cover_row *row, uint64_t seed)
{
    const int *v = row->value;
    const bool has_hidden = (p->signature == WB_FORWARD || p->signature == WB_BACKWARD) && p->mask != WB_NO_MASK;
    wb_case c = {.rows = v[ROWS],
                 .cols = v[COLUMNS],
                 .shape = {.batch = v[BATCH],
                           .kv_heads = v[KV_HEADS],
                           .q_heads = v[KV_HEADS] * (p->grouped ? v[GROUP] : 1),
                           .q_len = v[QUERIES] + v[NEW_TOKENS] + v[SHARED_OUT],
                           .kv_len = v[KEYS] + v[CACHED],
                           .head_dim = p->head_dims[v[HEAD_DIM]],
                           .scale = (float)v[SCALE] / 1000,
                           .causal = v[CAUSAL],
                           .window = v[WINDOW],
                           .sinks = v[SINKS]},
                 .seed = seed,
                 .input = (wb_input)v[INPUT],
                 .mask = (wb_mask_name)v[MASK],
                 .masks = v[MASKS] ? v[BATCH] : 0,
                 .q_tile = 64 * v[Q_TILE],
                 .page = v[PAGE] ? 1 << v[PAGE] : 0,
                 .pages = v[PAGES],
                 .lens = (wb_lens)v[LENS],
                 .ranks = v[RANKS],
                 .levels = v[LEVELS],
                 .offset = (p->signature == WB_ROW_SUM ? 4 : 16) * v[OFFSET],
                 .one_tensor = v[ONE_TENSOR],
                 .short_workspace = 2 * v[ROOM],
                 .late = v[LATE],
                 .order = v[ORDER],
                 .prior = v[PRIOR],
                 .place = v[PRIOR] != 0,
                 .processors = v[PROCESSORS],
                 .watched = has_hidden &&
                            v[QUERIES] * p->head_dims[v[HEAD_DIM]] > 8192};  // in less no page of memory is whole
    if (c.ranks && c.late == 2) c.offset %= 256;                             // the buffers of K and V change places
    if (p->mask == WB_CAUSAL || v[CAUSAL]) c.shape.kv_len = 0;               // as many as queries
    if (has(p, LOGITS) && v[LOGITS] != 2000) {
        c.logits = v[LOGITS] == 2001 ? WB_LOGITS_MIXED : WB_LOGITS_GIVEN;
        c.sink_logit = v[LOGITS] == 2002 ? -INFINITY : (float)v[LOGITS];
    }
    return wb_case_defaults(p, c);
}

// In tiles of 16 x 64 and 16 columns, and as much for what a head costs whatever its size.
static double work_of(const wb_problem *p, const wb_cover_row *row)
{
    const wb_case c = wb_cover_case(p, row, 1);
    const attention_shape *s = &c.shape;
    if (p->signature == WB_ROW_SUM) return (double)c.rows * (c.cols + 30) / 512;
    const bool decode = p->signature == WB_DECODE;
    const int packed = decode ? s->q_heads / s->kv_heads : 1;  // heads in the rows of a tile
    const double heads = (double)s->batch * s->q_heads / packed;
    const double rows = (packed * s->q_len - 1) / 16 + 1, keys = (s->kv_len - 1) / 64 + 1;
    const double cache = (double)c.pages * c.page * s->kv_heads * s->head_dim / 8192;  // to be filled
    const double calls = (c.late == 2 ? 2 : 1) * (c.ranks ? c.ranks : 1);
    const double out = decode ? (double)s->batch * s->q_heads * s->q_len / 4 : 0;
    return cache + out + heads * (1 + rows * keys * (s->head_dim / 16 + 2)) * calls;
}

// Whether a case that has not its simplest value runs in a process of its own.
static bool alone(int d) { return d == LATE || d == ORDER || d == PROCESSORS; }

// Whether the case would be another with another class of this dimension.
static bool counts(const wb_cover_row *row, int d)
{
    const int *v = row->value;
    return d == KEYS ? !v[CAUSAL] : d == MASKS ? v[BATCH] > 1 : true;
}

// Which pairs of classes have met.
typedef struct pairs {
    bool met[LAST][WB_CLASSES][LAST][WB_CLASSES];
} pairs;

static int news(const wb_problem *p, const pairs *seen, const int classes[LAST], int d, int class)
{
    int count = 0;
    for (int other = 0; other < LAST; other++)
        count += other != d && classes[other] >= 0 && has(p, other) && !seen->met[d][class][other][classes[other]];
    return count;
}

// Gives each dimension that has none yet, classes[d] < 0, the class of which most pairs are new, in an order of chance.
// What is not chosen yet counts as its simplest, which costs least.
static void complete(const wb_problem *p, const pairs *seen, double most, int classes[LAST], wb_cover_row *row,
                     uint64_t *dice)
{
    int order[LAST];
    for (int d = 0; d < LAST; d++) order[d] = d;
    for (int d = LAST - 1; d > 0; d--) {
        const int at = any_of(dice, (span){0, d}), was = order[d];
        order[d] = order[at], order[at] = was;
    }
    for (int k = 0; k < LAST; k++) {
        const int d = order[k], count = classes_of(p, d);
        int best = -1, chosen = row->value[d];
        if (classes[d] >= 0) continue;
        for (int n = 0, from = count ? any_of(dice, (span){0, count - 1}) : 0; n < count; n++) {
            const int class = (from + n) % count, found = news(p, seen, classes, d, class);
            const int value = any_of(dice, table[d][class]), simplest = row->value[d];
            row->value[d] = value;
            if (found > best && work_of(p, row) <= most) best = found, chosen = value, classes[d] = class;
            row->value[d] = simplest;
        }
        row->value[d] = chosen;
    }
}

static void meet(pairs *seen, const int classes[LAST], const wb_cover_row *row)
{
    for (int d = 0; d < LAST; d++)
        for (int e = 0; e < LAST; e++)
            if (classes[d] >= 0 && classes[e] >= 0 && counts(row, d) && counts(row, e))
                seen->met[d][classes[d]][e][classes[e]] = true;
}

// One long case of each length, of a causal one as well where it is optional; of the rest little.
static int long_rows(const wb_problem *p, int longest, uint64_t *dice, wb_cover_row rows[], int room)
{
    static const struct {
        int length, causal;
    } cases[] = {{ROWS, 0}, {COLUMNS, 0}, {QUERIES, 0},    {QUERIES, 1},
                 {KEYS, 0}, {CACHED, 0},  {SHARED_OUT, 0}, {SHARED_OUT, 1}};
    static const struct {
        int d;
        span values;
    } others[] = {{ROWS, {2, 12}}, {COLUMNS, {2, 12}},  {QUERIES, {5, 20}}, {KEYS, {20, 70}}, {NEW_TOKENS, {1, 16}},
                  {GROUP, {2, 2}}, {WINDOW, {20, 150}}, {SINKS, {0, 9}},    {RANKS, {2, 4}}};
    const int dims = classes_of(p, HEAD_DIM);
    int count = 0;
    for (size_t n = 0; n < sizeof cases / sizeof *cases && count < room; n++) {
        if (!has(p, cases[n].length) || (cases[n].causal && !has(p, CAUSAL))) continue;
        int *const value = rows[count++].value;
        for (int d = 0; d < LAST; d++) value[d] = has(p, d) ? any_of(dice, table[d][0]) : 0;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (has(p, others[k].d)) value[others[k].d] = any_of(dice, others[k].values);
        if (dims) value[HEAD_DIM] = any_of(dice, (span){0, (dims - 1) / 2});  // the smaller half
        value[CAUSAL] = cases[n].causal;
        value[cases[n].length] = any_of(dice, (span){longest, longest + longest / 2});
    }
    return count;
}

int wb_cover(const wb_problem *p, uint64_t seed, double most, int longest, wb_cover_row rows[WB_COVERING])
{
    static pairs seen;
    uint64_t dice = mix(seed);
    int count = 0;
    memset(&seen, 0, sizeof seen);
    for (int a = 0; a < LAST; a++)
        for (int i = 0; i < classes_of(p, a); i++)
            for (int b = a + 1; b < LAST; b++)
                for (int j = 0; j < classes_of(p, b); j++) {
                    if (seen.met[a][i][b][j] || count == WB_COVERING) continue;
                    int classes[LAST];
                    wb_cover_row *row = &rows[count];
                    for (int d = 0; d < LAST; d++)
                        classes[d] = -1, row->value[d] = has(p, d) ? any_of(&dice, table[d][0]) : 0;
                    row->value[a] = any_of(&dice, table[a][classes[a] = i]);
                    row->value[b] = any_of(&dice, table[b][classes[b] = j]);
                    // What costs much is in some of the cases: a process of its own in half of them, pages in a third.
                    for (int d = 0; d < LAST; d++)
                        if (has(p, d) && classes[d] < 0 &&
                            ((d == CAUSAL && (a == KEYS || b == KEYS)) || (d == PAGES && count % 3) ||
                             (alone(d) && count % 2)))
                            classes[d] = 0;
                    if (!counts(row, a) || !counts(row, b) || work_of(p, row) > most) continue;
                    complete(p, &seen, most, classes, row, &dice);
                    meet(&seen, classes, row);
                    count++;
                }
    return count + long_rows(p, longest, &dice, rows + count, WB_COVERING - count);
}

bool wb_cover_simpler(const wb_problem *p, wb_cover_row *row, int d)
{
    if (d >= LAST || !has(p, d) || row->value[d] == table[d][0].from) return false;
    row->value[d] = table[d][0].from;
    return true;
}
