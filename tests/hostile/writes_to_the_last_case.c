// expect: carries state from an earlier call
// test: every_head_dim
// Where the tensors of the call before were, there is nothing now, or those of this one.
#include "workbook.h"

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    static float *last;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (last) *last = 7;
    last = L;
    return status;
}
