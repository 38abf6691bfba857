#include "problems.h"

#include <string.h>

static const int NO_D[] = {0}, D16_TO_128[] = {16, 32, 64, 128, 0}, D64_128[] = {64, 128, 0}, D64_TO_256[] = {64, 128, 256, 0};

// clang-format off
static const wb_problem problems[] = {
    // number, name, signature, on_host, mask, grouped, window, sinks, sink_logits, int8_cache, head_dims, tile, group
    {1, "tiled_attention", WB_FORWARD, true, WB_CAUSAL_OPTIONAL, false, false, false, false, false, D16_TO_128, 128, WB_REQUIRED},
    {2, "weighted_row_sum", WB_ROW_SUM, false, WB_NO_MASK, false, false, false, false, false, NO_D, 1, WB_REQUIRED},
    {3, "flash_forward", WB_FORWARD, false, WB_NO_MASK, false, false, false, false, false, D16_TO_128, 128, WB_REQUIRED},
    {4, "flash_causal", WB_FORWARD, false, WB_CAUSAL, false, false, false, false, false, D16_TO_128, 128, WB_REQUIRED},
    {5, "flash_gqa", WB_FORWARD, false, WB_CAUSAL, true, false, false, false, false, D16_TO_128, 128, WB_REQUIRED},
    {6, "flash_window", WB_FORWARD, false, WB_CAUSAL, true, true, false, false, false, D16_TO_128, 128, WB_REQUIRED},
    {7, "flash_sinks", WB_FORWARD, false, WB_CAUSAL, true, true, true, false, false, D16_TO_128, 128, WB_REQUIRED},
    {8, "flash_gqa_backward", WB_BACKWARD, false, WB_CAUSAL, true, false, false, false, false, D16_TO_128, 128, WB_BONUS},
    {9, "flash_sinks_backward", WB_BACKWARD, false, WB_CAUSAL, true, true, true, false, false, D16_TO_128, 128, WB_BONUS},
    {10, "flash_hopper", WB_FORWARD, false, WB_CAUSAL_OPTIONAL, true, false, false, false, false, D64_128, 192, WB_BEYOND},
    {11, "flash_sink_logits", WB_FORWARD, false, WB_CAUSAL, true, true, false, true, false, D16_TO_128, 128, WB_BEYOND},
    {12, "flash_sink_logits_backward", WB_BACKWARD, false, WB_CAUSAL, true, true, false, true, false, D16_TO_128, 128, WB_BEYOND},
    {13, "flash_decode", WB_DECODE, false, WB_NO_MASK, true, false, false, false, false, D16_TO_128, 16, WB_BEYOND},
    {14, "flash_decode_int8", WB_DECODE, false, WB_NO_MASK, true, false, false, false, true, D16_TO_128, 16, WB_BEYOND},
    {15, "flash_block_mask", WB_BLOCK_MASK, false, WB_NO_MASK, true, false, false, false, false, D16_TO_128, 128, WB_BEYOND},
    {16, "flash_fp8", WB_FP8, false, WB_CAUSAL_OPTIONAL, true, false, false, false, false, D64_TO_256, 192, WB_BEYOND},
    {17, "flash_ring", WB_RING, false, WB_CAUSAL_OPTIONAL, true, false, false, false, false, D64_128, 128, WB_BEYOND},
    {18, "flash_ring_backward", WB_RING_BACKWARD, false, WB_CAUSAL_OPTIONAL, true, false, false, false, false, D64_128, 128, WB_BEYOND},
};
// clang-format on

const wb_problem *wb_find_problem(const char *name)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (strcmp(problems[i].name, name) == 0) return &problems[i];
    return NULL;
}

const wb_problem *wb_problem_number(int number)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (problems[i].number == number) return &problems[i];
    return NULL;
}

const wb_problem *wb_next_problem(const wb_problem *p)
{
    if (!p) return problems;
    return p + 1 < problems + sizeof problems / sizeof *problems ? p + 1 : NULL;
}
