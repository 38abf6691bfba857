// expect: something answered in the place of the worker
// test: every_head_dim
// The worker's own answer is one too many.
#include "exchange.h"
#include "hostile.h"

HOSTILE()
{
    static int calls;
    const wb_status status = right(O, L, Q, K, V, shape);
    wb_exchange_answer(3, calls++);
    return status;
}
