// rule: the memory of a check build is limited, and what nobody can count is too much: its first thread has gone
// expect: the worker died of signal 9
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void *hoard(void *unused)
{
    for (char *piece; (piece = malloc((size_t)64 << 20));) memset(piece, 1, (size_t)64 << 20);
    return unused;
}
__attribute__((constructor)) static void two_threads(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, hoard, NULL) == 0) syscall(SYS_exit, 0);
}
#endif
