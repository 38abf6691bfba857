// block_mask.c - the lists of a block mask from what the pairs say: see workbook.h. First each tile is looked at and
// its kind noted, which tells how long the lists are; then they are filled.
#include "case/case.h"

#include <limits.h>

enum { HIDDEN, PART, WHOLE };

// What there is to ask, and in which tiles.
typedef struct question {
    int q_tile, kv_tile, masks, q_len, kv_len, loose;
    wb_sees *sees;
    const void *of;
} question;

static int min_int(int a, int b) { return a < b ? a : b; }

// Of the tile of queries i0, ... and keys j0, ...: it is seen in part as soon as one pair is visible and one not.
static int kind_of(const question *q, int b, int i0, int j0)
{
    const int i1 = min_int(i0 + q->q_tile, q->q_len), j1 = min_int(j0 + q->kv_tile, q->kv_len);
    bool visible = false, hidden = j1 < j0 + q->kv_tile;  // keys that do not exist are hidden
    for (int i = i0; i < i1; i++)
        for (int j = j0; j < j1; j++) {
            if (q->sees(q->of, b, i, j))
                visible = true;
            else
                hidden = true;
            if (visible && hidden) return PART;
        }
    const int n = (b * q->q_len + i0) / q->q_tile * 5 + j0 / q->kv_tile * 7;
    if (q->loose && n % 3 == 0 && j1 == j0 + q->kv_tile) return PART;
    return visible ? WHOLE : HIDDEN;
}

static void fill_bits(const question *q, int b, int i0, int j0, uint32_t *bits)
{
    const int words = q->kv_tile / 32;
    memset(bits, 0, (size_t)q->q_tile * (size_t)words * sizeof *bits);
    for (int i = i0; i < min_int(i0 + q->q_tile, q->q_len); i++)
        for (int j = j0; j < min_int(j0 + q->kv_tile, q->kv_len); j++)
            if (q->sees(q->of, b, i, j))
                bits[(size_t)(i - i0) * (size_t)words + (size_t)(j - j0) / 32] |= (uint32_t)1 << (j - j0) % 32;
}

// One piece of memory: bits, then starts and lists. Each list has room for one at least.
static wb_status allocate(block_mask *mask, size_t starts, size_t wholes, size_t parts)
{
    const size_t bits = (parts ? parts : 1) * (size_t)mask->q_tile * (size_t)(mask->kv_tile / 32);
    const size_t lists = 2 * starts + (wholes ? wholes : 1) + (parts ? parts : 1);
    uint32_t *all = calloc(bits + lists, sizeof *all);
    if (!all) return wb_fail(WB_OUT_OF_MEMORY, "wb_block_mask_build: not enough memory for %zu partial tiles", parts);
    mask->bits = all;
    mask->whole_start = (int *)(all + bits);
    mask->part_start = mask->whole_start + starts;
    mask->whole = mask->part_start + starts;
    mask->part = mask->whole + (wholes ? wholes : 1);
    return WB_OK;
}

wb_status wb_block_mask_build(block_mask *mask, int q_tile, int kv_tile, int masks, int q_len, int kv_len,
                              wb_sees *sees, const void *of)
{
    return wb_block_mask_list(mask, q_tile, kv_tile, masks, q_len, kv_len, sees, of, 0);
}

wb_status wb_block_mask_list(block_mask *mask, int q_tile, int kv_tile, int masks, int q_len, int kv_len, wb_sees *sees,
                             const void *of, int loose)
{
    const char *me = "wb_block_mask_build";
    if (!mask || !sees) return wb_fail(WB_BAD_ARGUMENT, "%s: %s is null", me, mask ? "sees" : "mask");
    memset(mask, 0, sizeof *mask);
    if (q_tile < 1 || kv_tile < 1 || masks < 1 || q_len < 1 || kv_len < 1)
        return wb_fail(WB_BAD_ARGUMENT,
                       "%s: q_tile = %d, kv_tile = %d, masks = %d, q_len = %d, kv_len = %d: each must be at least 1",
                       me, q_tile, kv_tile, masks, q_len, kv_len);
    if (kv_tile % 32) return wb_fail(WB_BAD_ARGUMENT, "%s: kv_tile = %d, must be a multiple of 32", me, kv_tile);

    const question q = {q_tile, kv_tile, masks, q_len, kv_len, loose, sees, of};
    const int q_tiles = (q_len - 1) / q_tile + 1, kv_tiles = (kv_len - 1) / kv_tile + 1;
    const size_t tiles = (size_t)masks * (size_t)q_tiles * (size_t)kv_tiles;
    if (tiles > INT_MAX) return wb_fail(WB_BAD_ARGUMENT, "%s: %zu tiles do not fit in an int", me, tiles);

    // count
    unsigned char *kinds = malloc(tiles);
    if (!kinds) return wb_fail(WB_OUT_OF_MEMORY, "%s: not enough memory to classify %zu tiles", me, tiles);
    size_t count[3] = {0}, at = 0;
    for (int b = 0; b < masks; b++)
        for (int t = 0; t < q_tiles; t++)
            for (int k = 0; k < kv_tiles; k++)
                count[kinds[at++] = (unsigned char)kind_of(&q, b, t * q_tile, k * kv_tile)]++;

    // fill
    mask->q_tile = q_tile, mask->kv_tile = kv_tile, mask->masks = masks;
    const int unused = loose ? 70000 : 0;  // starts are not 0, nor do 16 bits count them
    const wb_status status =
        allocate(mask, (size_t)masks * (size_t)(q_tiles + 1), (size_t)unused + count[WHOLE], count[PART]);
    int *whole = (int *)mask->whole, *part = (int *)mask->part;
    int *whole_start = (int *)mask->whole_start, *part_start = (int *)mask->part_start, wholes = unused, parts = 0;
    const size_t bits_of_tile = (size_t)q_tile * (size_t)(kv_tile / 32);
    at = 0;
    for (int b = 0; b < masks && status == WB_OK; b++)
        for (int t = 0; t <= q_tiles; t++) {  // one more: where the last list ends
            *whole_start++ = wholes, *part_start++ = parts;
            for (int k = 0; k < kv_tiles && t < q_tiles; k++, at++) {
                if (kinds[at] == WHOLE) whole[wholes++] = k;
                if (kinds[at] != PART) continue;
                fill_bits(&q, b, t * q_tile, k * kv_tile, (uint32_t *)mask->bits + (size_t)parts * bits_of_tile);
                part[parts++] = k;
            }
        }
    free(kinds);
    return status;
}

typedef struct matrix {
    const unsigned char *visible;  // [.., q_len, kv_len]
    size_t q_len, kv_len;
} matrix;

static int sees_in_matrix(const void *of, int b, int i, int j)
{
    const matrix *m = of;
    return m->visible[((size_t)b * m->q_len + (size_t)i) * m->kv_len + (size_t)j];
}

wb_status wb_block_mask_from_matrix(block_mask *mask, int q_tile, int kv_tile, int masks, int q_len, int kv_len,
                                    const unsigned char *visible)
{
    if (!visible) return wb_fail(WB_BAD_ARGUMENT, "wb_block_mask_from_matrix: visible is null");
    const matrix m = {visible, (size_t)q_len, (size_t)kv_len};
    return wb_block_mask_build(mask, q_tile, kv_tile, masks, q_len, kv_len, sees_in_matrix, &m);
}

void wb_block_mask_free(block_mask *mask)
{
    if (!mask) return;
    free((void *)mask->bits);
    mask->bits = NULL;
    mask->whole_start = mask->whole = mask->part_start = mask->part = NULL;
}
