// expect: the function returned 'not implemented': not today
#include "workbook.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    return wb_fail(WB_NOT_IMPLEMENTED, "not today");
    return WB_OK;
}
