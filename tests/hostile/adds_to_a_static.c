// expect: carries state from an earlier call
// test: every_head_dim
// A sum that is never cleared: the first call is right.
#include "hostile.h"

HOSTILE()
{
    static float sum;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (status == WB_OK) O[0] += sum, sum += O[0];
    return status;
}
