// naive.h - the baselines of the problems: what a competent person writes before reading the FlashAttention paper.
#pragma once

#include "workbook.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of problem 01: arguments, results and errors of tiled_attention. Holds one head's whole score matrix, 4 Nq Nk bytes,
// in memory; WB_OUT_OF_MEMORY if there is no room for it. OpenBLAS and the softmax use all threads.
wb_status naive_cpu(float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *shape);

// The others, on a GPU. Arguments, results and errors of flash_forward and its followers, for all of their masks:
// causal if shape->causal, with a sliding window if shape->window > 0 as well, with sinks if shape->sinks > 0 as well.
// Needs no multiple of anything.
//
// The score matrix of all heads, [B, Hq, Nq, Nk] in float32, stands in device memory; the weights P, in bf16, take its
// place. The work space stays allocated for the next call, as a framework's caching allocator would keep it, until
// naive_gpu_release(). One call at a time.
wb_status naive_gpu_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                              const attention_shape *shape, wb_stream stream);

// Arguments, results and errors of flash_gqa_backward and flash_sinks_backward. Five products of cuBLAS; S and dP of
// all heads stand in device memory, P and dS take their places.
wb_status naive_gpu_attention_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
                                       const bf16 *V, const bf16 *O, const float *L, const bf16 *dO,
                                       const attention_shape *shape, wb_stream stream);

// The same of flash_sink_logits and flash_sink_logits_backward. sink_logits: float32 [Hq] in device memory; null: none.
wb_status naive_gpu_sink_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                   const float *sink_logits, const attention_shape *shape, wb_stream stream);
wb_status naive_gpu_sink_attention_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q,
                                            const bf16 *K, const bf16 *V, const float *sink_logits, const bf16 *O,
                                            const float *L, const bf16 *dO, const attention_shape *shape,
                                            wb_stream stream);

// flash_decode with one block per query head, whatever the GPU and the lengths: its warps take the keys in turn, each a
// key at a time. Wants no workspace.
wb_status naive_gpu_decode(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table,
                           const int *kv_len, void *workspace, size_t workspace_bytes, const decode_shape *shape,
                           wb_stream stream);

// The same of flash_decode_int8: each element is multiplied by its row's scale where it is read.
wb_status naive_gpu_decode_int8(bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V,
                                const float *K_scale, const float *V_scale, const int *page_table, const int *kv_len,
                                void *workspace, size_t workspace_bytes, const decode_shape *shape, wb_stream stream);

// The same of flash_fp8: Q, K and V become bf16 first. levels is not read.
wb_status naive_gpu_fp8(bf16 *O, float *L, const uint8_t *Q, const uint8_t *K, const uint8_t *V,
                        const int8_t *Q_exponent, const int8_t *K_exponent, const int8_t *V_exponent, int levels,
                        const attention_shape *shape, wb_stream stream);

// The same of flash_block_mask. The mask is first written out, a byte a pair, beside the score matrix: that is what "a
// boolean mask" is to a framework's plain attention. How much longer that takes is part of the time; it is little
// beside the scores of all heads.
wb_status naive_gpu_masked_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                     const block_mask *mask, const attention_shape *shape, wb_stream stream);

// Bytes of a score matrix; the backward has two.
size_t naive_gpu_score_bytes(const attention_shape *shape);

// weighted_row_sum with one thread a row.
wb_status naive_gpu_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream);

// Waits for the device and frees the work space.
wb_status naive_gpu_release(void);

// What computes the two products: "cuBLAS", or "plain loop" on the cpu backend.
const char *naive_gpu_products(void);

#ifdef __cplusplus
}
#endif
