// rule: memory from before main counts: a matrix of scores may not lie there
// expect: is there a matrix of scores somewhere?
#include <stdlib.h>
#include <string.h>

static char *volatile hoard;
__attribute__((constructor)) static void before_main(void)
{
    hoard = (char *)malloc((size_t)150 << 20);
    if (hoard) memset(hoard, 1, (size_t)150 << 20);
}
