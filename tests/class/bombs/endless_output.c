// rule: what is printed has no end, and costs nothing
// expect: no answer in
#include <stdio.h>

static wb_status bomb(void)
{
    while (first) puts("Score: 100/100");
    return WB_OK;
}
