// validate.c - the shared validator and the text of cases. Every message names what was wrong.
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

static wb_status forward(const char *problem, attention_shape s)
{
    return wb_check_forward(problem, there, there, there, there, there, &s);
}

static void refused(wb_status got, wb_status want, const char *word)
{
    cr_expect(got == want, "%s instead of %s: %s", wb_status_text(got), wb_status_text(want), wb_last_message());
    cr_expect(strstr(wb_last_message(), word), "'%s' does not name %s", wb_last_message(), word);
}

#define REFUSED(problem, status, word, ...)                                                                            \
    do {                                                                                                               \
        attention_shape s = good();                                                                                    \
        __VA_ARGS__;                                                                                                   \
        refused(forward(problem, s), status, word);                                                                    \
    } while (0)

Test(validate, good_shapes_pass)
{
    attention_shape s = good();
    cr_expect(forward("flash_forward", s) == WB_OK, "%s", wb_last_message());
    s.kv_len = 9;
    cr_expect(forward("flash_forward", s) == WB_OK, "%s", wb_last_message());
    s.kv_len = 5, s.causal = 1;
    cr_expect(forward("tiled_attention", s) == WB_OK, "%s", wb_last_message());
    cr_expect(forward("flash_causal", s) == WB_OK, "%s", wb_last_message());
    s.kv_heads = 2, s.window = -7, s.sinks = -7;  // not read by 05
    cr_expect(forward("flash_gqa", s) == WB_OK, "%s", wb_last_message());
    s.window = 1, s.sinks = 0;
    cr_expect(forward("flash_sinks", s) == WB_OK, "%s", wb_last_message());
    s.batch = 3, s.q_len = s.kv_len = 1 << 24, s.q_heads = s.kv_heads = 64;  // beyond 2^31 elements
    cr_expect(forward("flash_gqa", s) == WB_OK, "%s", wb_last_message());
}

Test(validate, bad_shapes_are_named)
{
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "batch = 0", s.batch = 0);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "q_heads = -1", s.q_heads = -1);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "kv_heads = 0", s.kv_heads = 0);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "q_len = 0", s.q_len = 0);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "kv_len = -5", s.kv_len = -5);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "head_dim = 0", s.head_dim = 0);
    REFUSED("flash_gqa", WB_BAD_ARGUMENT, "not a multiple", s.kv_heads = 3, s.causal = 1);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "scale = nan", s.scale = NAN);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "scale = inf", s.scale = INFINITY);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "scale = 0", s.scale = 0);
    REFUSED("flash_window", WB_BAD_ARGUMENT, "window = 0", s.causal = 1, s.window = 0);
    REFUSED("flash_sinks", WB_BAD_ARGUMENT, "sinks = -1", s.causal = 1, s.window = 1, s.sinks = -1);
    REFUSED("flash_causal", WB_BAD_ARGUMENT, "q_len = kv_len", s.causal = 1, s.kv_len = 6);
    REFUSED("flash_forward", WB_BAD_ARGUMENT, "more bytes", s.batch = s.q_heads = s.kv_heads = 65535,
            s.q_len = INT32_MAX);
    REFUSED("flash_forward", WB_UNSUPPORTED, "head_dim = 48", s.head_dim = 48);
    REFUSED("flash_forward", WB_UNSUPPORTED, "65536", s.batch = 65536);
    REFUSED("flash_forward", WB_UNSUPPORTED, "grouped", s.kv_heads = 2);
    REFUSED("flash_forward", WB_UNSUPPORTED, "causal must be 0", s.causal = 1);
    REFUSED("flash_causal", WB_UNSUPPORTED, "causal must be 1", s.causal = 0);
    REFUSED("no_such_problem", WB_BAD_ARGUMENT, "no such problem", s.causal = 0);
    refused(wb_check_forward("flash_forward", there, there, there, there, there, NULL), WB_BAD_ARGUMENT,
            "shape is null");
}

Test(validate, bad_pointers_are_named)
{
    static const char *const forward_names[] = {"O", "L", "Q", "K", "V"};
    const attention_shape s = good();
    for (int bad = 0; bad < 5; bad++) {
        void *p[5];
        char word[32];
        for (int i = 0; i < 5; i++) p[i] = i == bad ? NULL : there;
        snprintf(word, sizeof word, " %s is null", forward_names[bad]);
        refused(wb_check_forward("flash_forward", p[0], p[1], p[2], p[3], p[4], &s), WB_BAD_ARGUMENT, word);
        p[bad] = memory + 2;
        snprintf(word, sizeof word, " %s is not aligned to %d", forward_names[bad], bad == 1 ? 4 : 16);
        refused(wb_check_forward("flash_forward", p[0], p[1], p[2], p[3], p[4], &s), WB_BAD_ARGUMENT, word);
    }
    static const char *const backward_names[] = {"dQ", "dK", "dV", "delta", "Q", "K", "V", "O", "L", "dO"};
    for (int bad = 0; bad < 10; bad++) {
        void *p[10];
        char word[32];
        for (int i = 0; i < 10; i++) p[i] = i == bad ? NULL : there;
        snprintf(word, sizeof word, " %s is null", backward_names[bad]);
        refused(wb_check_backward("flash_gqa_backward", p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], &s),
                WB_BAD_ARGUMENT, word);
    }
    attention_shape window = s;
    window.causal = window.window = 1;
    cr_expect(wb_check_sink_forward("flash_window", there, there, there, there, there, memory + 4, &window) == WB_OK);
    refused(wb_check_sink_forward("flash_window", there, there, there, there, there, NULL, &window), WB_BAD_ARGUMENT,
            " sink_logits is null");
    refused(wb_check_sink_forward("flash_window", there, there, there, there, there, memory + 2, &window),
            WB_BAD_ARGUMENT, " sink_logits is not aligned to 4");
    refused(wb_check_sink_forward("flash_window", there, there, NULL, there, there, there, &window), WB_BAD_ARGUMENT,
            " Q is null");
    static const char *const sink_names[] = {"dQ", "dK", "dV",          "dsinks", "delta", "Q",
                                             "K",  "V",  "sink_logits", "O",      "L",     "dO"};
    for (int bad = 0; bad < 12; bad++) {
        void *p[12];
        char word[32];
        for (int i = 0; i < 12; i++) p[i] = i == bad ? NULL : there;
        snprintf(word, sizeof word, " %s is null", sink_names[bad]);
        refused(wb_check_sink_backward("flash_sinks_backward", p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8],
                                       p[9], p[10], p[11], &window),
                WB_BAD_ARGUMENT, word);
    }
    refused(wb_check_row_sum("weighted_row_sum", NULL, there, there, 1, 1), WB_BAD_ARGUMENT, " y is null");
    refused(wb_check_row_sum("weighted_row_sum", there, memory + 1, there, 1, 1), WB_BAD_ARGUMENT, " x is not aligned");
    refused(wb_check_row_sum("weighted_row_sum", there, there, there, 0, 1), WB_BAD_ARGUMENT, "rows = 0");
    refused(wb_check_row_sum("weighted_row_sum", there, there, there, 1, -1), WB_BAD_ARGUMENT, "cols = -1");
    cr_expect(wb_check_row_sum("weighted_row_sum", there, memory + 2, memory + 2, 1, 1) == WB_OK, "%s",
              wb_last_message());
}

Test(validate, a_case_survives_its_text)
{
    const wb_problem *problem = wb_find_problem("flash_sinks");
    wb_case c = {.seed = 77, .input = WB_STAIRS, .null = "K", .offset = 2, .nan_from = 9, .nan_keys = 5}, back;
    c.shape = (attention_shape){.batch = 2, .q_heads = 6, .kv_heads = 3, .q_len = 33, .kv_len = 33, .head_dim = 32};
    c.shape.scale = 0.1f, c.shape.causal = 1, c.shape.window = 0, c.shape.sinks = -4;
    char text[WB_CASE_TEXT], again[WB_CASE_TEXT];
    wb_case_print(problem, &c, text);
    cr_assert(wb_case_parse(problem, text, &back) == WB_OK, "%s: %s", text, wb_last_message());
    wb_case_print(problem, &back, again);
    cr_expect(strcmp(text, again) == 0, "%s became %s", text, again);
    cr_expect(back.shape.scale == c.shape.scale && back.shape.window == 0 && back.shape.sinks == -4);
    cr_expect(back.nan_from == 9 && back.nan_keys == 5);

    static const char *const wrong[] = {"Nq", "Nq=", "Nq=5x", "size=5", "input=weird", "Nq=5,,D"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(wb_case_parse(problem, wrong[i], &back) == WB_BAD_ARGUMENT, "'%s' was taken", wrong[i]);
    refused(wb_case_parse(problem, "size=5", &back), WB_BAD_ARGUMENT, " Hkv ");
    refused(wb_case_parse(problem, "D=48,nan_queries=0", &back), WB_BAD_ARGUMENT, "names no Nq");
    refused(wb_case_parse(problem, "Nq=48", &back), WB_BAD_ARGUMENT, "names no D");
    refused(wb_case_parse(wb_find_problem("weighted_row_sum"), "rows=5", &back), WB_BAD_ARGUMENT, "names no cols");
    refused(wb_case_parse(problem, "input=weird", &back), WB_BAD_ARGUMENT, " stairs ");
    refused(wb_case_parse(wb_find_problem("weighted_row_sum"), "size=5", &back), WB_BAD_ARGUMENT, " cols ");
}

Test(validate, bf16_rounds_to_nearest_even)
{
    cr_expect(wb_to_bf16(1.0f) == 0x3f80);
    cr_expect(wb_to_bf16(1.0f + 0x1p-8f) == 0x3f80, "a tie goes to the even neighbour, below");
    cr_expect(wb_to_bf16(1.0f + 3 * 0x1p-8f) == 0x3f82, "a tie goes to the even neighbour, above");
    cr_expect(wb_to_bf16(1.0f + 0x1p-8f + 0x1p-20f) == 0x3f81);
    cr_expect(isnan(wb_from_bf16(wb_to_bf16(NAN))));
    cr_expect(isinf(wb_from_bf16(wb_to_bf16(3.4e38f))), "beyond the largest bf16");
    for (int bits = 0; bits < 0x7f80; bits++) cr_assert(wb_to_bf16(wb_from_bf16((uint16_t)bits)) == bits);
}

// Sink logits in the text of a case, and what they make.
Test(validate, sink_logits_of_a_case)
{
    wb_problem problem = *wb_find_problem("flash_window");
    problem.sink_logits = true;
    const struct {
        const char *text, *printed;
        float of_head[7];
    } all[] = {{"Hq=7,Hkv=1,Nq=3,D=16,logits=80", ",logits=80", {80, 80, 80, 80, 80, 80, 80}},
               {"Hq=7,Hkv=1,Nq=3,D=16,logits=-inf",
                ",logits=-inf",
                {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}},
               {"Hq=7,Hkv=1,Nq=3,D=16,logits=0", ",logits=0", {0}},
               {"Hq=7,Hkv=1,Nq=3,D=16,logits=mixed", ",logits=mixed", {3, -INFINITY, 0, 80, -80, -1, 3}}};
    wb_tensor t[WB_MAX_TENSORS];
    wb_case c;
    char text[WB_CASE_TEXT];
    float sinks[7];
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        cr_assert(wb_case_parse(&problem, all[k].text, &c) == WB_OK, "%s", wb_last_message());
        wb_case_print(&problem, &c, text);
        cr_expect(strstr(text, all[k].printed), "%s became %s", all[k].text, text);
        const int count = wb_case_tensors(&problem, &c, t), at = wb_tensor_named(t, count, "sink_logits");
        cr_assert(count == 6 && at == 5 && t[at].count == 7 && t[at].type == WB_FLOAT32 && !t[at].output);
        wb_case_fill(&problem, &c, &t[at], sinks);
        for (int h = 0; h < 7; h++) cr_expect(sinks[h] == all[k].of_head[h], "%s: head %d has %g", text, h, sinks[h]);
    }
    cr_assert(wb_case_parse(&problem, "Hq=7,Hkv=1,Nq=3,D=16", &c) == WB_OK);
    wb_case_fill(&problem, &c, &t[5], sinks);
    for (int h = 0; h < 7; h++) {
        cr_expect(sinks[h] > -6 && sinks[h] < 10, "head %d has %g", h, sinks[h]);
        for (int other = 0; other < h; other++) cr_expect(sinks[h] != sinks[other]);
    }
    refused(wb_case_parse(&problem, "logits=many", &c), WB_BAD_ARGUMENT, "logits=many");
    cr_expect(wb_tensor_named(t, 6, "dsinks") == -1);
}

// Inputs are what their names promise: mean 0 and variance 1, and the stated logits.
Test(validate, inputs_are_as_described)
{
    const wb_problem *problem = wb_find_problem("tiled_attention");
    wb_case c = {.shape = {.q_len = 64, .kv_len = 256, .head_dim = 64}, .seed = 5};
    wb_tensor t[WB_MAX_TENSORS];
    static float Q[64 * 64], K[256 * 64];
    for (int kind = 0; kind < WB_WORKED_1; kind++) {
        c.input = (wb_input)kind;
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
        const double at_0 = kind == WB_HUGE        ? 140
                            : kind == WB_TINY      ? -140
                            : kind == WB_EARLY_MAX ? 8
                            : kind == WB_FALLING   ? 200
                            : kind == WB_TOWER     ? 1000
                            : kind == WB_ABYSS     ? -30000
                                                   : 0;
        const double at_255 = kind == WB_HUGE       ? 140
                              : kind == WB_TINY     ? -140
                              : kind == WB_LATE_MAX ? 8
                              : kind == WB_STAIRS   ? 30
                              : kind == WB_RISING   ? 199
                              : kind == WB_TOWER    ? 1000
                              : kind == WB_ABYSS    ? -30000
                                                    : 0;
        cr_expect(fabs(logit[0] - at_0) < 4 + fabs(at_0) / 20, "input %d: key 0 has logit %g, not %g", kind, logit[0],
                  at_0);
        cr_expect(fabs(logit[255] - at_255) < 4 + fabs(at_255) / 20, "input %d: the last key has logit %g, not %g",
                  kind, logit[255], at_255);
    }
}

// V of the named keys is NaN in every head; nothing else is, and everything else is what it was.
Test(validate, keys_of_nan)
{
    const wb_problem *problem = wb_find_problem("flash_gqa");
    wb_case c = {.shape = {.batch = 2, .q_heads = 6, .kv_heads = 3, .q_len = 20, .head_dim = 16}, .seed = 3};
    c = wb_case_defaults(problem, c);
    wb_tensor t[WB_MAX_TENSORS];
    const int count = wb_case_tensors(problem, &c, t);
    static uint16_t plain[2 * 6 * 20 * 16], with[2 * 6 * 20 * 16];
    for (int k = 2; k < count; k++) {
        c.nan_from = c.nan_keys = 0;
        wb_case_fill(problem, &c, &t[k], plain);
        c.nan_from = 7, c.nan_keys = 4;
        wb_case_fill(problem, &c, &t[k], with);
        for (size_t i = 0; i < t[k].count; i++) {
            const size_t j = i / 16 % 20;
            if (*t[k].name == 'V' && j >= 7 && j < 11)
                cr_assert(isnan(wb_from_bf16(with[i])), "V of key %zu", j);
            else
                cr_assert(with[i] == plain[i], "%s, element %zu", t[k].name, i);
        }
    }
}

Test(types, elements_come_back)
{
    const struct {
        wb_type type;
        size_t bytes;
        double values[3], back[3];
    } types[] = {{WB_FLOAT32, 4, {-1.5, 16777216, 0x1p-140}, {-1.5, 16777216, 0x1p-140}},
                 {WB_BFLOAT16, 2, {-1.5, 257, 259}, {-1.5, 256, 260}},  // halfway cases go to the even neighbour
                 {WB_INT32, 4, {-1, 2147483647, -2147483648.0}, {-1, 2147483647, -2147483648.0}},
                 {WB_INT8, 1, {-127, 127, -128}, {-127, 127, -128}}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        char array[4 * 4];
        memset(array, 0x55, sizeof array);
        cr_expect(wb_type_bytes(types[k].type) == types[k].bytes);
        for (size_t i = 0; i < 3; i++) wb_put(types[k].type, array, i, types[k].values[i]);
        for (size_t i = 0; i < 3; i++)
            cr_expect(wb_get(types[k].type, array, i) == types[k].back[i], "%s: element %zu is %g",
                      wb_type_name(types[k].type), i, wb_get(types[k].type, array, i));
        for (size_t i = 3 * types[k].bytes; i < sizeof array; i++)
            cr_expect(array[i] == 0x55, "%s: wrote behind its elements", wb_type_name(types[k].type));
    }
}
