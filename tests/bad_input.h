// bad_input.h - what every masked forward must refuse, in words, before anything is written. Each takes a good case, without
// defaults to fill in, and spoils it.
#ifndef TESTS_BAD_INPUT_H
#define TESTS_BAD_INPUT_H

#include "harness.h"

#include <math.h>
#include <stdio.h>

static inline wb_case good_case(void)
{
    return (wb_case){.shape = {.batch = 1,
                               .q_heads = 2,
                               .kv_heads = 2,
                               .q_len = 9,
                               .kv_len = 9,
                               .head_dim = 16,
                               .scale = 0.25f,
                               .causal = 1,
                               .window = 4,
                               .sinks = 1}};
}

// One field of a good shape replaced.
#define REFUSED(field, value, status, word)                                                                            \
    do {                                                                                                               \
        wb_case spoiled = good_case();                                                                                 \
        spoiled.shape.field = value;                                                                                   \
        check_rejected(spoiled, status, word);                                                                         \
    } while (0)

static inline void refuses_null(void)
{
    static const char *const names[] = {"O", "L", "Q", "K", "V"};
    for (int n = 0; n < 5; n++) {
        wb_case c = good_case();
        char word[16];
        c.null[0] = *names[n];
        snprintf(word, sizeof word, "%s is null", names[n]);
        check_rejected(c, WB_BAD_ARGUMENT, word);
    }
}

static inline void refuses_sizes(void)
{
    REFUSED(batch, 0, WB_BAD_ARGUMENT, "batch");
    REFUSED(q_heads, -1, WB_BAD_ARGUMENT, "q_heads");
    REFUSED(kv_heads, 0, WB_BAD_ARGUMENT, "kv_heads");
    REFUSED(q_len, 0, WB_BAD_ARGUMENT, "q_len");
    REFUSED(kv_len, -5, WB_BAD_ARGUMENT, "kv_len");
    REFUSED(head_dim, 0, WB_BAD_ARGUMENT, "head_dim");
    REFUSED(head_dim, 48, WB_UNSUPPORTED, "head_dim");
    REFUSED(head_dim, 256, WB_UNSUPPORTED, "head_dim");
    REFUSED(q_heads, 3, WB_BAD_ARGUMENT, "multiple");
    REFUSED(kv_heads, 4, WB_BAD_ARGUMENT, "multiple");
}

static inline void refuses_scales(void)
{
    REFUSED(scale, NAN, WB_BAD_ARGUMENT, "scale");
    REFUSED(scale, INFINITY, WB_BAD_ARGUMENT, "scale");
    REFUSED(scale, 0, WB_BAD_ARGUMENT, "scale");
    REFUSED(scale, -1, WB_BAD_ARGUMENT, "scale");
}

// Query i is the i-th token and so is key i: there must be as many of both. And the mask cannot be switched off.
static inline void refuses_what_is_not_causal(void)
{
    REFUSED(kv_len, 10, WB_BAD_ARGUMENT, "q_len = kv_len");
    REFUSED(q_len, 8, WB_BAD_ARGUMENT, "q_len = kv_len");
    REFUSED(causal, 0, WB_UNSUPPORTED, "causal must be 1");
}

static inline void refuses_misaligned(void)
{
    wb_case c = good_case();
    c.offset = 8;
    check_rejected(c, WB_BAD_ARGUMENT, "aligned");
}

#endif
