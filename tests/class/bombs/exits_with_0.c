// rule: who ends in the function has not passed
// expect: the worker exited with 0 before it finished, in the function
#include <stdlib.h>

static wb_status bomb(void)
{
    exit(0);
    return WB_OK;
}
