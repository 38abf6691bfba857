// rule: nothing of the judge can be sent a signal
// expect: NaN or infinite
#include <signal.h>
#include <unistd.h>

static wb_status bomb(void)
{
    kill(getppid(), SIGKILL);
    kill(1, SIGKILL);
    kill(-1, SIGKILL);
    return WB_OK;
}
