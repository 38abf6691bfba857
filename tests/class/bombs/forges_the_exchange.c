// expect: NaN or infinite
// Before main it writes what the worker would: stage done, status ok, no memory used. The outputs are not there.
#include <sys/mman.h>
#include <unistd.h>

__attribute__((constructor)) static void before_main(void)
{
    int *exchange = (int *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    if (exchange == MAP_FAILED) return;
    exchange[0] = 3;
    _exit(0);
}

static wb_status bomb(void) { return WB_OK; }
