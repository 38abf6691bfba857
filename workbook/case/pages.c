#include "case/case.h"

static int at_least_one(int n) { return n < 1 ? 1 : n; }

int wb_case_keys(const wb_case *c, int b)
{
    const int longest = c->shape.kv_len < 0 ? 0 : c->shape.kv_len, page = at_least_one(c->page);
    const double u = (double)(mix(mix(c->seed) + (uint64_t)b) >> 11) * 0x1p-53;
    // Around the ends of pages, and of the tiles that a kernel may have.
    const int edges[] = {longest, 0,  1,  page - 1, page, page + 1, 15,  16,          17,
                         31,      33, 63, 64,       65,   127,      129, 2 * page + 1};
    int keys = longest;
    if (c->lens == WB_LENS_MIXED && b > 0) keys = (int)(u * ((double)longest + 1));
    if (c->lens == WB_LENS_ZIPF && longest > 0) keys = (int)pow(longest, u);
    if (c->lens == WB_LENS_EDGES) keys = edges[(size_t)b % (sizeof edges / sizeof *edges)];
    if (c->lens == WB_LENS_EMPTY) keys = 0;
    return keys < longest ? keys : longest;
}

decode_shape wb_decode_shape(const wb_case *c)
{
    const attention_shape *s = &c->shape;
    const int page = at_least_one(c->page);
    long used = 0;
    for (int b = 0; b < s->batch; b++) used += (wb_case_keys(c, b) + page - 1) / page;
    return (decode_shape){.batch = s->batch,
                          .q_heads = s->q_heads,
                          .kv_heads = s->kv_heads,
                          .q_len = s->q_len,
                          .head_dim = s->head_dim,
                          .scale = s->scale,
                          .page_size = c->page,
                          .pages = c->pages ? c->pages : (int)(used + used / 16 + 2),
                          .max_pages =
                              c->max_pages ? c->max_pages : ((s->kv_len < 0 ? 0 : s->kv_len) + page - 1) / page + 1};
}

size_t wb_case_cut(const wb_case *c, const wb_tensor *t)
{
    const int page = at_least_one(c->page), keys = wb_case_keys(c, 0);
    const bool scales = t->name[0] && t->name[1] == '_';
    if (!c->cut || keys < 1 || (*t->name != 'K' && *t->name != 'V')) return 0;
    return (size_t)(page - 1 - (keys - 1) % page) * (t->bytes / t->count) * (scales ? 1 : t->dim[2] * t->dim[3]);
}

static int *ints(size_t count)
{
    int *all = malloc((count ? count : 1) * sizeof *all);
    if (!all) abort();
    return all;
}

wb_pages wb_pages_make(const wb_case *c)
{
    wb_pages p = {.shape = wb_decode_shape(c)};
    const int batch = at_least_one(p.shape.batch), columns = at_least_one(p.shape.max_pages);
    const int pages = at_least_one(p.shape.pages), page = at_least_one(p.shape.page_size);
    int *shuffled = ints((size_t)pages), next = 0;
    p.kv_len = ints((size_t)batch);
    p.table = ints((size_t)batch * (size_t)columns);
    p.owner = ints((size_t)pages);
    for (int k = 0; k < pages; k++) p.owner[k] = -1;
    for (int k = 0; k < pages; k++) {  // Fisher and Yates
        const int other = (int)(mix(mix(c->seed ^ 0x7061676573) + (uint64_t)k) % (uint64_t)(k + 1));
        shuffled[k] = shuffled[other];
        shuffled[other] = k;
    }
    if (c->cut) {  // the first sequence ends with the last page
        const int end = (wb_case_keys(c, 0) - 1) / page;
        for (int k = 0; k < pages; k++)
            if (shuffled[k] == pages - 1) shuffled[k] = shuffled[end];
        shuffled[end] = pages - 1;
    }
    for (int b = 0; b < batch; b++) {
        p.kv_len[b] = wb_case_keys(c, b);
        const int whole = (p.kv_len[b] < p.kv_len[0] ? p.kv_len[b] : p.kv_len[0]) / page;  // of both
        const int same = c->shared && b > 0 ? (int)(mix(c->seed + (uint64_t)b) % (uint64_t)(whole + 1)) : 0;
        for (int k = 0; k < columns; k++) {
            const int entry = b * columns + k, used = (p.kv_len[b] + page - 1) / page;
            if (k < same) {
                p.table[entry] = p.table[k];
                continue;
            }
            p.table[entry] = k < used && next < pages ? shuffled[next++] : -1;
            if (p.table[entry] >= 0) p.owner[p.table[entry]] = entry;
        }
    }
    free(shuffled);
    // What no function can be right about, for the check build: see wb_case.
    if (c->stray == 1) p.table[0] = pages;
    if (c->stray == 2) p.kv_len[0] = columns * page + 1;
    if (c->stray == 3) p.kv_len[0] = -1;
    return p;
}

void wb_pages_free(wb_pages *p) { free(p->kv_len), free(p->table), free(p->owner); }
