// Ends its process.
#include "workbook.h"

#include <stdlib.h>

wb_status flash_sinks(bf16 *, float *, const bf16 *, const bf16 *, const bf16 *, const attention_shape *, wb_stream)
{
    abort();
}
