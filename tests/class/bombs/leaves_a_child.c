// rule: nothing outlives a case
// expect: NaN or infinite
#include <unistd.h>

static wb_status bomb(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) sleep(1000);
    }
    return WB_OK;
}
