// validate.c - what the suites of keys cannot see of the validator and the text of cases. That inputs are as hostile as
// their names say, wrong solutions prove (01: no_max, m_starts_at_0, max_of_this_tile_only).
#include "case/case.h"
#include "memory.h"
#include "rank.h"

#include <criterion/criterion.h>
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

// What a ring calls for each pair of chunks.
Test(validate, gradients_of_a_pair)
{
    attention_shape s = good();
#define REFUSED(dQ, dV, status, word) \
    refused(wb_check_attention_backward(dQ, there, dV, there, there, there, there, there, there, &s), status, word)
    REFUSED(there, NULL, WB_BAD_ARGUMENT, "dV is null");
    REFUSED(memory + 4, there, WB_BAD_ARGUMENT, "dQ is not aligned to 16 bytes");
    s.causal = 1, s.kv_len = 6;
    REFUSED(there, there, WB_BAD_ARGUMENT, "q_len = kv_len");
    s.causal = 0, s.head_dim = 32;
    REFUSED(there, there, WB_UNSUPPORTED, "head_dim");

    // As a rank is asked (rank.h): how many pairs of queries and keys, in all heads.
    void *x;
    s = (attention_shape){2, 4, 2, 6, 6, 64, 0.1f, 0, 0, 0};
    cr_assert(wb_device_alloc(&x, 1 << 16) == WB_OK && wb_device_fill(x, 0, 1 << 16) == WB_OK);
    for (wb_attended(); s.causal < 2; s.causal++) {
        cr_assert_eq(wb_attention_backward(x, x, x, x, x, x, x, x, x, &s, NULL), WB_OK);
        cr_expect_eq(wb_attended(), 2u * 4 * (s.causal ? 21 : 36));
    }
    wb_device_free(x);
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

// Pages of a cache lie in no order, and some are nobody's: a kernel that does not look them up finds other keys.
Test(validate, pages_lie_in_no_order)
{
    wb_case c = {.shape = {2, 4, 2, 2, 700, 16, 1, 0, 0, 0}, .page = 16, .seed = 3};
    for (; c.shared < 2; c.shared++) {
        wb_pages p = wb_pages_make(&c);
        int used = 0, in_order = 0, same = 0;
        for (int k = 0; k < 2 * p.shape.max_pages; k++) {
            if (p.table[k] < 0) continue;
            used++;
            in_order += k > 0 && p.table[k] == p.table[k - 1] + 1;
            same += k >= p.shape.max_pages && p.table[k] == p.table[k - p.shape.max_pages];
        }
        cr_expect(used == 88 && used < p.shape.pages && in_order < 8 && (same > 0) == c.shared,
                  "of %d pages %d are used, %d in order, %d shared", p.shape.pages, used, in_order, same);
        wb_pages_free(&p);
    }
}
