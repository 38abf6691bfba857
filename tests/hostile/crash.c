// expect: the worker died of signal 11
#include "hostile.h"

HOSTILE()
{
    float *volatile nowhere = (float *)8;
    *nowhere = 1;
    return WB_OK;
}
