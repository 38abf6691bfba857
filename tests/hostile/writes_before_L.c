// expect: wrote outside of L: 4 bytes before its first element
#include "hostile.h"

HOSTILE()
{
    L[-1] = 1;
    return WB_OK;
}
