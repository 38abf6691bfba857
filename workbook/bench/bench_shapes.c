// bench_shapes.c - which shapes are measured, and how they are called.
#include "bench.h"

enum { SEED = 7 };

typedef struct list {
    const wb_problem *problem;
    wb_case *cases;
    int count;
} list;

static void add(list *o, wb_case c)
{
    c.seed = SEED;
    if (o->count < BENCH_MAX_CASES) o->cases[o->count++] = wb_case_defaults(o->problem, c);
}

static void add_row_sum(list *o, int rows, int cols) { add(o, (wb_case){.rows = rows, .cols = cols}); }

// Fields that a problem does not have are dropped; a head_dim that it does not support becomes its smallest.
static void add_attention(list *o, int B, int Hq, int Hkv, int N, int D, int W, int S, int causal)
{
    const wb_problem *p = o->problem;
    wb_case c = {.shape = {.batch = B, .q_heads = Hq, .kv_heads = p->grouped ? Hkv : Hq, .q_len = N, .causal = causal}};
    c.shape.head_dim = wb_head_dim(p, D);
    if (p->window) c.shape.window = W;
    if (p->sinks) c.shape.sinks = S;
    add(o, c);
}

static attention_shape shape_of(int B, int Hq, int Hkv, int Nq, int Nk, int D)
{
    return (attention_shape){.batch = B, .q_heads = Hq, .kv_heads = Hkv, .q_len = Nq, .kv_len = Nk, .head_dim = D};
}

static void add_decode(list *o, int B, int Hq, int Hkv, int Nq, int Nk, int D, int page, wb_lens lens)
{
    add(o, (wb_case){.shape = shape_of(B, Hq, Hkv, Nq, Nk, D), .page = page, .lens = lens});
}

// Under a mask as data; each sequence has its own.
static void add_masked(list *o, int B, int Hq, int Hkv, int Nq, int Nk, int D, wb_mask_name mask, int size, int q_tile)
{
    const attention_shape shape = shape_of(B, Hq, Hkv, Nq, Nk, D);
    add(o, (wb_case){.shape = shape, .mask = mask, .mask_size = size, .masks = B, .q_tile = q_tile});
}

static void add_masks(list *l, bool timed)
{
    if (!timed) {
        for (int n = 128; n <= 2048; n *= 2) add_masked(l, 1, 2, 1, n, n, 16, WB_MASK_DOCUMENTS, 64, 128);
        return;
    }
    enum { DRAFTS = 64, PROMPT = 8192 };
    for (int n = 1024; n <= 16384; n *= 2) add_masked(l, 4, 16, 16, n, n, 128, WB_MASK_DOCUMENTS, 1024, 128);
    for (int q_tile = 64; q_tile <= 128; q_tile *= 2) {
        if (q_tile == 64) add_masked(l, 4, 16, 16, PROMPT, PROMPT, 128, WB_MASK_DOCUMENTS, 1024, q_tile);
        add_masked(l, 4, 16, 16, PROMPT, PROMPT, 128, WB_MASK_DOCUMENTS, 128, q_tile);
        add_masked(l, 4, 16, 16, PROMPT + DRAFTS, PROMPT + DRAFTS, 128, WB_MASK_TREE, DRAFTS, q_tile);
        add_masked(l, 4, 16, 16, DRAFTS, PROMPT + DRAFTS, 128, WB_MASK_TREE, DRAFTS,
                   q_tile);  // the prompt is in the cache
        for (int n = 4096; n <= 16384; n *= 4)
            add_masked(l, 1, 64, 8, n, n, 64, WB_MASK_WINDOW, 128, q_tile);  // that of 06
    }
    add_masked(l, 4, 16, 16, PROMPT, PROMPT, 128, WB_MASK_PREFIX, 2048, 128);
    add_masked(l, 4, 16, 16, PROMPT, PROMPT, 128, WB_MASK_STRIDED, 512, 128);
    for (int D = 128; D >= 64; D /= 2)
        for (int n = 1024; n <= 16384; n *= 4)  // those of 04
            add_masked(l, 16384 / n, 2048 / D, 2048 / D, n, n, D, WB_MASK_CAUSAL, 1, 128);
    for (int n = 256; n <= 16384; n *= 2) add_masked(l, 1, 16, 2, n, n, 16, WB_MASK_DOCUMENTS, 64, 128);
}

// A layer of gpt-oss; of two one has no window.
static void add_gpt_oss(list *l)
{
    for (int n = 1024; n <= 65536; n *= 2) add_attention(l, 1, 64, 8, n, 64, 128, 4, 0);
    for (int n = 1024; n <= 65536 && l->problem->sink_logits; n *= 4) add_attention(l, 1, 64, 8, n, 64, n, 0, 0);
}

// 16k tokens of a model 2048 wide, with keys `kv_width` wide; and of one with 64 heads.
static void add_wide(list *l, int kv_width)
{
    for (int D = 128; D >= 64; D /= 2)
        for (int n = 256; n <= 16384; n *= 2) add_attention(l, 16384 / n, 2048 / D, kv_width / D, n, D, 0, 0, 0);
    for (int D = 128; l->problem->grouped && D >= 64; D /= 2) add_attention(l, 2, 64, 8, 4096, D, 0, 0, 0);
}

static void add_backward(list *l)
{
    if (l->problem->window) {
        add_gpt_oss(l);
    } else {
        add_wide(l, 2048);
        for (int n = 256; n <= 16384; n *= 2) add_attention(l, 1, 16, 8, n, 64, 0, 0, 0);  // memory against N
    }
    for (int n = 256; n <= 16384; n *= 2) add_attention(l, 1, 16, 8, n, 16, 256, 4, 0);  // 4096: the original's
    add_attention(l, 1, 16, 16, 4096, 16, 256, 4, 0);
    add_attention(l, 1, 16, 1, 4096, 16, 256, 4, 0);
}

int bench_sweep_shapes(const wb_problem *problem, bool timed, bool drawn, wb_case cases[BENCH_MAX_CASES])
{
    list l = {problem, cases, 0};
    if (problem->signature == WB_ROW_SUM) {
        for (int n = timed ? 256 : 128; n <= (timed ? 16384 : 2048); n *= 2) add_row_sum(&l, n, n);
        if (!timed) return l.count;
        add_row_sum(&l, 200000, 1001);  // rows that start anywhere
        const int original[][2] = {{512, 1024}, {1024, 4096}, {2048, 8192}, {4096, 8192}};
        for (int k = 0; k < 4; k++) add_row_sum(&l, original[k][0], original[k][1]);
    } else if (problem->on_host) {
        for (int n = 256; n <= 4096; n *= 2) add_attention(&l, 1, 8, 8, n, 64, 0, 0, 0);
        for (int n = 256; n <= 8192; n *= 2)
            add_attention(&l, 1, 1, 1, n, 64, 0, 0, 0);  // one head: its score matrix is most of it
        if (drawn) return l.count;
        add_attention(&l, 1, 8, 8, 4096, 64, 0, 0, 1);
        add_attention(&l, 1, 8, 8, 512, 16, 0, 0, 0);  // the original assignment's
        add_attention(&l, 1, 8, 8, 1024, 16, 0, 0, 0);
        add_attention(&l, 1, 16, 16, 2048, 16, 0, 0, 0);
        add_attention(&l, 1, 16, 16, 4096, 16, 0, 0, 1);
    } else if (problem->signature == WB_DECODE && timed) {  // 64 query heads over 8
        for (int n = 512; n <= 16384; n *= 2) add_decode(&l, 32, 64, 8, 1, n, 128, 64, WB_LENS_SAME);
        for (int n = 8192; n <= 131072; n *= 4) add_decode(&l, 1, 64, 8, 1, n, 128, 64, WB_LENS_SAME);
        add_decode(&l, 64, 64, 8, 1, 32768, 128, 64, WB_LENS_ZIPF);
        add_decode(&l, 32, 64, 8, 4, 8192, 128, 64, WB_LENS_SAME);  // drafted tokens: two tiles of rows
        add_decode(&l, 32, 64, 8, 1, 8192, 64, 64, WB_LENS_SAME);
        for (int page = 16; page <= 256; page *= 16) add_decode(&l, 32, 64, 8, 1, 8192, 128, page, WB_LENS_SAME);
    } else if (problem->signature == WB_DECODE) {
        for (int n = 128; n <= 2048; n *= 2) add_decode(&l, 4, 8, 2, 1, n, 64, 64, WB_LENS_SAME);
    } else if (problem->signature == WB_BLOCK_MASK) {
        add_masks(&l, timed);
    } else if (!timed) {
        const bool backward = problem->signature == WB_BACKWARD;  // takes the emulator thrice as long
        const int D = backward && !problem->window ? 64 : 16;
        for (int n = 128; n <= (backward ? 1024 : 2048); n *= 2) add_attention(&l, 1, 2, 1, n, D, 64, 4, 0);
    } else if (problem->signature == WB_BACKWARD) {
        add_backward(&l);
    } else if (problem->mask == WB_CAUSAL_OPTIONAL) {
        for (int D = 128; D >= 64; D /= 2)  // 16k tokens of a model 2048 wide
            for (int n = 1024; n <= 16384; n *= 4)
                for (int causal = 0; causal <= 1; causal++)
                    add_attention(&l, 16384 / n, 2048 / D, 2048 / D, n, D, 0, 0, causal);
        for (int D = 128; D >= 64; D /= 2) add_attention(&l, 2, 64, 8, 4096, D, 0, 0, 1);
        for (int n = 256; n <= 16384; n *= 2) add_attention(&l, 1, 16, 2, n, 64, 0, 0, 1);
        if (wb_head_dim(problem, 256) == 256) {  // as many tokens and as wide
            for (int n = 4096; n <= 16384; n *= 4)
                for (int causal = 0; causal <= 1; causal++) add_attention(&l, 16384 / n, 8, 8, n, 256, 0, 0, causal);
            add_attention(&l, 2, 32, 4, 4096, 256, 0, 0, 1);
        }
    } else {
        if (problem->window)
            add_gpt_oss(&l);
        else
            add_wide(&l, 256);
        if (problem->sink_logits) return l.count;
        for (int n = 256; n <= 16384; n *= 2) add_attention(&l, 1, 16, 2, n, 16, 128, 8, 0);
        const int D = problem->sinks ? 32 : 16;  // the original's, as are 2048 and 4096 above
        add_attention(&l, 1, 8, 2, 512, D, 128, 8, 0);
        add_attention(&l, 1, 8, 2, 1024, D, 128, 8, 0);
    }
    return l.count;
}

wb_case bench_demo_shape(const wb_problem *problem, bool timed)
{
    wb_case cases[BENCH_MAX_CASES];
    list l = {problem, cases, 0};
    if (problem->signature == WB_ROW_SUM)
        timed ? add_row_sum(&l, 4096, 8192) : add_row_sum(&l, 512, 1024);
    else if (problem->signature == WB_DECODE)
        timed ? add_decode(&l, 8, 64, 8, 1, 8192, 128, 64, WB_LENS_SAME)
              : add_decode(&l, 2, 8, 2, 1, 1024, 64, 64, WB_LENS_SAME);
    else if (problem->on_host)
        add_attention(&l, 1, 8, 8, 2048, 64, 0, 0, 0);
    else if (problem->signature == WB_BLOCK_MASK)
        timed ? add_masked(&l, 1, 16, 2, 4096, 4096, 16, WB_MASK_DOCUMENTS, 512, 128)
              : add_masked(&l, 1, 2, 1, 1024, 1024, 64, WB_MASK_DOCUMENTS, 128, 128);
    else if (timed && problem->signature == WB_BACKWARD)
        add_attention(&l, 1, 16, 8, 4096, 16, 256, 4, 0);
    else if (timed)
        add_attention(&l, 1, 16, 2, 4096, 16, 128, 8, 0);
    else
        add_attention(&l, 1, 2, 1, 1024, 64, 64, 4, 0);
    return cases[0];
}

wb_case bench_main_shape(const wb_problem *problem)
{
    wb_case cases[BENCH_MAX_CASES];
    list l = {problem, cases, 0};
    if (problem->signature == WB_ROW_SUM)
        add_row_sum(&l, 16384, 16384);
    else if (problem->signature == WB_DECODE)
        add_decode(&l, 32, 64, 8, 1, 8192, 128, 64, WB_LENS_SAME);
    else if (problem->on_host)
        add_attention(&l, 1, 8, 8, 4096, 64, 0, 0, 0);
    else if (problem->signature == WB_BLOCK_MASK)
        add_masked(&l, 4, 16, 16, 8192, 8192, 128, WB_MASK_DOCUMENTS, 1024, 128);
    else if (problem->window)
        add_attention(&l, 1, 64, 8, 65536, 64, 128, 4, 0);
    else if (problem->grouped)
        add_attention(&l, 2, 64, 8, 4096, 128, 0, 0, problem->mask == WB_CAUSAL_OPTIONAL);
    else
        add_attention(&l, 4, 16, 16, 4096, 128, 0, 0, 0);
    return cases[0];
}

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
