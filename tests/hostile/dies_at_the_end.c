// expect: the worker died of signal 6 (Aborted) after it had finished
#include "hostile.h"

#include <stdlib.h>

HOSTILE()
{
    static int calls;
    if (calls++ == 0) atexit(abort);
    return right(O, L, Q, K, V, shape);
}
