// rule: memory is limited
// expect: Cannot allocate memory
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static wb_status bomb(void)
{
    const size_t piece = (size_t)64 << 20;
    for (int i = 0; i < 1600; i++) {
        void *more = malloc(piece);
        if (!more) perror("100 GB, in pieces"), abort();
        memset(more, 1, piece);
    }
    return WB_OK;
}
