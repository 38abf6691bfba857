// expect: no answer in 5 s, in the function
#include "workbook.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    volatile int i = 0;
    while (i == 0) {}
    return WB_OK;
}
