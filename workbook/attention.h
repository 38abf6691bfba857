// attention.h - the kernels of attention_backward.cu by their own name: the library calls them where it has none that is faster.
#pragma once

#include "workbook.h"

#ifdef __cplusplus
extern "C" {
#endif

// wb_attention_backward of arguments that have been checked, on any GPU.
wb_status wb_attention_backward_anywhere(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const bf16 *dO, const float *L, const float *delta,
                                         const attention_shape *shape, wb_stream stream);

#ifdef __cplusplus
}
#endif
