// expect: the worker exited with 0 after it had finished
#include "workbook.h"

#include <unistd.h>

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = right(O, L, Q, K, V, shape);
    close(3);
    return status;
}
