// expect: carries state from an earlier call
// test: every_head_dim
// A sum that is never cleared: the first call is right.
#include "workbook.h"

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    static float sum;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (status == WB_OK) O[0] += sum, sum += O[0];
    return status;
}
