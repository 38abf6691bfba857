// rule: every case has a time limit, and what is printed without end costs nothing
// expect: no answer in
#include <stdio.h>

static wb_status bomb(void)
{
    while (first) puts("Score: 100/100");
    return WB_OK;
}
