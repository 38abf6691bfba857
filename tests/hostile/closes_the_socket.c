// expect: the worker exited with 0 after it had finished
#include "hostile.h"

#include <unistd.h>

HOSTILE()
{
    const wb_status status = right(O, L, Q, K, V, shape);
    close(3);
    return status;
}
