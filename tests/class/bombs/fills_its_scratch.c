// rule: a worker has no scratch: files are memory, too, and nobody counts it
// expect: scratch: full after 0 MB
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static wb_status bomb(void)
{
    static char piece[1 << 20];
    const char *const names[] = {"/tmp/much", "/dev/shm/much", "much"};
    int pieces = 0, file = -1;
    for (int i = 0; i < 3 && file < 0; i++) file = open(names[i], O_WRONLY | O_CREAT, 0600);
    while (pieces < 1000 && write(file, piece, sizeof piece) == (ssize_t)sizeof piece) pieces++;
    return wb_fail(WB_UNSUPPORTED, "scratch: full after %d MB", pieces);
}
