// Refuses every shape.
#include "workbook.h"

wb_status flash_sinks_backward(bf16 *, bf16 *, bf16 *, float *, const bf16 *, const bf16 *, const bf16 *, const bf16 *,
                               const float *, const bf16 *, const attention_shape *, wb_stream)
{
    return wb_fail(WB_UNSUPPORTED, "not today");
}
