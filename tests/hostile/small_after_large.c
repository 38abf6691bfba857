// expect: carries state from an earlier call
// test: ragged
// Never wrong as long as no call has fewer keys than the one before, as when cases come with the simplest first.
#include "workbook.h"

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    static int most;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (shape && shape->kv_len < most) O[0] += 1;
    if (shape && shape->kv_len > most) most = shape->kv_len;
    return status;
}
