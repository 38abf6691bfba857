// expect: carries state from an earlier call
// test: ragged
// Room for as many rows as the first call had.
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

HOSTILE()
{
    static float *rows;
    static size_t room;
    const size_t count = (size_t)shape->batch * shape->q_heads * shape->q_len * shape->head_dim;
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (!rows) rows = malloc(count * sizeof *rows), room = count;
    float *all = malloc(count * sizeof *all);
    right(all, L, Q, K, V, shape);
    memcpy(rows, all, (count < room ? count : room) * sizeof *rows);
    memcpy(O, rows, (count < room ? count : room) * sizeof *rows);
    free(all);
    return WB_OK;
}
