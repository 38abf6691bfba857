// kernels.h - the kernels that the library chooses from, a row each: what it takes, a type of library.c; a function of
// workbook.h that it serves; its source; and its name and form, as library.mk, which reads this, links them, NAME_FORM.
// KERNEL_IN: it has forms with a workspace, NAME_in and NAME_workspace. The last row of a function refuses what none
// can do. A function that has no row here is its key.
//
// For workers of forms with a workspace: NN_FORM. What a function's suite asks for beyond that, and these give up: a
// workspace is memory, the fastest has other bits each time, and 08_in attends without a causal mask, too.
// exempt 08: memory
// exempt 08_in: memory bad_input_mask
// exempt 08_fastest: memory same_twice bad_input_mask
// exempt 09: memory
// exempt 09_in: memory
// exempt 12: memory
// exempt 12_in: memory
// clang-format off
KERNEL(forward, flash_hopper, "10/variants/hopper_short", flash_hopper, hopper_short)
KERNEL(forward, flash_hopper, "10/variants/hopper_split", flash_hopper, hopper_split)
KERNEL(forward, flash_hopper, "10/variants/hopper_walk", flash_hopper, hopper_walk)
KERNEL(forward, flash_hopper, "10/variants/hopper_walk_wide", flash_hopper, hopper_walk_wide)
KERNEL(forward, flash_hopper, "10/variants/hopper_walk_narrow", flash_hopper, hopper_walk_narrow)
KERNEL(forward, flash_hopper, "10/flash_hopper", flash_hopper, key)
BY_HOPPER(flash_forward)
KERNEL(forward, flash_forward, "03/variants/hopper", flash_forward, hopper)
KERNEL(forward, flash_forward, "03/flash_forward", flash_forward, key)
BY_HOPPER(flash_causal)
KERNEL(forward, flash_causal, "05/variants/hopper", flash_gqa, hopper)
KERNEL(forward, flash_causal, "04/flash_causal", flash_causal, key)
BY_HOPPER(flash_gqa)
KERNEL(forward, flash_gqa, "05/variants/hopper", flash_gqa, hopper)
KERNEL(forward, flash_gqa, "05/flash_gqa", flash_gqa, key)
KERNEL_IN(backward, flash_gqa_backward, "08/variants/one_launch", flash_gqa_backward, one_launch)
KERNEL_IN(backward, flash_gqa_backward, "08/variants/hopper_same_bits", flash_gqa_backward, hopper_same_bits)
KERNEL(backward, flash_gqa_backward, "08/flash_gqa_backward", flash_gqa_backward, key)
KERNEL_IN(backward, flash_gqa_backward_fastest, "08/variants/one_launch", flash_gqa_backward, one_launch)
KERNEL_IN(backward, flash_gqa_backward_fastest, "08/variants/hopper_same_bits", flash_gqa_backward, hopper_same_bits)
KERNEL_IN(backward, flash_gqa_backward_fastest, "08/variants/hopper", flash_gqa_backward, hopper)
KERNEL(backward, flash_gqa_backward_fastest, "08/flash_gqa_backward", flash_gqa_backward, key)
KERNEL(forward, flash_window, "07/variants/hopper_short", flash_sinks, hopper_short)
KERNEL(forward, flash_window, "07/variants/hopper", flash_sinks, hopper)
KERNEL(forward, flash_window, "07/variants/hopper_any_window", flash_sinks, hopper_any_window)
KERNEL(forward, flash_window, "06/flash_window", flash_window, key)
KERNEL(forward, flash_sinks, "07/variants/hopper_short", flash_sinks, hopper_short)
KERNEL(forward, flash_sinks, "07/variants/hopper", flash_sinks, hopper)
KERNEL(forward, flash_sinks, "07/variants/hopper_any_window", flash_sinks, hopper_any_window)
KERNEL(forward, flash_sinks, "07/flash_sinks", flash_sinks, key)
KERNEL(backward, flash_sinks_backward, "09/variants/one_launch", flash_sinks_backward, one_launch)
KERNEL(backward, flash_sinks_backward, "09/variants/hopper", flash_sinks_backward, hopper)
KERNEL_IN(backward, flash_sinks_backward, "09/variants/hopper_any_window", flash_sinks_backward, hopper_any_window)
KERNEL(backward, flash_sinks_backward, "09/flash_sinks_backward", flash_sinks_backward, key)
KERNEL(sink_forward, flash_sink_logits, "11/variants/hopper_short", flash_sink_logits, hopper_short)
KERNEL(sink_forward, flash_sink_logits, "11/variants/hopper_window", flash_sink_logits, hopper_window)
KERNEL(sink_forward, flash_sink_logits, "11/variants/hopper_any_window", flash_sink_logits, hopper_any_window)
KERNEL(sink_forward, flash_sink_logits, "11/flash_sink_logits", flash_sink_logits, key)
KERNEL(sink_backward, flash_sink_logits_backward, "12/variants/one_launch", flash_sink_logits_backward, one_launch)
KERNEL(sink_backward, flash_sink_logits_backward, "12/variants/hopper_window",
       flash_sink_logits_backward, hopper_window)
KERNEL_IN(sink_backward, flash_sink_logits_backward, "12/variants/hopper", flash_sink_logits_backward, hopper)
KERNEL(sink_backward, flash_sink_logits_backward, "12/flash_sink_logits_backward", flash_sink_logits_backward, key)
KERNEL(block_mask_forward, flash_block_mask, "15/variants/hopper", flash_block_mask, hopper)
KERNEL(block_mask_forward, flash_block_mask, "15/flash_block_mask", flash_block_mask, key)
DECODE(decode, flash_decode, "13/variants/one_block", flash_decode, one_block)
DECODE(decode, flash_decode, "13/variants/hopper", flash_decode, hopper)
DECODE(decode, flash_decode, "13/flash_decode", flash_decode, key)
DECODE(decode_int8, flash_decode_int8, "14/variants/one_block", flash_decode_int8, one_block)
DECODE(decode_int8, flash_decode_int8, "14/variants/hopper", flash_decode_int8, hopper)
DECODE(decode_int8, flash_decode_int8, "14/flash_decode_int8", flash_decode_int8, key)
// clang-format on
#undef KERNEL
#undef KERNEL_IN
#undef DECODE
#undef BY_HOPPER
