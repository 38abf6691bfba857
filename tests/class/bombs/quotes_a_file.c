// rule: a report of a check build is shown, and opens no file but the workbook's own
// expect: does it at /etc/passwd:1
#include <stdio.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
__attribute__((constructor)) static void quote(void)
{
    printf("\n/etc/passwd:1: runtime error: index 1 out of bounds\n");
    fflush(stdout);
    _exit(66);
}
#endif
