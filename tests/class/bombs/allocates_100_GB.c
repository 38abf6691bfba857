// rule: memory is limited
// expect: Cannot allocate memory
#include <stdio.h>
#include <stdlib.h>

static wb_status bomb(void)
{
    const size_t piece = (size_t)64 << 20;
    for (int i = 0; i < 1600; i++) {
        volatile char *more = malloc(piece);
        if (!more) perror("100 GB, in pieces"), abort();
        *more = 1;  // the limit is one of addresses: filling 2 GB in each test took a minute and showed no more
    }
    return WB_OK;
}
