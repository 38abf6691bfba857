// rule: no note passes from one run to the next: the session's keys are out of reach
// expect: add_key: Function not implemented
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static wb_status bomb(void)
{
    const long key = syscall(SYS_add_key, "user", "workbook", "note", 4, -3 /* the session's */);
    return wb_fail(WB_UNSUPPORTED, "add_key: %s", key < 0 ? strerror(errno) : "done");
}
