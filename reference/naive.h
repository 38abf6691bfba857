// naive.h - the baselines of the problems: what a competent person writes before reading the FlashAttention paper.
#pragma once

#include "workbook.h"

__BEGIN_DECLS

// Each has the arguments, results and errors of the function whose type it has; none wants a multiple of anything.

// Holds one head's whole score matrix, 4 Nq Nk bytes, in memory; WB_OUT_OF_MEMORY if there is no room for it. OpenBLAS
// and the softmax use all threads.
extern __typeof__(tiled_attention) naive_cpu;

// The others, on a GPU, and for all masks: causal if shape->causal, with a sliding window if shape->window > 0 as well,
// with sinks if shape->sinks > 0 as well; sink_logits may be null: none.
//
// The score matrix of all heads, [B, Hq, Nq, Nk] in float32, stands in device memory; the weights P, in bf16, take its
// place. The work space stays allocated for the next call, as a framework's caching allocator would keep it, until
// naive_gpu_release(). One call at a time.
extern __typeof__(flash_forward) naive_gpu_attention;
extern __typeof__(flash_sink_logits) naive_gpu_sink_attention;

// Five products of cuBLAS; S and dP of all heads stand in device memory, P and dS take their places.
extern __typeof__(flash_gqa_backward) naive_gpu_attention_backward;
extern __typeof__(flash_sink_logits_backward) naive_gpu_sink_attention_backward;

// One block per query head, whatever the GPU and the lengths: its warps take the keys in turn, each a key at a time.
// Wants no workspace. Of int8 each element is multiplied by its row's scale where it is read.
extern __typeof__(flash_decode) naive_gpu_decode;
extern __typeof__(flash_decode_int8) naive_gpu_decode_int8;

// Q, K and V become bf16 first. levels is not read.
extern __typeof__(flash_fp8) naive_gpu_fp8;

// The mask is first written out, a byte a pair, beside the score matrix: that is what "a boolean mask" is to a
// framework's plain attention.
extern __typeof__(flash_block_mask) naive_gpu_masked_attention;

// One thread a row.
extern __typeof__(weighted_row_sum) naive_gpu_row_sum;

// Bytes of a score matrix; the backward has two.
size_t naive_gpu_score_bytes(const attention_shape *shape);

// Waits for the device and frees the work space.
wb_status naive_gpu_release(void);

// What computes the two products: "cuBLAS", or "plain loop" on the cpu backend.
const char *naive_gpu_products(void);

__END_DECLS
