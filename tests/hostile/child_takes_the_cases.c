// expect: carries state from an earlier call
// test: every_head_dim
// A child keeps the socket, and answers without computing.
#include "workbook.h"

#include "exchange.h"

#include <sys/mman.h>
#include <unistd.h>

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    static int calls;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (calls++ == 0 && fork() == 0) {
        char text[WB_CASE_TEXT];
        setsid();
        for (int file; (file = wb_exchange_receive(3, text)) >= 0;) {
            wb_exchange *x = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            x->stage = WB_STAGE_DONE;
            wb_exchange_answer(3, calls++);
        }
        _exit(0);
    }
    if (calls == 1) usleep(20000);
    return status;
}
