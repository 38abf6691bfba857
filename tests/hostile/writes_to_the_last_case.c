// expect: carries state from an earlier call
// test: every_head_dim
// Where the tensors of the call before were, there is nothing now, or those of this one.
#include "hostile.h"

HOSTILE()
{
    static float *last;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (last) *last = 7;
    last = L;
    return status;
}
