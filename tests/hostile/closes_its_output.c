// expect: no answer in 5 s, in the function
#include "hostile.h"

#include <unistd.h>

HOSTILE()
{
    close(1), close(2), sleep(1000);
    return WB_OK;
}
