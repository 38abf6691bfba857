#include "case/cover.h"

#include "case/mix.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
    WHOLE,
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
    SHARED,
    CUT,
    RANKS,
    LEVELS,
    INPUT,
    OFFSET,
    ONE_BUFFER,
    ONE_TENSOR,
    NAN_HEAD,
    UNREAD,
    ROOM,
    CALLER,
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

typedef struct wb_classes {
    const char *means;  // what the number is
    span spans[WB_CLASSES];
} wb_classes;

// clang-format off
static const wb_classes table[LAST] = {
    [ROWS] = {"rows", {{1, 1}, {2, 15}, {16, 130}, {131, 2000}}},
    [COLUMNS] = {"columns", {{1, 1}, {2, 31}, {32, 130}, {131, 1030}, {1031, 5000}}},
    [BATCH] = {"B", {{1, 1}, {2, 3}, {4, 8}, {9, 64}, {65, 256}, {257, 700}, {1024, 1400}}},
    [KV_HEADS] = {"Hkv", {{1, 1}, {2, 4}, {5, 12}, {13, 64}, {200, 1024}, {1025, 1031}}},
    [GROUP] = {"Hq / Hkv", {{1, 1}, {2, 2}, {3, 7}, {8, 16}, {17, 40}, {41, 128}, {257, 300}}},
    [QUERIES] = {"Nq", {{1, 1}, {2, 14}, {15, 33}, {62, 66}, {126, 130}, {131, 800}}},
    [KEYS] = {"Nk, from -3: Nq - 1, Nq, Nq + 1",
              {{1, 1}, {2, 14}, {15, 33}, {62, 66}, {126, 130}, {131, 800}, {-3, -1}}},
    [NEW_TOKENS] = {"Nq, the new tokens", {{1, 1}, {2, 7}, {8, 15}, {16, 16}}},
    [CACHED] = {"Nk, keys of the longest sequence, from -3: Nq - 1, Nq, Nq + 1",
                {{1, 1}, {2, 33}, {34, 300}, {301, 1500}, {-3, -1}}},
    [SHARED_OUT] = {"N, tokens of a rank", {{1, 1}, {2, 20}, {21, 90}, {91, 160}}},
    [WHOLE] = {"Nq, Nk and columns are rounded up to multiples of 128, or to 64", {{0, 0}, {1, 1}}},
    [HEAD_DIM] = {"D", {{0, 0}, {1, 1}, {2, 2}, {3, 3}}},  // of those that the problem takes, number
    [SCALE] = {"scale in thousandths, 0: 1 / sqrt(D), below 0: between two powers of two",
               {{0, 0}, {1, 60}, {61, 2500}, {-40, -11}, {2501, 4000000}}},
    [CAUSAL] = {"causal", {{0, 0}, {1, 1}}},
    [WINDOW] = {"W, from -3: N - 1, N, N + 1", {{1, 1}, {2, 14}, {15, 66}, {67, 140}, {141, 500}, {65536, 65560},
                {INT_MAX - 20, INT_MAX}, {-3, -1}}},
    [SINKS] = {"sinks", {{0, 0}, {1, 4}, {5, 70}, {71, 200}, {257, 600}, {65536, 65600}, {INT_MAX - 20, INT_MAX}}},
    // the last as large as scores of a tower
    [LOGITS] = {"sink logit, 2000: normal, 2001: mixed, 2002: -infinity",
                {{2000, 2000}, {2001, 2001}, {2002, 2002}, {-90, 90}, {-1100, -200}, {930, 1070}}},
    [MASK] = {"mask", {{WB_MASK_FULL, WB_MASK_FULL}, {WB_MASK_CAUSAL, WB_MASK_CAUSAL},
              {WB_MASK_DOCUMENTS, WB_MASK_PADDED}, {WB_MASK_PREFIX, WB_MASK_WINDOW}, {WB_MASK_EMPTY, WB_MASK_EMPTY},
              {WB_MASK_RANDOM, WB_MASK_GAPS}, {WB_MASK_LAST, WB_MASK_LOOSE}}},
    [MASKS] = {"a mask for each sequence", {{0, 0}, {1, 1}}},
    [Q_TILE] = {"rows of a mask's tile / 64", {{1, 1}, {2, 2}}},
    [PAGE] = {"log2 of a page's keys", {{4, 4}, {5, 6}, {7, 8}}},
    [PAGES] = {"pages of the cache, 0: about as many as are used", {{0, 0}, {65537, 80000}}},
    [LENS] = {"lengths of the sequences", {{WB_LENS_SAME, WB_LENS_SAME}, {WB_LENS_MIXED, WB_LENS_ZIPF},
              {WB_LENS_EDGES, WB_LENS_EDGES}, {WB_LENS_EMPTY, WB_LENS_EMPTY}}},
    [SHARED] = {"pages in common, 1: several sequences begin with them, 2: a sequence has one several times",
                {{0, 0}, {1, 1}, {2, 2}}},
    [CUT] = {"what follows keys, tables and lists is no memory", {{0, 0}, {1, 1}}},
    [RANKS] = {"ranks", {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}, {8, 8}, {9, WB_MOST_RANKS}}},
    [LEVELS] = {"levels", {{1, 1}, {2, 2}}},
    // those between ABYSS and the last are of eight bits: span_of()
    [INPUT] = {"what the numbers are like", {{WB_NORMAL, WB_NORMAL}, {WB_HUGE, WB_TINY}, {WB_LARGE, WB_SMALL},
               {WB_EARLY_MAX, WB_LATE_MAX}, {WB_STAIRS, WB_BY_HEAD}, {WB_FLAT, WB_ZERO_V}, {WB_TOWER, WB_TOWER},
               {WB_ABYSS, WB_ABYSS}, {WB_ZERO_ROWS, WB_ZERO_ROWS}, {WB_OUTLIERS, WB_ANY_BYTES},
               {WB_SIZES, WB_MEAN_ONE}, {WB_LIGHT, WB_LIGHT}}},
    [OFFSET] = {"units past a multiple of 256 bytes at which tensors begin, from 17 on each others, from 257 one alone",
                {{0, 0}, {1, 15}, {17, 250}, {257, 500}}},
    [ONE_BUFFER] = {"inputs in one buffer, each right behind another, in any order", {{0, 0}, {1, 1000000}}},
    [ONE_TENSOR] = {"tensors that are one: 1: V is K, 2: K and V are Q, 4: K is Q, 3: dO is O",
                    {{0, 0}, {1, 1}, {2, 2}, {4, 4}, {3, 3}}},
    [NAN_HEAD] = {"V of a head is NaN, of number", {{0, 0}, {1, 1000000}}},
    [UNREAD] = {"fields of the shape that the problem does not read", {{0, 0}, {INT_MIN, -1}, {1, 40}}},
    [ROOM] = {"a workspace that is larger than asked for", {{0, 0}, {1, 1}}},
    [CALLER] = {"who calls, 1: another thread of the host, 2: on a stream of its own, 3: both",
                {{0, 0}, {1, 1}, {2, 3}}},
    [LATE] = {"inputs that come late, on a stream of their own, 2: another call meanwhile, 3: four",
              {{0, 0}, {1, 1}, {2, 3}}},
    [ORDER] = {"order of what nothing orders", {{0, 0}, {1, 1}, {2, 1000000}}},
    [PRIOR] = {"255 - a byte of outputs and workspace before the call", {{0, 0}, {255, 255}, {1, 254}}},
    [PROCESSORS] = {"multiprocessors, or of 01 what threads hang on; 0: as always", {{0, 0}, {1, 7}, {8, 99}, {100, 300}}},
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
    case LENS:
    case SHARED: return decode;
    case CUT: return decode || takes == WB_BLOCK_MASK;
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
    case NAN_HEAD: return !sum && takes != WB_FP8 && !p->int8_cache;
    case ROOM: return decode || ranks;
    case ONE_TENSOR: return decode || takes == WB_FORWARD || takes == WB_BACKWARD || takes == WB_BLOCK_MASK;
    case UNREAD: return !sum && !decode && !(p->window && p->sinks);
    case CALLER: return !ranks;  // each has a device and a stream
    case LATE:
    case ORDER: return !p->on_host;
    default: return true;
    }
}

enum { EVERYWHERE = 8 };  // classes of inputs

static span span_of(const wb_problem *p, int d, int class)
{
    const bool is_16_bits = d == INPUT && p->signature != WB_FP8 && !p->int8_cache;
    return table[d].spans[is_16_bits && class == EVERYWHERE ? WB_CLASSES - 1 : class];
}

// How many classes it has; 0: none, the problem has no such dimension.
static int classes_of(const wb_problem *p, int d)
{
    if (d == INPUT && p->signature == WB_FP8) return WB_CLASSES - 1;  // whose weights have too few bits for LIGHT
    if (d == INPUT && !p->int8_cache) return EVERYWHERE + (p->signature != WB_ROW_SUM);
    // Of 10, 16, 17 and 18 more than a thousand sequences take seconds.
    if (d == BATCH && p->mask == WB_CAUSAL_OPTIONAL && !p->on_host) return 6;
    if (d == ONE_TENSOR && has(p, d)) return p->signature == WB_DECODE ? 2 : p->signature == WB_BACKWARD ? 5 : 4;
    int count = has(p, d);
    while (count && count < WB_CLASSES && (table[d].spans[count].from || table[d].spans[count].to)) count++;
    if (d != HEAD_DIM || !count) return count;
    for (count = 0; p->head_dims[count];) count++;
    return count;
}

static int any_of(uint64_t *dice, span s)
{
    *dice = mix(*dice);
    return s.from + (int)(*dice % (uint64_t)((int64_t)s.to - s.from + 1));
}

// Any of the class, or what the case before had, so that some things change from call to call and others do not.
static int any_or_same(uint64_t *dice, span s, int before)
{
    const int any = any_of(dice, s);
    return *dice >> 63 && before >= s.from && before <= s.to ? before : any;
}

static const int *named;  // by the source
static int named_count;

void wb_cover_numbers(const int *numbers, int count) { named = numbers, named_count = count; }

// A size of this class, or of the gap behind it, that the source names, or one next to it; else `any`. It takes nothing
// from the dice, so that other numbers change other values alone.
static int near_named(const wb_problem *p, int d, int class, uint64_t dice, int any)
{
    const bool is_size = (d >= ROWS && d <= SHARED_OUT) || d == WINDOW || d == SINKS || d == PROCESSORS;
    const span s = span_of(p, d, class), next = class + 1 < WB_CLASSES ? table[d].spans[class + 1] : s;
    const int to = next.from > s.to ? next.from - 1 : s.to;
    const uint64_t own = mix(dice);
    for (int n = 0; is_size && own % 2 && n < named_count; n++) {
        const int near = named[((own >> 8) + (uint64_t)n) % (uint64_t)named_count] - 1 + (int)((own >> 40) % 3);
        if (near >= s.from && near <= to) return near;
    }
    return any;
}

// Where V and dO are 2^40 times larger, or V of some keys, a weight that float32 no longer has would be seen: nothing
// else may draw logits apart.
static bool is_moderate(const int v[])
{
    return v[INPUT] == WB_LARGE || v[INPUT] == WB_SMALL || v[INPUT] == WB_LIGHT || v[INPUT] == WB_WIDE_SCALES;
}

// The scale must not draw logits of 14 bits' sums further apart: of -30000, or of hundreds. Nor may it be so small that
// their own error is all there is.
static bool is_beyond(const wb_problem *p, const int v[])
{
    const int scale = v[SCALE];
    return p->signature == WB_FP8 ? v[INPUT] == WB_ABYSS || scale > 2500 || (scale < 0 && scale > -26)
                                  : is_moderate(v) && scale > 60;
}

// V that is K is as large as a small scale makes it: again a weight that float32 no longer has would be seen.
static bool gives_logits(const int v[]) { return !is_moderate(v) && v[ONE_TENSOR] != 1 && v[ONE_TENSOR] != 2; }

// Whether K is Q, so that there are as many of both.
static bool tied(const int v[]) { return v[ONE_TENSOR] == 2 || v[ONE_TENSOR] == 4; }

wb_case wb_cover_case(const wb_problem *p, const wb_cover_row *row, uint64_t seed)
{
    const int *v = row->value;
    const bool has_hidden = (p->signature == WB_FORWARD || p->signature == WB_BACKWARD) && p->mask != WB_NO_MASK;
    wb_case c = {
        .rows = v[ROWS],
        .cols = v[COLUMNS],
        .shape = {.batch = v[BATCH],
                  .kv_heads = v[KV_HEADS],
                  .q_heads = v[KV_HEADS] * (p->grouped ? v[GROUP] : 1),
                  .q_len = v[QUERIES] + v[NEW_TOKENS] + v[SHARED_OUT],
                  .kv_len = v[KEYS] + v[CACHED],
                  .head_dim = p->head_dims[v[HEAD_DIM]],
                  .scale = v[SCALE] < 0 ? ldexpf(1 + (float)(seed % 4093) / 4096, v[SCALE]) : (float)v[SCALE] / 1000,
                  .causal = v[CAUSAL],
                  .window = p->window ? v[WINDOW] : v[UNREAD],
                  .sinks = p->sinks ? v[SINKS] : v[UNREAD]},
        .seed = seed,
        .input = (wb_input)v[INPUT],
        .mask = (wb_mask_name)v[MASK],
        .mask_size = v[MASK] == WB_MASK_STRIDED && v[KEYS] % 3 ? 2 << (seed + (uint64_t)v[KEYS]) % 3 : 0,
        .masks = v[MASKS] ? v[BATCH] : 0,
        .q_tile = 64 * v[Q_TILE],
        .page = v[PAGE] ? 1 << v[PAGE] : 0,
        .pages = v[PAGES],
        .lens = (wb_lens)v[LENS],
        .shared = v[SHARED],
        .cut = v[CUT] && !v[LATE] && !v[SHARED] && !v[ONE_BUFFER],
        .ranks = v[RANKS],
        .levels = v[LEVELS],
        .offset = (p->signature == WB_ROW_SUM && v[OFFSET] < 257 ? 4 : 16) * v[OFFSET],
        .one_buffer = v[ONE_BUFFER],
        .one_tensor = v[ONE_TENSOR],
        .short_workspace = 2 * v[ROOM],
        .caller = p->on_host ? v[CALLER] % 2 : v[CALLER],
        .late = v[LATE],
        .order = v[ORDER],
        .dry = row->vast ? row->vast == 1 ? 2 : 1 : 0,
        .prior = v[PRIOR],
        .place = v[PRIOR] ? 1 + v[PRIOR] % 3 : 0,
        .processors = v[PROCESSORS],
        .watched = has_hidden && !tied(v) && !v[ONE_BUFFER] && row->vast < 2 &&
                   v[QUERIES] * p->head_dims[v[HEAD_DIM]] > 8192};             // in less no page of memory is whole
    if (c.ranks && c.late > 1) c.offset %= 256, c.late = 2, c.one_buffer = 0;  // buffers of K and V change places
    int *const sizes[] = {&c.shape.q_len, &c.cols, &c.shape.kv_len, &c.shape.window};
    for (int k = v[NEW_TOKENS] != 0; v[WHOLE] && k < 3; k++)
        if (*sizes[k] > 0) *sizes[k] = ((*sizes[k] - 1) | (*sizes[k] > 64 ? 127 : 63)) + 1;
    for (int k = 2; k < 4; k++)
        if (*sizes[k] < 0 && (k < 3 || p->window)) *sizes[k] = c.shape.q_len > 1 ? c.shape.q_len + 2 + *sizes[k] : 1;
    const bool is_tied = tied(v);
    if (p->mask == WB_CAUSAL || v[CAUSAL] || is_tied) c.shape.kv_len = 0;  // as many as queries
    if (is_tied) c.shape.q_heads = c.shape.kv_heads;
    if (is_beyond(p, v)) c.shape.scale = 0;
    if (c.shared) {  // room for pages that are the same, and others behind them
        c.shape.batch = c.shape.batch < 3 ? 3 : c.shape.batch;
        c.shape.kv_len = c.shape.kv_len < 3 * c.page ? 3 * c.page : c.shape.kv_len;
    }
    const int heads = c.shape.batch * c.shape.kv_heads;
    if (v[NAN_HEAD] && heads > 1 && !c.shared && v[ONE_TENSOR] != 1 && !is_tied) c.nan_head = 1 + v[NAN_HEAD] % heads;
    if (has(p, LOGITS) && v[LOGITS] != 2000 && gives_logits(v)) {
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
    const double calls = (c.late == 2 ? 2 : c.late == 3 ? 5 : 1) * (c.ranks ? c.ranks : 1);
    // Someone may launch a kernel for each row, which costs the layer the more the larger the cache is, with a block for
    // each processor. Those of five calls at a time change places, which takes as long again many times.
    const double rows_out = decode ? (double)s->batch * s->q_heads * s->q_len : 0;
    const double out = rows_out / (c.pages ? 0.4 : 2) * fmax(1, c.processors / 33.0) * (c.late == 3 ? 30 : calls);
    return cache + out + heads * (1 + rows * keys * (s->head_dim / 16 + 2)) * calls;
}

// What makes a case dear, whatever else it is: many sequences, more than a byte counts, many heads, many pages. Few are
// enough, of each.
enum { NOT_DEAR, DEAR_BATCH, DEAR_BATCHES, DEAR_HEADS, DEAR_PAGES, DEAR_KINDS };
enum { MANY = 200, FEW_DEAR = 3 };

static int dear(const wb_cover_row *row)
{
    const int *v = row->value;
    const int heads = v[KV_HEADS] * (v[GROUP] ? v[GROUP] : 1);
    return v[PAGES]                   ? DEAR_PAGES
           : v[BATCH] > 256           ? DEAR_BATCHES
           : v[BATCH] >= MANY         ? DEAR_BATCH
           : v[BATCH] * heads >= MANY ? DEAR_HEADS
                                      : NOT_DEAR;
}

// How much more there may be: work of a case, and dear cases of each kind.
typedef struct budget {
    double most;
    int more[DEAR_KINDS];
} budget;

static bool fits(const wb_problem *p, const wb_cover_row *row, const budget *b)
{
    return work_of(p, row) <= b->most && b->more[dear(row)] > 0;
}

// Whether a case that has not its simplest value runs in a process of its own.
static bool alone(int d) { return d == LATE || d == ORDER || d == PROCESSORS; }

// Whether the case would be another with another class of this dimension.
static bool counts(const wb_problem *p, const wb_cover_row *row, int d)
{
    const int *v = row->value;
    return d == KEYS       ? !v[CAUSAL] && !tied(v)
           : d == GROUP    ? !tied(v)
           : d == MASKS    ? v[BATCH] > 1
           : d == NAN_HEAD ? v[BATCH] * v[KV_HEADS] > 1
           : d == SCALE    ? !is_beyond(p, v)
           : d == LOGITS   ? gives_logits(v)
                           : true;
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

// Gives it a value of this class; whether the case is cheap enough then. What the source names may be too dear.
static bool give(const wb_problem *p, wb_cover_row *row, const budget *b, int d, int class, int before, uint64_t *dice)
{
    const int any = any_or_same(dice, span_of(p, d, class), before);
    row->value[d] = near_named(p, d, class, *dice, any);
    if (!fits(p, row, b)) row->value[d] = any;
    return fits(p, row, b);
}

// Gives each dimension that has none yet, classes[d] < 0, the class of which most pairs are new, in an order of chance.
// What is not chosen yet counts as its simplest, which costs least.
static void complete(const wb_problem *p, const pairs *seen, const budget *b, int classes[LAST], wb_cover_row *row,
                     const wb_cover_row *before, uint64_t *dice)
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
            const int simplest = row->value[d];
            if (give(p, row, b, d, class, before->value[d], dice) && found > best)
                best = found, chosen = row->value[d], classes[d] = class;
            row->value[d] = simplest;
        }
        row->value[d] = chosen;
    }
}

// How many pairs of a row are new; `noted`: from here on they have met.
static int meet(const wb_problem *p, pairs *seen, const int classes[LAST], const wb_cover_row *row, bool noted)
{
    int found = 0;
    for (int d = 0; d < LAST; d++)
        for (int e = 0; e < LAST; e++) {
            if (classes[d] < 0 || classes[e] < 0 || !counts(p, row, d) || !counts(p, row, e)) continue;
            found += !seen->met[d][classes[d]][e][classes[e]];
            if (noted) seen->met[d][classes[d]][e][classes[e]] = true;
        }
    return found;
}

// The best of some.
static void complete_best(const wb_problem *p, pairs *seen, const budget *b, int classes[LAST], wb_cover_row *row,
                          const wb_cover_row *before, uint64_t *dice)
{
    enum { SOME = 12 };
    const wb_cover_row begun = *row;
    int best = -1, taken[LAST];
    for (int n = 0; n < SOME; n++) {
        wb_cover_row one = begun;
        int its[LAST];
        memcpy(its, classes, sizeof its);
        complete(p, seen, b, its, &one, before, dice);
        const int found = meet(p, seen, its, &one, false);
        if (found > best) best = found, *row = one, memcpy(taken, its, sizeof taken);
    }
    memcpy(classes, taken, sizeof taken);
}

// What the simplest case has of each dimension.
static int *simple(const wb_problem *p, wb_cover_row *row, uint64_t *dice)
{
    for (int d = 0; d < LAST; d++) row->value[d] = has(p, d) ? any_of(dice, table[d].spans[0]) : 0;
    return row->value;
}

// A class that no case has, since it is too dear beside another or the dice left it out, has one of its own.
static int rows_left_out(const wb_problem *p, uint64_t *dice, wb_cover_row rows[], int count)
{
    for (int d = 0; d < LAST; d++)
        for (int k = 0; k < classes_of(p, d); k++) {
            const span s = d == HEAD_DIM ? (span){k, k} : span_of(p, d, k);
            bool is_there = count == WB_COVERING;
            for (int n = 0; n < count; n++)
                is_there |= rows[n].value[d] >= s.from && rows[n].value[d] <= s.to && counts(p, &rows[n], d);
            if (!is_there) simple(p, &rows[count], dice)[d] = any_of(dice, s);
            if (!is_there && has(p, ORDER) && d != ORDER) rows[count].value[ORDER] = any_of(dice, (span){0, 2});
            count += !is_there && counts(p, &rows[count], d);
        }
    return count;
}

// Lengths from 2^11 to a little beyond 2^16 are asked for octave by octave, of the dear ones where they begin.
enum { FIRST_OCTAVE = 11, LAST_OCTAVE = 16 };
static span octave(int n) { return (span){1 << n, n < 14 ? 2 << n : n == LAST_OCTAVE ? 66600 : 5 << (n - 2)}; }

// Long cases that run whole, of a causal one as well where it is optional; of the rest little. One of each length;
// where that is cheap, one for each octave: of columns, of keys for few queries, on the host of queries for few keys,
// and of a cache, whose longest has more keys than 17 bits count.
static int long_rows(const wb_problem *p, int longest, uint64_t *dice, wb_cover_row rows[], int room)
{
    static const struct {
        int length, causal;
    } cases[] = {{BATCH, 0},   {WINDOW, 0}, {SINKS, 0},  {ROWS, 0},       {COLUMNS, 0},   {QUERIES, 0},
                 {QUERIES, 1}, {KEYS, 0},   {CACHED, 0}, {SHARED_OUT, 0}, {SHARED_OUT, 1}};
    static const struct {
        int d;
        span values;
    } others[] = {{ROWS, {2, 12}}, {COLUMNS, {2, 12}},  {QUERIES, {5, 20}},  {KEYS, {20, 70}}, {NEW_TOKENS, {1, 4}},
                  {GROUP, {2, 2}}, {WINDOW, {20, 150}}, {SINKS, {257, 400}}, {RANKS, {2, 4}},  {PROCESSORS, {8, 99}}};
    const int dims = classes_of(p, HEAD_DIM);
    const bool back = p->signature == WB_BACKWARD, dear = has(p, RANKS) || (has(p, CAUSAL) && !p->on_host);
    const int of_parts = any_of(dice, (span){0, 1});
    int count = 0;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const int length = cases[n].length, causal = cases[n].causal;
        const bool cached = length == CACHED, wide = length == WINDOW || length == SINKS, many = length == BATCH;
        const bool climbs =
            cached || length == COLUMNS || length == KEYS || (p->on_host && length == QUERIES && !causal);
        const int last = climbs ? LAST_OCTAVE + (cached || p->signature == WB_BLOCK_MASK) : FIRST_OCTAVE;
        if (!has(p, length) || (causal && !has(p, CAUSAL)) || (many && dear)) continue;
        for (int step = FIRST_OCTAVE; step <= last && count < room; step++) {
            int *const value = simple(p, &rows[count++], dice);
            for (size_t k = 0; k < sizeof others / sizeof *others; k++)
                if (has(p, others[k].d) && !(others[k].d == GROUP && climbs && !cached))
                    value[others[k].d] = any_of(dice, others[k].values);
            if (dims) value[HEAD_DIM] = any_of(dice, (span){0, (dims - 2) / 2});  // the smaller half
            if (p->window && !wide && !back) value[BATCH] = any_of(dice, table[BATCH].spans[1]);
            if (p->window && !wide && back) value[WINDOW] = any_of(dice, (span){5, 55});  // many parts
            if (wide) value[QUERIES] = any_of(dice, (span){1700, 2000});
            if (wide && p->sinks) value[SINKS] = any_of(dice, (span){1, 9});
            value[CAUSAL] = causal;
            if (length == QUERIES && p->grouped && !back && !has(p, KEYS)) value[GROUP] = 4;
            if (many && has(p, CACHED))
                value[NEW_TOKENS] = value[ROOM] = 1, value[CACHED] = any_of(dice, (span){1, 20});
            if (many && has(p, MASKS)) value[MASKS] = 1, value[MASK] = WB_MASK_RANDOM;
            if (many && dims) value[HEAD_DIM] = 0;
            if (many && !has(p, CACHED)) value[GROUP] = 1;
            const bool sparse = length == SHARED_OUT && causal;
            if (sparse)
                value[GROUP] = 1, value[INPUT] = WB_SPARSE,
                value[RANKS] = wb_is_backward(p) ? 1 : any_of(dice, (span){1, 2});
            value[length] = any_of(dice, step > LAST_OCTAVE       ? (span){131073, 140000}
                                         : climbs                 ? octave(step)
                                         : wide                   ? (span){1025, 1300}
                                         : many && has(p, CACHED) ? (span){4097, 4400}
                                         : many                   ? (span){2049, 2300}
                                         : p->window && back      ? (span){4100, 5000}
                                         : sparse                 ? (span){8200 * value[RANKS], 9000 * value[RANKS]}
                                                                  : (span){longest, longest + longest / 2});
            if (step >= LAST_OCTAVE && (cached || length == KEYS)) value[INPUT] = WB_RISING;  // the last keys count
            if (step == LAST_OCTAVE && has(p, LEVELS))
                value[INPUT] = WB_MEAN_ONE, value[LEVELS] = 2, value[length] += 1 << 15;
            if (length == KEYS && has(p, MASK) && (step + of_parts) % 2) value[MASK] = WB_MASK_STRIDED;
            if (step > LAST_OCTAVE) value[PROCESSORS] = any_of(dice, (span){100, 200});
            if (step > LAST_OCTAVE && cached) value[PAGES] = any_of(dice, (span){262200, 264000});  // nor do 18 bits
        }
    }
    return count;
}

// Sizes beyond what the CPU layer can run whole, of a problem that one launch solves, block by block: queries of each
// octave, with as many heads as a case has room for, with few keys and with many, and with as many under a mask, of
// which a window may hide some; many heads; sinks of each octave; rows.
static int vast_rows(const wb_problem *p, uint64_t *dice, wb_cover_row rows[], int room)
{
    enum {
        TOKENS = FIRST_OCTAVE,
        QUERIES_ALONE = LAST_OCTAVE + 1,
        HEADS = 2 * QUERIES_ALONE - TOKENS,
        NARROW,
        SINKING,
        KINDS = SINKING + 5
    };
    const bool sum = p->signature == WB_ROW_SUM, masked = p->mask == WB_CAUSAL || p->mask == WB_CAUSAL_OPTIONAL;
    const bool back = p->signature == WB_BACKWARD;
    const bool runs = back || p->signature == WB_FORWARD || p->signature == WB_FP8 || p->signature == WB_BLOCK_MASK;
    const int turn = any_of(dice, (span){0, 1});
    int count = 0;
    for (int kind = TOKENS; kind < KINDS && (sum || runs) && !p->on_host && count < room; kind++) {
        const bool tokens = kind < QUERIES_ALONE, queries = !tokens && kind < HEADS;
        // Of 10 and 16, and of 08, the longest take seconds; and of 10 and 16 very many heads are one block's.
        const bool dear = has(p, CAUSAL) || (back && !p->window);
        if ((tokens && (!masked || (dear && kind == LAST_OCTAVE))) || (queries && !has(p, KEYS)) ||
            (kind >= HEADS && back) || (kind == HEADS && has(p, CAUSAL)) || (kind > HEADS && !p->window) ||
            (kind >= SINKING && !p->sinks))
            continue;
        int *const value = simple(p, &rows[count], dice);
        rows[count++].vast = 1;
        if (sum) value[ROWS] = any_of(dice, (span){270000, 300000}), value[COLUMNS] = any_of(dice, (span){2, 12});
        if (sum) continue;
        if (kind == HEADS) value[BATCH] = any_of(dice, (span){0, 1}) ? 2 : any_of(dice, (span){513, 700});
        if (p->grouped) value[GROUP] = kind == LAST_OCTAVE - 1 || kind == LAST_OCTAVE ? 1 : 2;
        if (kind == HEADS)
            value[KV_HEADS] = any_of(dice, (span){66000, 70000}) / value[BATCH] / (p->grouped ? 2 : 1) + 1;
        int N = any_of(dice, tokens          ? octave(kind)
                             : queries       ? octave(kind - QUERIES_ALONE + TOKENS)
                             : kind == HEADS ? (span){1, 3}
                                             : (span){16400, 20000});
        if (tokens && any_of(dice, (span){0, 2}) == 0) N -= N % (1 << (kind - 1));
        value[QUERIES] = N;
        const span keys = kind == HEADS ? (span){N, N} : kind % 2 ? (span){4100, 9000} : (span){20, 70};
        if (has(p, KEYS)) value[KEYS] = any_of(dice, has(p, CAUSAL) && kind != HEADS ? (span){20, 70} : keys);
        value[CAUSAL] = tokens && has(p, CAUSAL);
        // Where the last keys count, and where all do; sizes that are round, which they often are.
        if (tokens) value[INPUT] = back ? WB_SPARSE : (kind + turn) % 2 ? WB_RISING : WB_NORMAL;
        if (tokens) value[BATCH] = any_of(dice, (span){1, 2});
        if (tokens && kind < 14) value[HEAD_DIM] = any_of(dice, (span){0, classes_of(p, HEAD_DIM) - 1});
        const int most = 1 + (1 << (queries ? 19 : 21)) / N / p->head_dims[value[HEAD_DIM]] / value[BATCH];  // heads
        if (kind < HEADS && !back && p->grouped) value[GROUP] = any_of(dice, (span){1, most});
        if (kind < HEADS && !back) value[KV_HEADS] = 1 + (most - 1) / (p->grouped ? value[GROUP] : 1);
        if (kind < HEADS) value[PROCESSORS] = any_of(dice, (span){1, 40});
        if (has(p, LEVELS)) value[LEVELS] = any_of(dice, (span){1, 2});
        if (p->window) value[WINDOW] = any_of(dice, tokens ? (span){N / 8, N / 2} : (span){20, 150});
        if (p->sinks && !back) value[SINKS] = any_of(dice, kind < SINKING ? (span){1, 9} : octave(9 + kind - SINKING));
    }
    return count;
}

// Two sizes of which a grid may not have the product in y or z: tiles by heads, by sequences; heads by sequences. That
// no block runs makes it cheap.
static int launched_rows(const wb_problem *p, uint64_t *dice, wb_cover_row rows[], int room)
{
    const bool decode = p->signature == WB_DECODE, none = p->signature == WB_ROW_SUM || p->on_host || wb_has_ranks(p);
    static const span queries[] = {{129, 140}, {129, 140}, {1, 3}};
    int count = 0;
    for (int kind = decode ? 2 : 0; kind < 3 && !none && count < room; kind++) {
        int *const value = simple(p, &rows[count], dice), many = any_of(dice, (span){33000, 34000});
        rows[count++].vast = 2;
        if (kind % 3) value[BATCH] = kind == 1 ? many : any_of(dice, (span){3, 9});
        value[p->grouped && kind % 2 == 0 ? GROUP : KV_HEADS] = kind % 2 ? 1 : many;
        if (!decode) value[QUERIES] = any_of(dice, queries[kind]);
    }
    return count;
}

int wb_cover(const wb_problem *p, uint64_t seed, double most, int longest, wb_cover_row rows[WB_COVERING])
{
    static pairs seen;
    static wb_cover_row before;  // the last case of several in one process
    budget left = {most, {INT_MAX, FEW_DEAR, FEW_DEAR, FEW_DEAR, FEW_DEAR}};
    uint64_t dice = mix(seed);
    int count = 0;
    memset(&seen, 0, sizeof seen), memset(&before, 0, sizeof before);
    for (int a = 0; a < LAST; a++)
        for (int i = 0; i < classes_of(p, a); i++)
            for (int b = a + 1; b < LAST; b++)
                for (int j = 0; j < classes_of(p, b); j++) {
                    if (seen.met[a][i][b][j] || count == WB_COVERING) continue;
                    int classes[LAST];
                    wb_cover_row *row = &rows[count];
                    for (int d = 0; d < LAST; d++)
                        classes[d] = -1, row->value[d] = has(p, d) ? any_of(&dice, table[d].spans[0]) : 0;
                    give(p, row, &left, a, classes[a] = i, INT_MIN, &dice);
                    const bool both = give(p, row, &left, b, classes[b] = j, INT_MIN, &dice);
                    // What costs much, or makes others say nothing, is in some of the cases: a process of its own in
                    // half of them, pages and one tensor in a third.
                    for (int d = 0; d < LAST; d++)
                        if (has(p, d) && classes[d] < 0 &&
                            ((d == CAUSAL && (a == KEYS || b == KEYS)) ||
                             ((d == PAGES || d == ONE_TENSOR || d == ONE_BUFFER) && count % 3) ||
                             (alone(d) && count % 2)))
                            classes[d] = 0;
                    if (!both || !counts(p, row, a) || !counts(p, row, b)) continue;
                    complete_best(p, &seen, &left, classes, row, &before, &dice);
                    meet(p, &seen, classes, row, true);
                    left.more[dear(row)]--;
                    if (count++ % 2) before = *row;
                }
    for (int n = 0; n < WB_COVERING; n++) rows[n].vast = 0;
    count = rows_left_out(p, &dice, rows, count);
    count += long_rows(p, longest, &dice, rows + count, WB_COVERING - count);
    count += vast_rows(p, &dice, rows + count, WB_COVERING - count);
    return count + launched_rows(p, &dice, rows + count, WB_COVERING - count);
}

bool wb_cover_simpler(const wb_problem *p, wb_cover_row *row, int d)
{
    if (d >= LAST || !has(p, d) || row->value[d] == table[d].spans[0].from) return false;
    if (d == INPUT && row->value[d] == WB_SPARSE) return false;  // its lengths take minutes with another
    row->value[d] = table[d].spans[0].from;
    return true;
}

// A number of a class in words: a name where it has one.
static const char *word(dimension d, int value, char number[16])
{
    snprintf(number, 16, "%d", value);
    return d == INPUT              ? wb_input_name((wb_input)value)
           : d == MASK             ? wb_mask_names[value]
           : d == LENS             ? wb_lens_name((wb_lens)value)
           : value == INT_MIN      ? "INT_MIN"
           : value >= INT_MAX - 20 ? value == INT_MAX ? "INT_MAX" : "INT_MAX - 20"
                                   : number;
}

const char *wb_cover_words(const wb_problem *p, int d, char text[WB_COVER_WORDS])
{
    size_t used = 0;
    *text = 0;
    if (d >= LAST) return NULL;
    for (int k = 0; k < classes_of(p, d); k++) {
        const bool is_named = d == INPUT || d == MASK || d == LENS;
        span s = span_of(p, d, k);
        if (d == HEAD_DIM) s.from = s.to = p->head_dims[k];
        for (int value = s.from;; value = is_named ? value + 1 : s.to) {
            char number[16];
            const char *between = value > s.from ? is_named ? ", " : " to " : k ? "; " : "";
            used += (size_t)snprintf(text + used, WB_COVER_WORDS - used, "%s%s", between, word(d, value, number));
            if (used >= WB_COVER_WORDS) abort();
            if (value == s.to) break;
        }
    }
    return table[d].means;
}
