// rule: the sandbox's own process is out of reach, and what is known of a process cannot be rewritten
// expect: 0 of 6 open
#include <fcntl.h>
#include <unistd.h>

static wb_status bomb(void)
{
    int open_ones = 0;
    open_ones += open("/proc/1/mem", O_RDONLY) >= 0;
    open_ones += open("/proc/1/environ", O_RDONLY) >= 0;
    open_ones += open("/proc/1/fd/0", O_RDONLY) >= 0;
    open_ones += open("/proc/self/oom_score_adj", O_WRONLY) >= 0;  // who is ended first when memory runs out
    open_ones += open("/proc/self/clear_refs", O_WRONLY) >= 0;     // the peak of its memory
    open_ones += open("/proc/self/mem", O_RDWR) >= 0;
    return wb_fail(WB_UNSUPPORTED, "%d of 6 open", open_ones);
}
