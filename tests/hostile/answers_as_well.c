// expect: something answered in the place of the worker
// test: every_head_dim
// The worker's own answer is one too many.
#include "workbook.h"

#include "exchange.h"

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    static int calls;
    const wb_status status = right(O, L, Q, K, V, shape);
    wb_exchange_answer(3, calls++);
    return status;
}
