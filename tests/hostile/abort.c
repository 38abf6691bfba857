// expect: the worker died of signal 6
#include "workbook.h"

#include <stdlib.h>
#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    abort();
    return WB_OK;
}
