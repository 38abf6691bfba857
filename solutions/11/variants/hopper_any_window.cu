// hopper_any_window.cu - flash_sink_logits by 07's kernel for any window or none on a Hopper GPU, with the logits
// instead of sink tokens. Other GPUs use the reference solution.
// Random shapes that it is chosen for: 67 of 123 with sink logits (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "hopper.cuh"

namespace walks
{
#define SINK_LOGITS
#include "../../07/variants/hopper_any_window.cu"
}
namespace not_hopper
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
    const auto go = walks::walks_here(name) ? walks::walk_on_hopper<false> : not_hopper::flash_sink_logits;
    return go(O, L, Q, K, V, sink_logits, shape, stream);
}

double flash_sink_logits_microseconds(const attention_shape *shape, const wb_device *device)
{
    return walks::window_microseconds(shape, device);
}
