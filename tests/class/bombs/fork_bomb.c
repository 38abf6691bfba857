// rule: a worker starts no processes
// expect: no answer in
#include <unistd.h>

static wb_status bomb(void)
{
    for (;;) fork();
    return WB_OK;
}
