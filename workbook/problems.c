#include "problems.h"

#include <string.h>

static const wb_problem problems[] = {
    // number, name, signature, on_host, mask, grouped, window, sinks, tile, points, bonus
    {1, "tiled_attention", WB_FORWARD, true, WB_CAUSAL_OPTIONAL, false, false, false, 128, 200, false},
    {2, "weighted_row_sum", WB_ROW_SUM, false, WB_NO_MASK, false, false, false, 1, 100, false},
    {3, "flash_forward", WB_FORWARD, false, WB_NO_MASK, false, false, false, 128, 200, false},
    {4, "flash_causal", WB_FORWARD, false, WB_CAUSAL, false, false, false, 128, 100, false},
    {5, "flash_gqa", WB_FORWARD, false, WB_CAUSAL, true, false, false, 128, 50, false},
    {6, "flash_window", WB_FORWARD, false, WB_CAUSAL, true, true, false, 128, 50, false},
    {7, "flash_sinks", WB_FORWARD, false, WB_CAUSAL, true, true, true, 128, 50, false},
    {8, "flash_gqa_backward", WB_BACKWARD, false, WB_CAUSAL, true, false, false, 128, 200, true},
    {9, "flash_sinks_backward", WB_BACKWARD, false, WB_CAUSAL, true, true, true, 128, 200, true},
};

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
