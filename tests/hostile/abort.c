// expect: the worker died of signal 6
#include "hostile.h"

#include <stdlib.h>

HOSTILE()
{
    abort();
    return WB_OK;
}
