// attention.h - the kernels of attention_backward.cu by their own name: the library calls them where it has none that
// is faster.
#pragma once

#include "workbook.h"

#ifdef __cplusplus
extern "C" {
#endif

// wb_attention_backward of arguments that have been checked, on any GPU.
wb_status wb_attention_backward_anywhere(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const bf16 *dO, const float *L, const float *delta,
                                         const attention_shape *shape, wb_stream stream);

// How many pairs of a query and a key such a call looks at.
static inline uint64_t wb_pairs(const attention_shape *shape)
{
    const uint64_t N = (uint64_t)shape->q_len, pairs = shape->causal ? N * (N + 1) / 2 : N * (uint64_t)shape->kv_len;
    return pairs * (uint64_t)shape->batch * (uint64_t)shape->q_heads;
}

#ifdef __cplusplus
}
#endif
