// rule: seconds that are slept add up, as those of a processor do
// expect: used up the 12 s of this problem
#include <unistd.h>

static wb_status bomb(void)
{
    sleep(3);
    return WB_OK;
}
