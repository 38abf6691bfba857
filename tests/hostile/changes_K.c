// expect: changed an input: K[b 0, h 0, i 0, d 3]
#include "workbook.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    ((float *)K)[3] = 1;
    return WB_OK;
}
