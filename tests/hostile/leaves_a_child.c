// expect: O differs from the oracle
#include "hostile.h"

#include <unistd.h>

HOSTILE()
{
    if (fork() == 0) sleep(1000);
    return WB_OK;
}
