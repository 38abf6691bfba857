// expect: wrote outside of O: 1 element past its last one
#include "hostile.h"

HOSTILE()
{
    O[(size_t)shape->batch * shape->q_heads * shape->q_len * shape->head_dim] = 1;
    return WB_OK;
}
