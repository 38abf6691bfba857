// rule: a check build that ends early is not clean, whatever it prints
// expect: before it called the function
#include <stdio.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
__attribute__((constructor)) static void leave(void)
{
    printf("returned: ok\n  nothing found in 7 cases\n");
    fflush(stdout);
    _exit(0);
}
#endif
