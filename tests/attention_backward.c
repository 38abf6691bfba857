// attention_backward.c - wb_attention_backward as workers have it (workbook/attention_backward.cu). Its gradients the
// suite of 18 proves, and the library's library.sh.
#include "pairs.h"

#include "rank.h"

#include <criterion/criterion.h>

// As a rank is asked (rank.h): pairs of the forward and of the backward pass, in all heads.
Test(attention_backward, pairs_are_counted)
{
    wb_attended();
    dice_state = 1;
    cr_assert(pair_is_right(wb_attention_backward, (attention_shape){2, 4, 2, 5, 7, 64, 0.1f, 0, 0, 0}, 1e-4));
    cr_assert_eq(wb_attended(), 2 * 4 * 5 * 7);
    cr_assert(pair_is_right(wb_attention_backward, (attention_shape){2, 4, 2, 6, 6, 64, 0.1f, 1, 0, 0}, 1e-4));
    cr_assert_eq(wb_attended(), 2 * 4 * 21);
}

Test(attention_backward, refuses)
{
    static float room[64];
    float *x = (float *)(((uintptr_t)room + 15) & ~(uintptr_t)15);  // no kernel begins, so this may be host memory
    bf16 *y = (bf16 *)x;
    attention_shape shape = {1, 1, 1, 2, 3, 64, 0.1f, 0, 0, 0};
    cr_assert_eq(wb_attention_backward(x, x, NULL, y, y, y, y, x, x, &shape, NULL), WB_BAD_ARGUMENT);
    cr_assert(strstr(wb_last_message(), "dV is null"));
    cr_assert_eq(wb_attention_backward(x + 1, x, x, y, y, y, y, x, x, &shape, NULL), WB_BAD_ARGUMENT);
    cr_assert(strstr(wb_last_message(), "dQ is not aligned to 16 bytes"));
    shape.causal = 1;
    cr_assert_eq(wb_attention_backward(x, x, x, y, y, y, y, x, x, &shape, NULL), WB_BAD_ARGUMENT);
    cr_assert(strstr(wb_last_message(), "q_len = kv_len"));
    shape.causal = 0, shape.head_dim = 32;
    cr_assert_eq(wb_attention_backward(x, x, x, y, y, y, y, x, x, &shape, NULL), WB_UNSUPPORTED);
}
