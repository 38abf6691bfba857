#include "case/case.h"

#include <limits.h>
#include <stdio.h>

enum { MOST_CLASSES = 12 };

// Any of these numbers.
typedef struct class
{
    int from, to;
} class;

// Where the numbers of a case come from: each that is taken is another dimension.
typedef struct source {
    uint64_t seed;
    int n, dimension;
} source;

// One of the classes: in `count` cases that follow each other, in blocks of `count`, each once.
static int any_class(source *s, int count)
{
    int order[MOST_CLASSES];
    uint64_t dice = mix(s->seed + mix((uint64_t)(++s->dimension * 1000 + s->n / count)));
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        dice = mix(dice);
        const int other = (int)(dice % (uint64_t)(i + 1)), was = order[i];
        order[i] = order[other], order[other] = was;
    }
    return order[s->n % count];
}

static int any_of(source *s, const class *classes, size_t count)
{
    const class c = classes[any_class(s, (int)count)];
    const uint64_t dice = mix(mix(s->seed) + (uint64_t)(s->n * 100 + s->dimension));
    return c.from + (int)(dice % (uint64_t)((int64_t)c.to - c.from + 1));
}
#define ANY(s, ...) any_of(s, (const class[]){__VA_ARGS__}, sizeof(const class[]){__VA_ARGS__} / sizeof(class))

// The lengths that matter: fragments of 8 and 16, tiles of 32 to 128, and several of those.
#define LENGTHS \
    {1, 1}, {2, 14}, {15, 33}, {62, 66}, {126, 130}, { 131, 400 }

// Multiplications of both products, whole tiles of 16 x 16, as the CPU layer has them.
static double work_of(const wb_problem *p, const wb_case *c)
{
    const attention_shape *s = &c->shape;
    const int packed = p->signature == WB_DECODE ? s->q_heads / s->kv_heads : 1;
    const double rows = (packed * s->q_len + 15) / 16 * 16.0, keys = (s->kv_len + 15) / 16 * 16.0;
    return 2.0 * s->batch * s->q_heads / packed * rows * keys * s->head_dim;
}

static void make_smaller(const wb_problem *p, wb_case *c, double most)
{
    attention_shape *s = &c->shape;
    const bool square = s->causal || c->ranks;
    while (work_of(p, c) > most) {
        const int group = s->q_heads / s->kv_heads;
        if (s->batch > 2)
            s->batch /= 2;
        else if (s->kv_heads > 2)
            s->q_heads = (s->kv_heads /= 2) * group;
        else if (group > 4)
            s->q_heads = s->kv_heads * (group / 2);
        else if (s->batch > 1)
            s->batch = 1;
        else if (s->kv_heads > 1)
            s->q_heads = (s->kv_heads = 1) * group;
        else if (s->kv_len > 20 && s->kv_len >= s->q_len)
            s->kv_len -= s->kv_len / 3, s->q_len = square ? s->kv_len : s->q_len;
        else if (s->q_len > 20)
            s->q_len -= s->q_len / 3;
        else
            break;
    }
}

// Inputs of any problem, and those of eight bits.
static wb_input any_input(const wb_problem *p, source *s)
{
    static const class inputs[] = {{WB_NORMAL, WB_NORMAL},  {WB_HUGE, WB_TINY},           {WB_EARLY_MAX, WB_LATE_MAX},
                                   {WB_STAIRS, WB_BY_HEAD}, {WB_FLAT, WB_ZERO_V},         {WB_TOWER, WB_TOWER},
                                   {WB_ABYSS, WB_ABYSS},    {WB_ZERO_ROWS, WB_ZERO_ROWS}, {WB_OUTLIERS, WB_ANY_BYTES}};
    const bool bits8 = p->signature == WB_FP8 || p->int8_cache;
    return (wb_input)any_of(s, inputs, bits8 ? 9 : 7);
}

wb_case wb_random_case(const wb_problem *p, uint64_t seed, int n, double most)
{
    source from = {.seed = seed, .n = n}, *const s = &from;
    wb_case c = {.seed = seed + (uint64_t)n, .input = any_input(p, s)};
    attention_shape *const shape = &c.shape;
    const bool decode = p->signature == WB_DECODE, ranks = wb_has_ranks(p);

#define WB_CONDITION(name, most, ...) c.name = __VA_ARGS__;
#include "case/conditions.inc"
    if (p->signature == WB_ROW_SUM) {
        c.rows = ANY(s, {1, 1}, {2, 15}, {16, 130}, {131, 2000});
        c.cols = ANY(s, {1, 1}, {2, 31}, {32, 130}, {131, 1030}, {1031, 3000});
        if (c.rows > 130 && c.cols > 1030) c.rows = 1 + c.rows % 130;
        return wb_case_defaults(p, c);
    }
    shape->batch = ANY(s, {1, 1}, {2, 3}, {4, 9});
    shape->kv_heads = ANY(s, {1, 1}, {2, 4}, {5, 9});
    shape->q_heads = shape->kv_heads * (p->grouped ? ANY(s, {1, 1}, {2, 2}, {3, 7}, {8, 16}) : 1);
    int dims = 0;
    while (p->head_dims[dims]) dims++;
    shape->head_dim = p->head_dims[any_class(s, dims)];
    shape->causal = p->mask == WB_CAUSAL || (p->mask == WB_CAUSAL_OPTIONAL && any_class(s, 2));
    shape->q_len = decode  ? ANY(s, {1, 1}, {2, 7}, {8, 16})
                   : ranks ? ANY(s, {1, 20}, {21, 90}, {91, 160}, {161, 300})
                           : ANY(s, LENGTHS);
    shape->kv_len = shape->causal || ranks ? shape->q_len
                    : decode               ? ANY(s, {1, 1}, {2, 33}, {34, 300}, {301, 900})
                                           : ANY(s, LENGTHS);
    shape->window = p->window ? ANY(s, {1, 1}, {2, 14}, {15, 66}, {67, 140}, {INT_MAX - 20, INT_MAX}) : 0;
    shape->sinks = p->sinks ? ANY(s, {0, 0}, {1, 4}, {5, 70}, {71, 200}) : 0;
    // In eight bits a scale must not draw the errors of scores further apart.
    const int thousandths = ANY(s, {0, 0}, {0, 0}, {1, 60}, {61, 2500});
    if (!(c.input == WB_WIDE_SCALES && thousandths > 60) && !(p->signature == WB_FP8 && c.input == WB_ABYSS))
        shape->scale = (float)thousandths / 1000;
    if (p->sink_logits) {
        static const wb_logits logits[] = {WB_LOGITS_NORMAL, WB_LOGITS_MIXED, WB_LOGITS_GIVEN, WB_LOGITS_GIVEN};
        const int which = any_class(s, 4);
        c.logits = logits[which];
        c.sink_logit = which == 2 ? -INFINITY : (float)ANY(s, {-90, 90}, {-1100, -200}, {930, 1070});
    }
    if (p->signature == WB_BLOCK_MASK) {
        c.mask = (wb_mask_name)ANY(s, {WB_MASK_CAUSAL, WB_MASK_FULL}, {WB_MASK_DOCUMENTS, WB_MASK_PADDED},
                                   {WB_MASK_PREFIX, WB_MASK_WINDOW}, {WB_MASK_EMPTY, WB_MASK_EMPTY},
                                   {WB_MASK_RANDOM, WB_MASK_GAPS}, {WB_MASK_LAST, WB_MASK_LOOSE});
        c.q_tile = 64 * ANY(s, {1, 1}, {2, 2});
    }
    if (decode) {
        c.page = 1 << ANY(s, {4, 4}, {5, 6}, {7, 8});
        c.lens = (wb_lens)ANY(s, {WB_LENS_SAME, WB_LENS_SAME}, {WB_LENS_MIXED, WB_LENS_ZIPF},
                              {WB_LENS_EDGES, WB_LENS_EDGES}, {WB_LENS_EMPTY, WB_LENS_EMPTY});
        c.shared = !c.late && any_class(s, 3) == 0 && shape->batch > 2 && shape->kv_len > 3 * c.page;
    }
    if (ranks) c.ranks = ANY(s, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 8}), shape->batch = (shape->batch + 2) / 3;
    if (p->signature == WB_FP8) c.levels = 1 + any_class(s, 2);
    make_smaller(p, &c, most / (ranks ? c.ranks : 1));
    // A right kernel may merge a part of each multiprocessor for each row.
    const int parts = 1 + 16384 / (shape->batch * shape->q_heads * shape->q_len);
    if (decode && c.processors > parts) c.processors = parts;
    if (p->signature == WB_BLOCK_MASK && any_class(s, 2)) c.masks = shape->batch;
    const int heads = shape->batch * shape->kv_heads;
    if (heads > 1 && !c.shared && p->signature != WB_FP8 && !p->int8_cache && any_class(s, 3) == 0)
        c.nan_head = 1 + (int)(mix(seed + (uint64_t)n) % (uint64_t)heads);
    return wb_case_defaults(p, c);
}

bool wb_simpler_case(const wb_problem *p, wb_case *c, int step)
{
    const wb_case was = *c;
    attention_shape *s = &c->shape;
    const bool square = s->kv_len == s->q_len;
    const int group = s->kv_heads > 0 ? s->q_heads / s->kv_heads : 1;
    switch (step) {
#define WB_CONDITION(name, ...) \
    case WB_WITHOUT_##name: \
        c->name = 0; \
        break;
#include "case/conditions.inc"
    case WB_SIMPLER_SHAPE: s->batch = 1, c->masks = c->masks > 0; break;
    case WB_SIMPLER_SHAPE + 1: s->q_heads = group, s->kv_heads = 1; break;
    case WB_SIMPLER_SHAPE + 2: s->q_heads = s->kv_heads; break;
    case WB_SIMPLER_SHAPE + 3: c->input = WB_NORMAL; break;
    case WB_SIMPLER_SHAPE + 4: c->lens = WB_LENS_SAME; break;
    case WB_SIMPLER_SHAPE + 5: c->ranks = c->ranks > 2 ? 2 : c->ranks; break;
    case WB_SIMPLER_SHAPE + 6: s->sinks = 0; break;
    case WB_SIMPLER_SHAPE + 7: c->logits = WB_LOGITS_NORMAL; break;
    case WB_SIMPLER_SHAPE + 8:
        s->q_len = (s->q_len + 1) / 2, s->kv_len = square ? s->q_len : s->kv_len, c->rows = (c->rows + 1) / 2;
        break;
    case WB_SIMPLER_SHAPE + 9: s->kv_len = square ? s->kv_len : (s->kv_len + 1) / 2, c->cols = (c->cols + 1) / 2; break;
    case WB_SIMPLER_SHAPE + 10: s->head_dim = p->head_dims[0]; break;
    }
    if (p->signature == WB_ROW_SUM) c->shape = was.shape;
    return memcmp(&was, c, sizeof was) != 0;
}

// ------------------------ small cases

int wb_small_cases(const wb_problem *problem, wb_case cases[], int room)
{
    // Of sums, of decoding, of all others: of these the masks have tiles in part and whole, and rows that see nothing.
    static const char *const texts[][8] = {
        {"rows=1,cols=1", "rows=2,cols=33", "rows=5,cols=1001,offset=4", "rows=33,cols=40",
         "rows=40,cols=300,offset=8"},
        {
            "Hq=2,Hkv=1,Nq=1,Nk=1,D=16,page=16",                   // one query, one key
            "B=3,Hq=4,Hkv=2,Nq=1,Nk=700,D=64,page=64,lens=mixed",  // parts of a sequence and whole ones
            "B=9,Hq=3,Hkv=1,Nq=2,Nk=130,D=32,page=32,lens=edges",  // lengths around the ends of pages, none among them
            "Hq=8,Hkv=1,Nq=5,Nk=400,D=128,page=16",                // more than 16 packed rows; the largest head
            "B=2,Hq=2,Nq=16,Nk=90,D=16,page=256,lens=mixed",       // the most new tokens, the largest page
            "Hq=12,Hkv=1,Nq=8,Nk=1900,D=64,page=32",               // more than 64 packed rows
        },
        {
            "Hq=2,Hkv=1,Nq=256,D=64,W=100,sinks=3,mask=random",           // whole tiles
            "Hq=2,Nq=1,D=16,causal=1,W=1,mask=last,q_tile=64",            // one query, one key
            "Hq=4,Hkv=2,Nq=145,Nk=200,D=16,W=33,sinks=4,mask=documents",  // ragged on both sides
            "B=2,Hq=2,Hkv=1,Nq=70,Nk=40,D=32,causal=1,W=64,sinks=1,mask=random,masks=2,q_tile=64",  // few keys
            "Hq=2,Hkv=1,Nq=129,D=64,W=1,sinks=2,mask=padded",                   // one row more than whole tiles
            "Hq=2,Hkv=1,Nq=65,Nk=150,D=128,causal=1,W=80,mask=tree,q_tile=64",  // the largest head
            "Hq=8,Hkv=1,Nq=70,Nk=90,D=64,W=40,sinks=4,mask=documents",          // many query heads on one key head
        },
    };
    const wb_signature of = problem->signature;
    const char *const *const own = texts[of == WB_ROW_SUM ? 0 : of == WB_DECODE ? 1 : 2];
    int n = 0;
    for (; n < room && own[n] && wb_case_fit(problem, own[n], &cases[n]) == WB_OK; n++) {
        attention_shape *const s = &cases[n].shape;
        if (problem->on_host) s->kv_heads = s->q_heads *= 4;  // work for several threads
        if (!wb_has_ranks(problem)) continue;
        cases[n].ranks = 1 + n % 4;  // one to four; each touch of what travels is slow
        s->q_len = s->kv_len = (s->q_len + 2) / 3;
    }
    return n;
}

void wb_small_cases_print(const wb_problem *problem)
{
    wb_case cases[16];
    const int count = wb_small_cases(problem, cases, 16);
    for (int i = 0; i < count; i++) {
        char text[WB_CASE_TEXT];
        wb_case_print(problem, &cases[i], text);
        puts(text);
    }
}
