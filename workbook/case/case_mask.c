// case_mask.c - the mask of a case of problem 15, made once: parsing, filling, judging ask for it again and again.
#include "case/case.h"

#include <pthread.h>
#include <stdio.h>

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
