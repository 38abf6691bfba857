#include "case/case.h"

#include <pthread.h>
#include <stdio.h>

const char *const wb_mask_names[WB_MASK_NAMES] = {"documents", "padded", "prefix", "tree",  "strided",
                                                  "window",    "causal", "full",   "empty", "random",
                                                  "gaps",      "last",   "loose"};

// Of the tree of seven drafts, which is the lesson's: the parent of each, -1 is the prompt.
static const int lesson_tree[7] = {-1, 0, 0, 1, 1, 2, 5};

enum { BLOCK = 64, NOBODY = -1 };

// A number below `end`, another for each of these.
static int drawn(const wb_named_mask *m, int what, int b, int i, int j, int end)
{
    const uint64_t at = (uint64_t)(uint32_t)i << 32 | (uint32_t)j;
    return (int)((mix(m->seed ^ mix(at ^ mix((uint64_t)(what + 16 * b)))) >> 33) % (uint64_t)end);
}

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
        for (int n = 0; n < m->size && m->name == WB_MASK_TREE; n++)
            table[n] = m->size == 7 ? lesson_tree[n] : drawn(m, 3, b, n, 0, n + 1) - 1;
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
    case WB_MASK_STRIDED: return j <= t && (j / size == t / size || j % size >= size - (size < 8 ? 1 : size / 8));
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

// ------------------------ the mask of a case, made once: parsing, filling, judging ask for it again and again

static int least(int size) { return size < 1 ? 1 : size; }

static bool same(const wb_named_mask *a, const wb_named_mask *b)
{
    return a->name == b->name && a->size == b->size && a->seed == b->seed && a->masks == b->masks &&
           a->q_len == b->q_len && a->kv_len == b->kv_len;
}

// Lists have any order (workbook.h): a random mask's are shuffled, and the bits of its tiles with them.
static void shuffle(const block_mask *m, int q_tiles, bool parts, uint64_t dice)
{
    int *list = (int *)(parts ? m->part : m->whole);
    const int *start = parts ? m->part_start : m->whole_start;
    const size_t words = (size_t)m->q_tile * (size_t)(m->kv_tile / 32);
    for (int r = 0; r + 1 < m->masks * (q_tiles + 1); r++)
        for (int k = start[r] + 1; k < start[r + 1]; k++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            const int other = start[r] + (int)((dice >> 33) % (uint64_t)(k - start[r] + 1)), tile = list[k];
            list[k] = list[other], list[other] = tile;
            uint32_t *a = (uint32_t *)m->bits + (size_t)k * words, *b = (uint32_t *)m->bits + (size_t)other * words;
            for (size_t w = 0; parts && w < words; w++) {
                const uint32_t bits = a[w];
                a[w] = b[w], b[w] = bits;
            }
        }
}

const wb_case_mask *wb_case_mask_of(const wb_case *c)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // threads fill the tensors of a case side by side
    static wb_case_mask made;
    static wb_named_mask made_for;
    const wb_named_mask wanted = {.name = c->mask,
                                  .size = c->mask_size,
                                  .seed = c->seed,
                                  .masks = least(c->masks),
                                  .q_len = least(c->shape.q_len),
                                  .kv_len = least(c->shape.kv_len)};
    const int q_tile = least(c->q_tile), kv_tile = (least(c->kv_tile) + 31) / 32 * 32;
    pthread_mutex_lock(&lock);
    if (!same(&wanted, &made_for) || made.lists.q_tile != q_tile || made.lists.kv_tile != kv_tile) {
        wb_named_mask_free(&made.named);
        wb_block_mask_free(&made.lists);
        made.named = made_for = wanted;
        wb_named_mask_draw(&made.named);
        if (wb_block_mask_list(&made.lists, q_tile, kv_tile, wanted.masks, wanted.q_len, wanted.kv_len,
                               wb_named_mask_sees, &made.named, wanted.name == WB_MASK_LOOSE) != WB_OK) {
            fprintf(stderr, "the mask of a case: %s\n", wb_last_message());
            exit(2);
        }
        for (int parts = 0; parts < 2 && (wanted.name == WB_MASK_RANDOM || wanted.name == WB_MASK_LOOSE); parts++)
            shuffle(&made.lists, (wanted.q_len - 1) / q_tile + 1, parts, wanted.seed);
    }
    pthread_mutex_unlock(&lock);
    return &made;
}

bool wb_case_sees(const wb_case *c, int b, int i, int j)
{
    return wb_named_mask_sees(&wb_case_mask_of(c)->named, c->masks > 1 ? b : 0, i, j);
}
