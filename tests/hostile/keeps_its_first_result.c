// expect: carries state from an earlier call
// test: hostile_numbers
// Shapes as in the call before: so is the result.
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

HOSTILE()
{
    static float *kept;
    static attention_shape of;
    const size_t rows = (size_t)shape->batch * shape->q_heads * shape->q_len, count = rows * shape->head_dim;
    if (!kept || memcmp(&of, shape, sizeof of)) {
        const wb_status status = right(O, L, Q, K, V, shape);
        if (status != WB_OK) return status;
        of = *shape;
        kept = realloc(kept, (count + rows) * sizeof *kept);
        memcpy(kept, O, count * sizeof *kept);
        memcpy(kept + count, L, rows * sizeof *kept);
    }
    memcpy(O, kept, count * sizeof *kept);
    memcpy(L, kept + count, rows * sizeof *kept);
    return WB_OK;
}
