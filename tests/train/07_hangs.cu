// Never returns.
#include "workbook.h"

wb_status flash_sinks(bf16 *, float *, const bf16 *, const bf16 *, const bf16 *, const attention_shape *, wb_stream)
{
    for (volatile int busy = 1; busy;) {}
    return WB_OK;
}
