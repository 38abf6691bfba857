// one_launch.cu - flash_sinks_backward on a Hopper GPU for short sequences: 08's kernel of the same name, in one launch
// and without a workspace, which evaluates the mask for each pair of tiles. D = 64 or 128; other cases use
// the reference solution.
// Random shapes that it is chosen for: 52 of 215 backward passes with a window, 15 of 34 with sinks (records of `make
// duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

namespace for_other_shapes
{
#include "../flash_sinks_backward.cu"
}
namespace of_08
{
#define OF_ANOTHER
#include "../../08/variants/one_launch.cu"
}

wb_status flash_sinks_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_sinks_backward";
    const wb_status status = wb_check_backward(name, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    if (!of_08::suits(name, shape))
        return for_other_shapes::flash_sinks_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    return of_08::launch_any(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}

double flash_sinks_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return of_08::one_launch_microseconds(shape, device);
}
