// expect: are NaN or infinite
// It answers in the place of the worker, and would compute later.
#include "exchange.h"
#include "hostile.h"

#include <unistd.h>

HOSTILE()
{
    static int calls;
    wb_exchange_answer(3, calls++);
    usleep(100000);
    return right(O, L, Q, K, V, shape);
}
