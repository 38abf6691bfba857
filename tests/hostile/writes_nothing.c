// expect: are NaN or infinite
#include "workbook.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{

    return WB_OK;
}
