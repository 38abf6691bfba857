// expect: the worker exited with 0 before it finished, in the function
#include "hostile.h"

#include <unistd.h>

HOSTILE()
{
    _exit(0);
    return WB_OK;
}
