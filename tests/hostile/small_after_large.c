// expect: carries state from an earlier call
// test: ragged
// Never wrong as long as no call has fewer keys than the one before, as when cases come with the simplest first.
#include "hostile.h"

HOSTILE()
{
    static int most;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (shape && shape->kv_len < most) O[0] += 1;
    if (shape && shape->kv_len > most) most = shape->kv_len;
    return status;
}
