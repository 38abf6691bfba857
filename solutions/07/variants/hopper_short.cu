// hopper_short.cu - flash_sinks by 10's kernel for short sequences, in which a block has 64 queries and three or four
// blocks share an SM. Everything else, and GPUs other than sm_90, use hopper_any_window.cu.
// Random shapes that it is chosen for: 70 of 215 forward passes with a window, 14 of 34 with sinks (records of `make
// duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "tile.cuh"
#include "hopper.cuh"

namespace in_short
{
#define WINDOWS
#include "../../10/variants/hopper_short.cu"
}
namespace any_window
{
#include "hopper_any_window.cu"
}

wb_status flash_sinks(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_sinks", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (shape->head_dim < 64 || check_hopper("flash_sinks") != WB_OK)
        return any_window::flash_sinks(O, L, Q, K, V, shape, stream);
    return in_short::launch_short<in_short::WINDOW>(O, L, Q, K, V, nullptr, shape, stream);
}

double flash_sinks_microseconds(const attention_shape *shape, const wb_device *device)
{
    return in_short::short_microseconds(shape, device, in_short::WINDOW);
}
