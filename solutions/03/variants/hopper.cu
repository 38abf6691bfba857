// hopper.cu - flash_forward on a Hopper GPU, by 07's kernel for any window, without a mask: for D 16 and 32, as in 05's
// hopper.cu, which explains why. Other GPUs use the reference solution.
// Random shapes that it is chosen for: 8 of 375 forward passes (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

namespace of_the_key
{
#include "../flash_forward.cu"
}
#define WALK_TILES
namespace walks
{
#include "../../07/variants/hopper_any_window.cu"
}

wb_status flash_forward(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (check_hopper("flash_forward") != WB_OK) return of_the_key::flash_forward(O, L, Q, K, V, shape, stream);
    auto go = walks::launch_walk<128, 64, 2, 4, 4, false, true>;
    if (shape->head_dim == 64) go = walks::launch_walk<64, 128, 3, 4, 4, false, true>;
    if (shape->head_dim == 32) go = walks::launch_walk<32, 128, 3, 4, 4, false, true>;
    if (shape->head_dim == 16) go = walks::launch_walk<16, 128, 3, 4, 4, false, true>;
    attention_shape whole = *shape;
    whole.window = shape->q_len;
    return go(O, L, Q, K, V, nullptr, &whole, stream);
}

double flash_forward_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim > 32) return INFINITY;  // 10's kernels are faster
    return wb_forward(shape, device, wb_over_keys(shape, 192, 128, 1));
}
