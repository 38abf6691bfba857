// small_cases.h - a few cases of each problem for slow machines that look at every access (make sanitize-NN): every
// head size and with it every kernel, lengths around the ends of tiles, several blocks, one lonely row.
#pragma once

#include "case/case.h"

#include <stdio.h>

static inline int wb_small_cases(const wb_problem *problem, wb_case cases[], int room)
{
    static const char *const sums[] = {"rows=1,cols=1", "rows=2,cols=33", "rows=5,cols=1001,offset=4",
                                       "rows=33,cols=40", "rows=40,cols=300,offset=8"};
    static const char *const decodes[] = {
        "Hq=2,Hkv=1,Nq=1,Nk=1,D=16,page=16",                   // one query, one key
        "B=3,Hq=4,Hkv=2,Nq=1,Nk=700,D=64,page=64,lens=mixed",  // parts of a sequence and whole ones
        "B=9,Hq=3,Hkv=1,Nq=2,Nk=130,D=32,page=32,lens=edges",  // lengths around the ends of pages, none among them
        "Hq=8,Hkv=1,Nq=5,Nk=400,D=128,page=16",                // more than 16 packed rows; the largest head
        "B=2,Hq=2,Nq=16,Nk=90,D=16,page=256,lens=mixed",       // the most new tokens, the largest page
        "Hq=12,Hkv=1,Nq=8,Nk=1900,D=64,page=32",               // more than 64 packed rows
    };
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
    const bool sum = problem->signature == WB_ROW_SUM;
    if (sum || problem->signature == WB_DECODE) {
        const int count = sum ? sizeof sums / sizeof *sums : sizeof decodes / sizeof *decodes;
        while (n < count && n < room && wb_case_parse(problem, (sum ? sums : decodes)[n], &cases[n]) == WB_OK) n++;
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
        c.shape.head_dim = wb_head_dim(problem, shapes[i].head_dim);
        if (problem->window) c.shape.window = shapes[i].window;
        if (problem->sinks) c.shape.sinks = shapes[i].sinks;
        if (problem->signature ==
            WB_BLOCK_MASK) {  // tiles in part and whole, of 128 queries and of 64, rows that see nothing
            static const wb_mask_name masks[] = {WB_MASK_RANDOM, WB_MASK_LAST,   WB_MASK_DOCUMENTS,
                                                 WB_MASK_RANDOM, WB_MASK_PADDED, WB_MASK_TREE};
            c.mask = masks[i], c.masks = c.shape.batch, c.q_tile = i % 2 ? 64 : 128;
        }
        if (wb_has_ranks(problem)) {  // one sequence, on one rank to four; each touch of what travels is slow
            c.ranks = 1 + (int)i % 4;
            c.shape.q_len = (c.shape.q_len + 2) / 3;
            c.shape.kv_len = c.shape.q_len;
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
