// expect: the function returned 'not implemented': not today
#include "hostile.h"

HOSTILE()
{
    return wb_fail(WB_NOT_IMPLEMENTED, "not today");
    return WB_OK;
}
