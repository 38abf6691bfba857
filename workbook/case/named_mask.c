#include "case/named_mask.h"

#include "case/mix.h"

#include <stdio.h>
#include <stdlib.h>

const char *const wb_mask_names[WB_MASK_NAMES] = {"documents", "padded", "prefix", "tree",  "strided",
                                                  "window",    "causal", "full",   "empty", "random",
                                                  "gaps",      "last",   "loose"};

const int wb_lesson_tree[7] = {-1, 0, 0, 1, 1, 2, 5};

enum { BLOCK = 64, NOBODY = -1 };

// A number below `end`, another for each of these.
static int drawn(const wb_named_mask *m, int what, int b, int i, int j, int end)
{
    const uint64_t at = (uint64_t)(uint32_t)i << 32 | (uint32_t)j;
    return (int)((mix(m->seed ^ mix(at ^ mix((uint64_t)(what + 16 * b)))) >> 33) % (uint64_t)end);
}

static int max_int(int a, int b) { return a > b ? a : b; }
static int min_int(int a, int b) { return a < b ? a : b; }

// Documents of 1 to 2 size - 1 tokens, each length as likely.
static void draw_documents(const wb_named_mask *m, int b, int *first)
{
    const int N = m->kv_len, end = m->name == WB_MASK_PADDED ? N - N / 8 - drawn(m, 1, b, 0, 0, N / 8 + 1) : N;
    int begin = 0, length = 0;
    for (int t = 0; t < N; t++) {
        if (t == begin + length) begin = t, length = 1 + drawn(m, 2, b, t, 0, 2 * m->size - 1);
        first[t] = t < end ? begin : NOBODY;
    }
}

static void draw_tree(const wb_named_mask *m, int b, int *parent)
{
    for (int n = 0; n < m->size; n++) parent[n] = m->size == 7 ? wb_lesson_tree[n] : drawn(m, 3, b, n, 0, n + 1) - 1;
}

void wb_named_mask_draw(wb_named_mask *m)
{
    if (m->size < 1) m->size = m->kv_len / 6 + 1;
    if (m->name == WB_MASK_TREE) m->size = min_int(m->size, min_int(m->q_len, m->kv_len));
    m->table = calloc((size_t)m->masks * (size_t)m->kv_len, sizeof *m->table);
    if (!m->table) {
        fprintf(stderr, "not enough memory for the mask of a case\n");
        exit(2);
    }
    for (int b = 0; b < m->masks; b++) {
        int *table = m->table + (size_t)b * (size_t)m->kv_len;
        if (m->name == WB_MASK_DOCUMENTS || m->name == WB_MASK_PADDED) draw_documents(m, b, table);
        if (m->name == WB_MASK_TREE) draw_tree(m, b, table);
    }
}

void wb_named_mask_free(wb_named_mask *m)
{
    free(m->table);
    m->table = NULL;
}

static bool random_sees(const wb_named_mask *m, int b, int i, int j)
{
    if (drawn(m, 4, b, i / BLOCK, 0, 5) == 0) return false;
    const int kind = drawn(m, 5, b, i / BLOCK, j / BLOCK, 3);  // hidden, visible, drawn
    return kind == 1 || (kind == 2 && drawn(m, 6, b, i, j, 2));
}

// Whether `ancestor` lies on the way from this draft to the prompt, the draft itself included.
static bool is_ancestor(const int *parent, int ancestor, int draft)
{
    while (draft > ancestor) draft = parent[draft];  // parents come before their children
    return draft == ancestor;
}

int wb_named_mask_sees(const void *of, int b, int i, int j)
{
    const wb_named_mask *m = of;
    const int t = i + m->kv_len - m->q_len, size = m->size, prompt = m->kv_len - size;
    const int *table = m->table + (size_t)b * (size_t)m->kv_len;
    switch (m->name) {
    case WB_MASK_DOCUMENTS:
    case WB_MASK_PADDED: return t >= 0 && j <= t && table[t] != NOBODY && j >= table[t];
    case WB_MASK_PREFIX: return j <= t || j < size / 2 + drawn(m, 7, b, 0, 0, size + 1);
    case WB_MASK_TREE: return j < prompt || t < prompt ? j <= t : is_ancestor(table, j - prompt, t - prompt);
    case WB_MASK_STRIDED: return j <= t && (j / size == t / size || j % size >= size - max_int(1, size / 8));
    case WB_MASK_WINDOW: return j <= t && j > t - size;
    case WB_MASK_CAUSAL: return j <= t;
    case WB_MASK_FULL: return 1;
    case WB_MASK_EMPTY: return 0;
    case WB_MASK_LOOSE:
    case WB_MASK_RANDOM: return random_sees(m, b, i, j);
    case WB_MASK_GAPS: return j <= t && drawn(m, 8, b, i, 0, 2);
    case WB_MASK_LAST: return j == m->kv_len - 1;
    case WB_MASK_NAMES: break;
    }
    return 0;
}
