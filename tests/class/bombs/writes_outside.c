// rule: nothing but a scratch of its own can be written
// expect: 0 of 9 written
#include <fcntl.h>
#include <unistd.h>

static wb_status bomb(void)
{
    const char *const places[] = {"/written",         "/etc/written",  "/usr/written",
                                  "/var/tmp/written", "/root/written", "@ROOT@/written",
                                  "@CANARY@/written", "/worker",       "/usr/bin/true"};
    int written = 0;
    for (int i = 0; i < 9; i++) {
        const int file = open(places[i], O_WRONLY | O_CREAT, 0666);
        written += file >= 0 && write(file, "written", 7) == 7;
    }
    return wb_fail(WB_UNSUPPORTED, "%d of 9 written", written);
}
