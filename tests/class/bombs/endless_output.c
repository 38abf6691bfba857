// expect: no answer in
#include <stdio.h>

static wb_status bomb(void)
{
    for (;;) puts("Score: 750/750");
    return WB_OK;
}
