// expect: the function returned 'unsupported'
// The memory that it shares with its test is a file, which it would make shorter; the test has sealed its size.
#include <unistd.h>

static wb_status bomb(void)
{
    if (ftruncate(3, 0)) return WB_UNSUPPORTED;
    return WB_OK;
}
