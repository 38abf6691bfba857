// rule: seconds that are slept add up, as those of a processor do
// expect: used up the 2 s of this problem
#include <unistd.h>

static wb_status bomb(void)
{
    usleep(400000);
    return WB_OK;
}
