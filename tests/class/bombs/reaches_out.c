// rule: no file of the judge or of the sandbox's own process is open, nothing can be written, no other process is seen
// expect: 0 open, 0 written, 2 processes
// What a test expects is in its own memory alone. The processes are the sandbox's first one and this one.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

static const char *const to_read[] = {"@ROOT@/solutions/01/tiled_attention.c",
                                      "/proc/1/root@ROOT@/solutions/01/tiled_attention.c",
                                      "/proc/self/cwd/../solutions/01/tiled_attention.c",
                                      "@BASE@/tests/01_tiled_attention.c",
                                      "@BASE@/build/cpu/tests/01_test",
                                      "@CANARY@/canary",
                                      "/proc/1/mem",
                                      "/proc/1/environ",
                                      "/proc/1/fd/0",
                                      NULL};
// oom_score_adj: who is ended first when memory runs out. clear_refs: the peak of its memory.
static const char *const to_write[] = {"/written",
                                       "/etc/written",
                                       "/usr/written",
                                       "/var/tmp/written",
                                       "/root/written",
                                       "@ROOT@/written",
                                       "@CANARY@/written",
                                       "/tmp/written",
                                       "/dev/shm/written",
                                       "written",
                                       "@CANARY@/canary",
                                       "/worker",
                                       "/usr/bin/true",
                                       "/proc/self/oom_score_adj",
                                       "/proc/self/mem",
                                       "/proc/self/clear_refs",
                                       NULL};

static int opened(const char *const *places, int how)
{
    int count = 0;
    for (; *places; places++) count += open(*places, how, 0666) >= 0;
    return count;
}

static wb_status bomb(void)
{
    const int written = opened(to_write, O_WRONLY) + opened(to_write, O_WRONLY | O_CREAT);
    int processes = 0;
    DIR *const all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));)
        processes += entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
    return wb_fail(WB_UNSUPPORTED, "%d open, %d written, %d processes", opened(to_read, O_RDONLY), written, processes);
}
