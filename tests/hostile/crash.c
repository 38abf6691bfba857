// expect: the worker died of signal 11
#include "workbook.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    float *volatile nowhere = (float *)8;
    *nowhere = 1;
    return WB_OK;
}
