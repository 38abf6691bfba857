// hostile.h - what code that cheats or dies begins with: right(), which is the answer key, and HOSTILE(), which is the signature.
#include "workbook.h"

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define HOSTILE()                                                                                                      \
    wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,                      \
                              const attention_shape *shape)
