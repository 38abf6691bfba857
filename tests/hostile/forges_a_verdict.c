// expect: O differs from the oracle
#include "workbook.h"

#include <stdio.h>
#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    for (int i = 0; i < 20000; i++) puts("ok - tiled_attention::given_case\n1 passed, 0 failed, 0 skipped");
    return WB_OK;
}
