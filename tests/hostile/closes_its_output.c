// expect: no answer in 5 s, in the function
#include "workbook.h"

#include <unistd.h>
#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    close(1), close(2), sleep(1000);
    return WB_OK;
}
