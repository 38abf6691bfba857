// hopper_short.cu - flash_sink_logits by 10's kernel for short sequences, with the logits instead of sink tokens.
// Everything else, and GPUs other than sm_90, use the reference solution.
// Random shapes that it is chosen for: 45 of 123 with sink logits (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "hopper.cuh"

namespace in_short
{
#define WINDOWS
#include "../../10/variants/hopper_short.cu"
}
namespace no_hopper
{
#include "../flash_sink_logits.cu"
}

wb_status flash_sink_logits(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_sink_logits";
    const wb_status status = wb_check_sink_forward(name, O, L, Q, K, V, sink_logits, shape);
    if (status != WB_OK) return status;
    if (shape->head_dim < 64 || check_hopper(name) != WB_OK)
        return no_hopper::flash_sink_logits(O, L, Q, K, V, sink_logits, shape, stream);
    attention_shape without = *shape;
    without.sinks = 0;
    return in_short::launch_short<in_short::WINDOW>(O, L, Q, K, V, sink_logits, &without, stream);
}

double flash_sink_logits_microseconds(const attention_shape *shape, const wb_device *device)
{
    return in_short::short_microseconds(shape, device, in_short::WINDOW);
}
