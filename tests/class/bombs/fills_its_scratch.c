// rule: the scratch is small: files in it are memory, too
// expect: scratch: full after 16 MB
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static wb_status bomb(void)
{
    static char piece[1 << 20];
    const int file = open("/tmp/much", O_WRONLY | O_CREAT, 0600);
    int pieces = 0;
    while (pieces < 1000 && write(file, piece, sizeof piece) == (ssize_t)sizeof piece) pieces++;
    return wb_fail(WB_UNSUPPORTED, "scratch: full after %d MB", pieces);
}
