// expect: the worker exited with 0 before it finished, in the function
#include "workbook.h"

#include <unistd.h>
#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    _exit(0);
    return WB_OK;
}
