// rule: what a worker shares with its test cannot be cut off
// expect: it printed  cannot be made shorter
// The memory that it shares with its test is a file, which it would make shorter; the test has sealed its size.
#include "exchange.h"

#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void before_main(void)
{
    char text[WB_CASE_TEXT];
    const int file = wb_exchange_receive(3, text);
    puts(ftruncate(file, 0) ? "cannot be made shorter" : "made shorter");
    fflush(stdout);
    _exit(1);
}

static wb_status bomb(void) { return WB_OK; }
