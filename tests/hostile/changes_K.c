// expect: changed an input: K[b 0, h 0, i 0, d 3]
#include "hostile.h"

HOSTILE()
{
    ((float *)K)[3] = 1;
    return WB_OK;
}
