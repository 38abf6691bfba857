// bench_shapes.c - which shapes are measured, and how they are called.
#include "bench.h"

#include <ctype.h>

enum { SEED = 7 };

// Which problems a row is of, a letter each: s sums of rows, h on the host, d decoding, m masks as data; forward f, g
// with grouped heads, w and a window, S and sinks, l and a sink logit; o with or without a mask, e and head dimension
// 256; backward b, W with a window, L and a sink logit.
static char kind_of(const wb_problem *p)
{
    switch (p->signature) {
    case WB_ROW_SUM: return 's';
    case WB_DECODE: return 'd';
    case WB_BLOCK_MASK: return 'm';
    case WB_BACKWARD: return !p->window ? 'b' : p->sink_logits ? 'L' : 'W';
    default:
        return p->on_host                      ? 'h'
               : p->mask == WB_CAUSAL_OPTIONAL ? wb_head_dim(p, 256) == 256 ? 'e' : 'o'
               : p->window                     ? p->sink_logits ? 'l'
                                                 : p->sinks     ? 'S'
                                                                : 'w'
               : p->grouped                    ? 'g'
                                               : 'f';
    }
}

// A row: of which kinds; where: c charts where times mean something, r recorded there as well, n where they mean
// nothing, d and e the shape of make demo in these two places, M the main one; and the shapes, as wb_case_fit takes
// them. Values may be several, 128|64, or 256..4096, twice as large each time, or *4: the first field changes slowest.
// One may be reckoned from a field before it: 16384/Nq.
static const struct {
    const char *kinds, *where, *shapes;
} rows[] = {
    {"s", "c", "rows=256..16384,cols=rows"},
    {"s", "n", "rows=128..2048,cols=rows"},
    {"s", "c", "rows=200000,cols=1001"},  // rows that start anywhere
    {"s", "e", "rows=512,cols=1024"},
    {"s", "c", "rows=512,cols=1024"},  // the original assignment's, as are those below
    {"s", "c", "rows=1024,cols=4096"},
    {"s", "c", "rows=2048,cols=8192"},
    {"s", "cd", "rows=4096,cols=8192"},
    {"s", "M", "rows=16384,cols=16384"},

    {"h", "c", "Hq=8,Nq=256..4096,D=64"},
    {"h", "c", "Hq=1,Nq=256..8192,D=64"},  // one head: its score matrix is most of it
    {"h", "r", "Hq=8,Nq=4096,D=64,causal=1"},
    {"h", "r", "Hq=8,Nq=512|1024,D=16"},  // the original assignment's
    {"h", "r", "Hq=16,Nq=2048,D=16"},
    {"h", "r", "Hq=16,Nq=4096,D=16,causal=1"},
    {"h", "d", "Hq=8,Nq=2048,D=64"},
    {"h", "M", "Hq=8,Nq=4096,D=64"},

    {"d", "c", "B=32,Hq=64,Hkv=8,Nq=1,Nk=512..16384,D=128,page=64"},
    {"d", "c", "B=1,Hq=64,Hkv=8,Nq=1,Nk=8192..131072*4,D=128,page=64"},
    {"d", "c", "B=64,Hq=64,Hkv=8,Nq=1,Nk=32768,D=128,page=64,lens=zipf"},
    {"d", "c", "B=32,Hq=64,Hkv=8,Nq=4,Nk=8192,D=128,page=64"},  // drafted tokens: two tiles of rows
    {"d", "c", "B=32,Hq=64,Hkv=8,Nq=1,Nk=8192,D=64,page=64"},
    {"d", "c", "B=32,Hq=64,Hkv=8,Nq=1,Nk=8192,D=128,page=16|256"},
    {"d", "n", "B=4,Hq=8,Hkv=2,Nq=1,Nk=128..2048,D=64,page=64"},
    {"d", "d", "B=8,Hq=64,Hkv=8,Nq=1,Nk=8192,D=128,page=64"},
    {"d", "e", "B=2,Hq=8,Hkv=2,Nq=1,Nk=1024,D=64,page=64"},
    {"d", "M", "B=32,Hq=64,Hkv=8,Nq=1,Nk=8192,D=128,page=64"},

    {"m", "n", "Hq=2,Hkv=1,Nq=128..2048,D=16,mask=documents/64"},
    {"m", "c", "B=4,Hq=16,Nq=1024..16384,D=128,mask=documents/1024,masks=B"},  // each sequence has its own
    {"m", "c", "B=4,Hq=16,Nq=8192,D=128,mask=documents/1024,masks=B,q_tile=64"},
    {"m", "c", "q_tile=64|128,B=4,Hq=16,Nq=8192,D=128,mask=documents/128,masks=B"},
    {"m", "c", "q_tile=64|128,B=4,Hq=16,Nq=8256|64,Nk=8256,D=128,mask=tree/64,masks=B"},  // 64 drafts behind a prompt
    {"m", "c", "q_tile=64|128,Hq=64,Hkv=8,Nq=4096..16384*4,D=64,mask=window/128"},        // that of 06
    {"m", "c", "B=4,Hq=16,Nq=8192,D=128,mask=prefix/2048|strided/512,masks=B"},
    {"m", "c", "D=128|64,Nq=1024..16384*4,B=16384/Nq,Hq=2048/D,mask=causal/1,masks=B"},  // those of 04
    {"m", "c", "Hq=16,Hkv=2,Nq=256..16384,D=16,mask=documents/64"},
    {"m", "d", "Hq=16,Hkv=2,Nq=4096,D=16,mask=documents/512"},
    {"m", "e", "Hq=2,Hkv=1,Nq=1024,D=64,mask=documents/128"},
    {"m", "M", "B=4,Hq=16,Nq=8192,D=128,mask=documents/1024,masks=B"},

    {"b", "n", "Hq=2,Hkv=1,Nq=128..1024,D=64"},  // a backward takes the emulator thrice as long
    {"WL", "n", "Hq=2,Hkv=1,Nq=128..1024,D=16,W=64,sinks=4"},
    {"fgwSloe", "n", "Hq=2,Hkv=1,Nq=128..2048,D=16,W=64,sinks=4"},
    {"fgwSloebWL", "e", "Hq=2,Hkv=1,Nq=1024,D=64,W=64,sinks=4"},

    {"wSlWL", "c", "Hq=64,Hkv=8,Nq=1024..65536,D=64,W=128,sinks=4"},  // a layer of gpt-oss; of two one has no window
    {"lL", "c", "Hq=64,Hkv=8,Nq=1024..65536*4,D=64,W=Nq"},
    {"wSlWL", "M", "Hq=64,Hkv=8,Nq=65536,D=64,W=128,sinks=4"},
    {"fg", "c", "D=128|64,Nq=256..16384,B=16384/Nq,Hq=2048/D,Hkv=256/D"},  // 16k tokens of a model 2048 wide
    {"b", "c", "D=128|64,Nq=256..16384,B=16384/Nq,Hq=2048/D"},
    {"gb", "c", "D=128|64,B=2,Hq=64,Hkv=8,Nq=4096"},
    {"gb", "M", "D=128,B=2,Hq=64,Hkv=8,Nq=4096"},
    {"f", "M", "D=128,B=4,Hq=16,Nq=4096"},
    {"fgwS", "c", "Hq=16,Hkv=2,Nq=256..16384,D=16,W=128,sinks=8"},  // 2048 and 4096 are the original's
    {"fgw", "c", "Hq=8,Hkv=2,Nq=512|1024,D=16,W=128"},              // as are these
    {"S", "c", "Hq=8,Hkv=2,Nq=512|1024,D=32,W=128,sinks=8"},
    {"fgwSloe", "d", "Hq=16,Hkv=2,Nq=4096,D=16,W=128,sinks=8"},
    {"b", "c", "Hq=16,Hkv=8,Nq=256..16384,D=64"},                  // memory against N
    {"bWL", "c", "Hq=16,Hkv=8,Nq=256..16384,D=16,W=256,sinks=4"},  // 4096: the original's
    {"bWL", "d", "Hq=16,Hkv=8,Nq=4096,D=16,W=256,sinks=4"},
    {"bWL", "c", "Hq=16,Hkv=16|1,Nq=4096,D=16,W=256,sinks=4"},

    {"oe", "c", "D=128|64,Nq=1024..16384*4,causal=0|1,B=16384/Nq,Hq=2048/D"},
    {"oe", "c", "D=128|64,B=2,Hq=64,Hkv=8,Nq=4096,causal=1"},
    {"oe", "M", "D=128,B=2,Hq=64,Hkv=8,Nq=4096,causal=1"},
    {"oe", "c", "Hq=16,Hkv=2,Nq=256..16384,D=64,causal=1"},
    {"e", "c", "D=256,Nq=4096..16384*4,causal=0|1,B=16384/Nq,Hq=8"},  // as many tokens and as wide
    {"e", "c", "D=256,B=2,Hq=32,Hkv=4,Nq=4096,causal=1"},
};

typedef struct list {
    const wb_problem *problem;
    wb_case *cases;
    int count;
} list;

static void add(list *o, const char *text)
{
    wb_case c;
    bench_must(wb_case_fit(o->problem, text, &c));
    c.seed = SEED;
    if (o->count < BENCH_MAX_CASES) o->cases[o->count++] = c;
}

// Adds the shapes of a row that begin with the fields `done`, of which the rest is yet to come.
static void expand(list *o, const char *done, const char *rest)
{
    if (!*rest) return add(o, done);
    const int name = (int)strcspn(rest, "="), end = (int)strcspn(rest, ",");
    for (const char *value = rest + name + 1; value <= rest + end; value += strcspn(value, "|,") + 1) {
        char *behind, text[WB_CASE_TEXT], of[16];
        long number = strtol(value, &behind, 10), last = number, step = 2;
        const int length = (int)strcspn(value, "|,");
        const bool divides = behind > value && *behind == '/';
        snprintf(of, sizeof of, "%.*s=", length - (int)(behind - value) - divides, behind + divides);
        const char *const known = *of == '=' || (!divides && behind > value) ? NULL : strstr(done, of);
        if (known) number = last = divides ? number / atol(known + strlen(of)) : atol(known + strlen(of));
        if (strncmp(behind, "..", 2) == 0) last = strtol(behind + 2, &behind, 10);
        if (*behind == '*') step = atol(behind + 1);
        for (; number <= last; number = number ? number * step : 1) {
            snprintf(text, sizeof text, "%s%s%.*s=", done, *done ? "," : "", name, rest);
            const size_t used = strlen(text);
            if (known || isdigit((unsigned char)*value))
                snprintf(text + used, sizeof text - used, "%ld", number);
            else
                snprintf(text + used, sizeof text - used, "%.*s", length, value);
            expand(o, text, rest + end + (rest[end] == ','));
        }
    }
}

static int shapes_of(const wb_problem *problem, const char *where, wb_case *cases)
{
    list l = {problem, cases, 0};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strchr(rows[k].kinds, kind_of(problem)) && strpbrk(rows[k].where, where)) expand(&l, "", rows[k].shapes);
    return l.count;
}

int bench_sweep_shapes(const wb_problem *problem, bool timed, bool drawn, wb_case cases[BENCH_MAX_CASES])
{
    return shapes_of(problem, !timed ? "n" : drawn ? "c" : "cr", cases);
}

static wb_case one_of(const wb_problem *problem, const char *where)
{
    wb_case cases[BENCH_MAX_CASES];
    return shapes_of(problem, where, cases) ? cases[0] : (wb_case){0};
}

wb_case bench_demo_shape(const wb_problem *problem, bool timed) { return one_of(problem, timed ? "d" : "e"); }
wb_case bench_main_shape(const wb_problem *problem) { return one_of(problem, "M"); }

void bench_shape_text(const wb_problem *problem, const wb_case *c, char *text, size_t size)
{
    const attention_shape *s = &c->shape;
    if (problem->signature == WB_ROW_SUM) {
        snprintf(text, size, "%d x %d", c->rows, c->cols);
        return;
    }
    if (problem->signature == WB_DECODE) {
        snprintf(text, size, "B%d H%d/%d N%d/%d D%d page %d%s%s", s->batch, s->q_heads, s->kv_heads, s->q_len,
                 s->kv_len, s->head_dim, c->page, c->lens ? " " : "", c->lens ? wb_lens_name(c->lens) : "");
        return;
    }
    char heads[24], keys[24] = "", window[24] = "", sinks[24] = "", mask[64] = "";
    snprintf(heads, sizeof heads, s->q_heads == s->kv_heads ? "H%d" : "H%d/%d", s->q_heads, s->kv_heads);
    if (s->kv_len != s->q_len) snprintf(keys, sizeof keys, "/%d", s->kv_len);
    if (problem->window) snprintf(window, sizeof window, " W%d", s->window);
    if (problem->signature == WB_BLOCK_MASK)
        snprintf(mask, sizeof mask, " %s/%d, tiles of %d x %d", wb_mask_names[c->mask], c->mask_size, c->q_tile,
                 c->kv_tile);
    if (problem->sinks) snprintf(sinks, sizeof sinks, " S%d", s->sinks);
    snprintf(text, size, "B%d %s N%d%s D%d%s%s%s%s", s->batch, heads, s->q_len, keys, s->head_dim, window, sinks, mask,
             s->causal && !problem->window ? " causal" : "");
}
