// expect: are NaN or infinite
// It answers in the place of the worker, and would compute later.
#include "workbook.h"

#include "exchange.h"

#include <unistd.h>

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    static int calls;
    wb_exchange_answer(3, calls++);
    usleep(100000);
    return right(O, L, Q, K, V, shape);
}
