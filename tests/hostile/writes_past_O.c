// expect: wrote outside of O: 1 element past its last one
#include "workbook.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    O[(size_t)shape->batch * shape->q_heads * shape->q_len * shape->head_dim] = 1;
    return WB_OK;
}
