#include "problems.h"

#include <string.h>

static const int NO_D[] = {0};
static const int D16_128[] = {16, 32, 64, 128, 0};
static const int D64_128[] __attribute__((unused)) = {64, 128, 0};  // in a class's copy that ends before 10
static const int D64_256[] __attribute__((unused)) = {64, 128, 256, 0};
#define OPTIONAL WB_CAUSAL_OPTIONAL  // keeps a row on a line
enum { no = false, yes = true };

// clang-format off
static const wb_problem problems[] = {
    // number, name, signature, on_host, mask, grouped, window, sinks, logits, int8_cache, dims, tile, group, from
    {1, "tiled_attention", WB_FORWARD, yes, OPTIONAL, no, no, no, no, no, D16_128, 128, WB_REQUIRED, 0},
    {2, "weighted_row_sum", WB_ROW_SUM, no, WB_NO_MASK, no, no, no, no, no, NO_D, 1, WB_REQUIRED, 0},
    {3, "flash_forward", WB_FORWARD, no, WB_NO_MASK, no, no, no, no, no, D16_128, 128, WB_REQUIRED, 1},
    {4, "flash_causal", WB_FORWARD, no, WB_CAUSAL, no, no, no, no, no, D16_128, 128, WB_REQUIRED, 3},
    {5, "flash_gqa", WB_FORWARD, no, WB_CAUSAL, yes, no, no, no, no, D16_128, 128, WB_REQUIRED, 4},
    {6, "flash_window", WB_FORWARD, no, WB_CAUSAL, yes, yes, no, no, no, D16_128, 128, WB_REQUIRED, 5},
    {7, "flash_sinks", WB_FORWARD, no, WB_CAUSAL, yes, yes, yes, no, no, D16_128, 128, WB_REQUIRED, 6},
    {8, "flash_gqa_backward", WB_BACKWARD, no, WB_CAUSAL, yes, no, no, no, no, D16_128, 128, WB_BONUS, 5},
    {9, "flash_sinks_backward", WB_BACKWARD, no, WB_CAUSAL, yes, yes, yes, no, no, D16_128, 128, WB_BONUS, 8},
    {10, "flash_hopper", WB_FORWARD, no, OPTIONAL, yes, no, no, no, no, D64_128, 192, WB_BEYOND, 5},
    {11, "flash_sink_logits", WB_FORWARD, no, WB_CAUSAL, yes, yes, no, yes, no, D16_128, 128, WB_BEYOND, 6},
    {12, "flash_sink_logits_backward", WB_BACKWARD, no, WB_CAUSAL, yes, yes, no, yes, no, D16_128, 128, WB_BEYOND, 8},
    {13, "flash_decode", WB_DECODE, no, WB_NO_MASK, yes, no, no, no, no, D16_128, 16, WB_BEYOND, 5},
    {14, "flash_decode_int8", WB_DECODE, no, WB_NO_MASK, yes, no, no, no, yes, D16_128, 16, WB_BEYOND, 13},
    {15, "flash_block_mask", WB_BLOCK_MASK, no, WB_NO_MASK, yes, no, no, no, no, D16_128, 128, WB_BEYOND, 5},
    {16, "flash_fp8", WB_FP8, no, OPTIONAL, yes, no, no, no, no, D64_256, 192, WB_BEYOND, 10},
    {17, "flash_ring", WB_RING, no, OPTIONAL, yes, no, no, no, no, D64_128, 128, WB_BEYOND, 5},
    {18, "flash_ring_backward", WB_RING_BACKWARD, no, OPTIONAL, yes, no, no, no, no, D64_128, 128, WB_BEYOND, 17},
    {19, "flash_fragments", WB_FORWARD, no, WB_NO_MASK, no, no, no, no, no, D16_128, 128, WB_BEYOND, 3},
};
// clang-format on

const wb_problem *wb_find_problem(const char *name)
{
    EACH_PROBLEM (p)
        if (strcmp(p->name, name) == 0) return p;
    return NULL;
}

const wb_problem *wb_problem_number(int number)
{
    EACH_PROBLEM (p)
        if (p->number == number) return p;
    return NULL;
}

const wb_problem *wb_next_problem(const wb_problem *p)
{
    if (!p) return problems;
    return p + 1 < problems + sizeof problems / sizeof *problems ? p + 1 : NULL;
}
