// expect: no answer in 5 s, in the function
#include "hostile.h"

HOSTILE()
{
    volatile int i = 0;
    while (i == 0) {}
    return WB_OK;
}
