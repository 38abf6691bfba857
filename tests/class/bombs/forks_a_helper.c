// rule: what a child would have computed counts, since there is none
// expect: fork: Function not implemented
#include <errno.h>
#include <string.h>
#include <unistd.h>

static wb_status bomb(void)
{
    const pid_t child = fork();
    if (child == 0) _exit(0);
    return wb_fail(WB_UNSUPPORTED, "fork: %s", child < 0 ? strerror(errno) : "done");
}
