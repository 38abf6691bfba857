// 13_flash_decode.c - flash_decode: equal shares of all keys, pages, packed rows, the merge.
#include "decode.h"

TEST_PROBLEM(flash_decode)

// The lesson's six keys, and its two new tokens.
Test(flash_decode, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 1, 1, 6, 16, 16, WB_LENS_SAME));
    check_worked(c, "O", (double[]){0.5084, 0.4916}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.1957}, 1, 4e-3);
    c.shape.q_len = 2;
    check_worked(c, "O", (double[]){0.4919, 0.5081}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.0296, 2.0040}, 2, 4e-3);
}

PAGED(flash_decode, one_tile)
PAGED(flash_decode, one_key)
PAGED(flash_decode, long_sequence)
PAGED(flash_decode, keys_are_shared)
PAGED(flash_decode, many_processors)
PAGED(flash_decode, every_length)
PAGED(flash_decode, every_page_size)
PAGED(flash_decode, mixed_lengths)

PAGED(flash_decode, many_sequences)
PAGED(flash_decode, no_keys)
PAGED(flash_decode, new_tokens)
PAGED(flash_decode, many_rows)
PAGED(flash_decode, parts_that_see_nothing)
PAGED(flash_decode, every_input)
PAGED(flash_decode, scales)
PAGED(flash_decode, layer_of_a_model)
PAGED(flash_decode, drawn_sizes)
PAGED(flash_decode, own_stream)
PAGED(flash_decode, same_twice)
PAGED(flash_decode, memory)
PAGED(flash_decode, shifted_tensors)
PAGED(flash_decode, bad_input_null)
PAGED(flash_decode, bad_input_sizes)
PAGED(flash_decode, bad_input_scale)
PAGED(flash_decode, bad_input_workspace)
PAGED(flash_decode, bad_input_alignment)
