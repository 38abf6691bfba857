// expect: the test itself died of signal 9
#include "hostile.h"

#include <signal.h>
#include <unistd.h>

HOSTILE()
{
    kill(getppid(), SIGKILL);
    return WB_OK;
}
