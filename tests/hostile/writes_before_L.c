// expect: wrote outside of L: 4 bytes before its first element
#include "workbook.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    L[-1] = 1;
    return WB_OK;
}
