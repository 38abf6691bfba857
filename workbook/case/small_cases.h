// small_cases.h - a few cases of each problem for slow machines that look at every access (make sanitize-NN): every head size
// and with it every kernel, lengths around the ends of tiles, several blocks, one lonely row.
#pragma once

#include "case/case.h"

#include <stdio.h>

static inline int wb_small_cases(const wb_problem *problem, wb_case cases[], int room)
{
    static const struct {
        int rows, cols, offset;
    } sums[] = {{1, 1, 0}, {2, 33, 0}, {5, 1001, 4}, {33, 40, 0}, {40, 300, 8}};
    static const struct {
        int batch, q_heads, kv_heads, q_len, kv_len, head_dim, window, sinks;
    } shapes[] = {
        {1, 2, 1, 256, 256, 64, 100, 3},  // whole tiles
        {1, 2, 2, 1, 1, 16, 1, 0},        // one query, one key
        {1, 4, 2, 145, 200, 16, 33, 4},   // ragged on both sides
        {2, 2, 1, 70, 40, 32, 64, 1},     // fewer keys than a tile has
        {1, 2, 1, 129, 129, 64, 1, 2},    // one row more than whole tiles
        {1, 2, 1, 65, 150, 128, 80, 0},   // the largest head
        {1, 8, 1, 70, 90, 64, 40, 4},     // many query heads on one key head
    };
    int n = 0;
    if (problem->signature == WB_ROW_SUM) {
        for (size_t i = 0; i < sizeof sums / sizeof *sums && n < room; i++)
            cases[n++] = (wb_case){.rows = sums[i].rows, .cols = sums[i].cols, .offset = sums[i].offset, .seed = 1};
        return n;
    }
    static const struct {
        int batch, q_heads, kv_heads, q_len, kv_len, head_dim, page;
        wb_lens lens;
    } decodes[] = {
        {1, 2, 1, 1, 1, 16, 16, WB_LENS_SAME},      // one query, one key
        {3, 4, 2, 1, 700, 64, 64, WB_LENS_MIXED},   // parts of a sequence and whole ones
        {9, 3, 1, 2, 130, 32, 32, WB_LENS_EDGES},   // lengths around the ends of pages, none among them
        {1, 8, 1, 5, 400, 128, 16, WB_LENS_SAME},   // more than 16 packed rows; the largest head
        {2, 2, 2, 16, 90, 16, 256, WB_LENS_MIXED},  // the most new tokens, the largest page
    };
    if (problem->signature == WB_DECODE) {
        for (size_t i = 0; i < sizeof decodes / sizeof *decodes && n < room; i++) {
            wb_case c = {.seed = 1, .page = decodes[i].page, .lens = decodes[i].lens};
            c.shape = (attention_shape){.batch = decodes[i].batch,
                                        .q_heads = decodes[i].q_heads,
                                        .kv_heads = decodes[i].kv_heads,
                                        .q_len = decodes[i].q_len,
                                        .kv_len = decodes[i].kv_len,
                                        .head_dim = decodes[i].head_dim};
            cases[n++] = wb_case_defaults(problem, c);
        }
        return n;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && n < room; i++) {
        wb_case c = {.seed = 1};
        c.shape.batch = shapes[i].batch;
        c.shape.q_heads = shapes[i].q_heads * (problem->on_host ? 4 : 1);  // work for several threads
        if (problem->grouped) c.shape.kv_heads = shapes[i].kv_heads;
        c.shape.q_len = shapes[i].q_len;
        if (problem->mask != WB_CAUSAL) c.shape.kv_len = shapes[i].kv_len;
        if (problem->mask == WB_CAUSAL_OPTIONAL && i % 2) c.shape.causal = 1, c.shape.kv_len = c.shape.q_len;
        const int dims = (int)problem->head_dims, D = shapes[i].head_dim;
        c.shape.head_dim = dims & D ? D : dims & -dims;
        if (problem->window) c.shape.window = shapes[i].window;
        if (problem->sinks) c.shape.sinks = shapes[i].sinks;
        if (problem->signature ==
            WB_BLOCK_MASK) {  // tiles in part and whole, of 128 queries and of 64, rows that see nothing
            static const wb_mask_name masks[] = {WB_MASK_RANDOM, WB_MASK_LAST,   WB_MASK_DOCUMENTS,
                                                 WB_MASK_RANDOM, WB_MASK_PADDED, WB_MASK_TREE};
            c.mask = masks[i], c.masks = c.shape.batch, c.q_tile = i % 2 ? 64 : 128;
        }
        cases[n++] = wb_case_defaults(problem, c);
    }
    return n;
}

// One a line, as --case takes them.
static inline void wb_small_cases_print(const wb_problem *problem)
{
    wb_case cases[16];
    const int count = wb_small_cases(problem, cases, 16);
    for (int i = 0; i < count; i++) {
        char text[WB_CASE_TEXT];
        wb_case_print(problem, &cases[i], text);
        puts(text);
    }
}
