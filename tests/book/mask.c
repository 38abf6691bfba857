// mask.c - what the book's mask.js must say, for 700 drawn sizes: how workbook/mask counts the tiles of a mask, and the bounds of each row of
// tiles by the lines that compute them in the kernels of 04, 06 and 07, which book.sh has taken out of them: LINES_NN.
#include "workbook/mask/picture.h"

#include <stdio.h>

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))

typedef struct sizes {
    int N, W, sinks, BR, BC, size;
} sizes;

static void causal(sizes s, int block_row)
{
    const int N = s.N, BR = s.BR, BC = s.BC;
#include LINES_04
    printf("bounds\t%d\t0\t0\t%d\t%d\n", block_row, full, end);
}
static void window(sizes s, int block_row)
{
    const int N = s.N, W = s.W, BR = s.BR, BC = s.BC;
#include LINES_06
    printf("bounds\t%d\t%d\t0\t%d\t%d\n", block_row, first, full, end);
}
static void with_sinks(sizes s, int block_row)
{
    const int N = s.N, W = s.W, sinks = s.sinks, BR = s.BR, BC = s.BC, SC = s.BC;
#include LINES_07
    printf("bounds\t%d\t%d\t%d\t%d\t%d\n", block_row, first, sink_end, full, end);
}

static void tiles(const char *kind, int number, wb_mask_name name, sizes s)
{
    const attention_shape shape = {.batch = 1,
                                   .q_heads = 1,
                                   .kv_heads = 1,
                                   .q_len = s.N,
                                   .kv_len = s.N,
                                   .causal = 1,
                                   .window = s.W,
                                   .sinks = s.sinks};
    wb_named_mask named = {.name = name, .size = s.size, .seed = 1, .masks = 1, .q_len = s.N, .kv_len = s.N};
    wb_named_mask_draw(&named);
    const wb_picture p = {.problem = wb_problem_number(number),
                          .shape = &shape,
                          .named = number == 15 ? &named : NULL,
                          .BR = s.BR,
                          .BC = s.BC};
    long count[3] = {0}, all = 0, visible;
    for (int i = 0; i < s.N; i += s.BR)
        for (int j = 0; j < s.N; j += s.BC) count[wb_tile_kind_of(&p, i, j, &visible)]++, all += visible;
    printf("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%ld\t%ld\t%ld\t%ld\n", kind, s.N, s.W, s.sinks, s.BR, s.BC, s.size, all,
           count[WB_TILE_FULL], count[WB_TILE_MASKED], count[WB_TILE_SKIPPED]);
    wb_named_mask_free(&named);
}

int main(void)
{
    static const struct {
        const char *kind;
        int number;
        wb_mask_name name;
        void (*bounds)(sizes, int);
    } of[] = {
        {"causal", 4, WB_MASK_FULL, causal},    {"window", 6, WB_MASK_FULL, window},
        {"sinks", 7, WB_MASK_FULL, with_sinks}, {"documents", 15, WB_MASK_DOCUMENTS, NULL},
        {"prefix", 15, WB_MASK_PREFIX, NULL},   {"tree", 15, WB_MASK_TREE, NULL},
        {"strided", 15, WB_MASK_STRIDED, NULL},
    };
    unsigned x = 7;
    for (int k = 0; k < 700; k++) {
        int drawn[6];
        for (int i = 0; i < 6; i++) x = x * 1664525u + 1013904223u, drawn[i] = (int)(x >> 8);
        sizes s = {.N = 4 + drawn[0] % 93, .sinks = drawn[2] % 25, .BR = 1 + drawn[3] % 32, .BC = 1 + drawn[4] % 32};
        s.W = 1 + drawn[1] % s.N, s.size = k % 28 < 7 ? min(7, s.N) : 1 + drawn[5] % s.N;
        tiles(of[k % 7].kind, of[k % 7].number, of[k % 7].name, s);
        for (int row = 0; of[k % 7].bounds && row < s.N; row += s.BR) of[k % 7].bounds(s, row);
    }
}
