// hopper_window.cu - flash_sink_logits by 07's kernel for short windows on a Hopper GPU, with the logits instead of
// sink tokens: D = 64, W <= 129, groups of a multiple of 4. Everything else uses the reference solution.
// Random shapes that it is chosen for: 4 of 123 with sink logits (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "hopper.cuh"

namespace short_window
{
#define SINK_LOGITS
#include "../../07/variants/hopper.cu"
}
namespace any_window
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
    if (!short_window::suits(name, shape, 0))
        return any_window::flash_sink_logits(O, L, Q, K, V, sink_logits, shape, stream);
    const auto run = shape->q_heads / shape->kv_heads % 8 == 0 ? short_window::launch_window<8, 0>
                                                               : short_window::launch_window<4, 0>;
    return run(O, L, Q, K, V, sink_logits, shape, stream);
}

double flash_sink_logits_microseconds(const attention_shape *shape, const wb_device *device)
{
    return short_window::window_microseconds(shape, device);
}
