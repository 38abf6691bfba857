// expect: the worker died of signal 6 (Aborted) after it had finished
#include "workbook.h"

#include <stdlib.h>

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    static int calls;
    if (calls++ == 0) atexit(abort);
    return right(O, L, Q, K, V, shape);
}
