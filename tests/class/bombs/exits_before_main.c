// rule: who ends before the function was called has not passed
// expect: the worker exited with 0 before it finished, before it called the function
#include <unistd.h>

__attribute__((constructor)) static void before_main(void) { _exit(0); }

static wb_status bomb(void) { return WB_OK; }
