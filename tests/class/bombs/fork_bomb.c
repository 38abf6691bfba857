// rule: a worker starts no processes
// expect: no answer in
#include <unistd.h>

static wb_status bomb(void)
{
    while (first) fork();
    return WB_OK;
}
