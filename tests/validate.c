// validate.c - what the suites of keys cannot see of the validator, the text of cases, and their inputs.
#include "case/case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

static char memory[64] __attribute__((aligned(64)));
static void *const there = memory;

static attention_shape good(void)
{
    return (attention_shape){
        .batch = 1, .q_heads = 4, .kv_heads = 4, .q_len = 5, .kv_len = 5, .head_dim = 64, .scale = 0.125f};
}

static void refused(wb_status got, wb_status want, const char *word)
{
    cr_expect(got == want, "%s instead of %s: %s", wb_status_text(got), wb_status_text(want), wb_last_message());
    cr_expect(strstr(wb_last_message(), word), "'%s' does not name %s", wb_last_message(), word);
}

// The suites of keys ask for each bad value of each field. These shapes they cannot have.
Test(validate, shapes_that_no_suite_can_have)
{
    attention_shape s = good();
    refused(wb_check_forward("no_such_problem", there, there, there, there, there, &s), WB_BAD_ARGUMENT,
            "no such problem");
    refused(wb_check_forward("flash_forward", there, there, there, there, there, NULL), WB_BAD_ARGUMENT,
            "shape is null");
    s.causal = 1, s.batch = 3, s.q_len = s.kv_len = 1 << 24, s.q_heads = s.kv_heads = 64;  // beyond 2^31 elements
    cr_expect(wb_check_shape("flash_gqa", &s) == WB_OK, "%s", wb_last_message());
    s.batch = s.q_heads = s.kv_heads = 65535, s.q_len = s.kv_len = INT32_MAX;
    refused(wb_check_shape("flash_gqa", &s), WB_BAD_ARGUMENT, "more bytes");
}

// Suites ask of each tensor of 16-byte loads alone (refuses_misaligned). These are aligned to an element.
Test(validate, elements_are_aligned)
{
    attention_shape s = good();
    s.causal = s.window = 1;
    refused(wb_check_sink_backward("flash_sinks_backward", there, there, there, there, memory + 2, there, there, there,
                                   there, there, there, there, &s),
            WB_BAD_ARGUMENT, " delta is not aligned to 4");
    refused(wb_check_sink_forward("flash_window", there, memory + 2, there, there, there, there, &s), WB_BAD_ARGUMENT,
            " L is not aligned to 4");
    refused(wb_check_row_sum("weighted_row_sum", there, memory + 1, there, 1, 1), WB_BAD_ARGUMENT, " x is not aligned");
    cr_expect(wb_check_row_sum("weighted_row_sum", there, memory + 2, memory + 2, 1, 1) == WB_OK, "%s",
              wb_last_message());
}

// Each case of a suite is text on its way to the worker.
Test(validate, text_that_is_no_case)
{
    const wb_problem *problem = wb_find_problem("flash_sinks");
    wb_case c;
    static const char *const wrong[] = {"Nq", "Nq=", "Nq=5x", "size=5", "input=weird", "Nq=5,,D"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(wb_case_parse(problem, wrong[i], &c) == WB_BAD_ARGUMENT, "'%s' was taken", wrong[i]);
    refused(wb_case_parse(problem, "size=5", &c), WB_BAD_ARGUMENT, " Hkv ");
    refused(wb_case_parse(problem, "D=48,nan_queries=0", &c), WB_BAD_ARGUMENT, "has no Nq");
    refused(wb_case_parse(wb_find_problem("weighted_row_sum"), "rows=5", &c), WB_BAD_ARGUMENT, "has no cols");
    refused(wb_case_parse(problem, "input=weird", &c), WB_BAD_ARGUMENT, " stairs ");
    refused(wb_case_parse(wb_find_problem("flash_decode"), "Nq=1,Nk=5,D=16,lens=long", &c), WB_BAD_ARGUMENT,
            "lens=long");
}

// Inputs are what their names promise: mean 0 and variance 1, and the stated logits.
Test(validate, inputs_are_as_described)
{
    const wb_problem *problem = wb_find_problem("tiled_attention");
    wb_case c = {.shape = {.q_len = 64, .kv_len = 256, .head_dim = 64}, .seed = 5};
    wb_tensor t[WB_MAX_TENSORS];
    static float Q[64 * 64], K[256 * 64];
    static const double at[WB_INPUTS][2] = {
        // the logits of the first key and of the last; 0 where nothing is said
        [WB_HUGE] = {140, 140}, [WB_TINY] = {-140, -140},  [WB_EARLY_MAX] = {8},
        [WB_LATE_MAX] = {0, 8}, [WB_FALLING] = {200},      [WB_RISING] = {0, 199},
        [WB_STAIRS] = {0, 30},  [WB_TOWER] = {1000, 1000}, [WB_ABYSS] = {-30000, -30000}};
    for (wb_input kind = 0; kind < WB_INPUTS; kind++) {
        if (!wb_input_is_everywhere(kind)) continue;
        c.input = kind;
        c = wb_case_defaults(problem, c);
        wb_case_tensors(problem, &c, t);
        wb_case_fill(problem, &c, &t[2], Q);
        wb_case_fill(problem, &c, &t[3], K);
        double logit[256] = {0}, mean = 0, square = 0;
        for (int j = 0; j < 256; j++)
            for (int i = 0; i < 64; i++)
                for (int d = 0; d < 64; d++) logit[j] += (double)c.shape.scale * Q[i * 64 + d] * K[j * 64 + d] / 64;
        for (int i = 0; i < 256 * 64; i++) mean += K[i] / (256 * 64), square += K[i] * K[i] / (256 * 64);
        if (kind == WB_NORMAL)
            cr_expect(fabs(mean) < 0.03 && fabs(square - 1) < 0.05, "mean %g, square %g", mean, square);
        const double first = at[kind][0], last = at[kind][1];
        cr_expect(fabs(logit[0] - first) < 4 + fabs(first) / 20, "input %d: the logit of key 0 is %g, but should be %g",
                  kind, logit[0], first);
        cr_expect(fabs(logit[255] - last) < 4 + fabs(last) / 20,
                  "input %d: the logit of the last key is %g, but should be %g", kind, logit[255], last);
    }
}
