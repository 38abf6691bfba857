// rule: no process of the judge is seen
// expect: 2 processes, the outputs of none
// What the test expects is in the test's own memory alone. The processes here are the sandbox's first one and this one.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static wb_status bomb(void)
{
    int processes = 0, tests = 0;
    for (int id = 1; id < 100000; id++) {
        char path[64], name[256] = "";
        snprintf(path, sizeof path, "/proc/%d/cmdline", id);
        const int file = open(path, O_RDONLY);
        if (file < 0) continue;
        processes++;
        if (read(file, name, sizeof name - 1) > 0 && strstr(name, "_test")) tests++;
        close(file);
    }
    return wb_fail(WB_UNSUPPORTED, "%d processes, the outputs of %s", processes, tests ? "one" : "none");
}
