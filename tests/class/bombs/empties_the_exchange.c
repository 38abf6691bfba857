// expect: the test program itself was ended from outside
// The memory that it shares with its test is a file, which it makes shorter.
#include <unistd.h>

static wb_status bomb(void)
{
    if (ftruncate(3, 0)) return WB_UNSUPPORTED;
    return WB_OK;
}
