// hopper.cu - flash_gqa on a Hopper GPU, by 07's kernel for any window, with a window as long as the sequence. Other
// GPUs use the reference solution.
//
// 10 has better kernels for D 64 and 128. With D 16 and 32 both products are small, and the exponentials decide: one a
// pair, 16 a clock and multiprocessor. So three warpgroups share them, and a step is long, 192 queries by 128 keys:
// what else it costs is shared by more pairs.
// Random shapes that it is chosen for: 8 of 375 forward passes (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

namespace of_the_key
{
#include "../flash_gqa.cu"
}
#define WALK_TILES
namespace walks
{
#include "../../07/variants/hopper_any_window.cu"
}

wb_status flash_gqa(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (check_hopper("flash_gqa") != WB_OK) return of_the_key::flash_gqa(O, L, Q, K, V, shape, stream);
    auto go = walks::launch_walk<128, 64, 2, 4, 4, false>;
    if (shape->head_dim == 64) go = walks::launch_walk<64, 128, 3, 4, 4, false>;
    if (shape->head_dim == 32) go = walks::launch_walk<32, 128, 3, 4, 4, false>;
    if (shape->head_dim == 16) go = walks::launch_walk<16, 128, 3, 4, 4, false>;
    attention_shape whole = *shape;
    whole.window = shape->q_len;
    return go(O, L, Q, K, V, nullptr, &whole, stream);
}

double flash_gqa_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim > 32) return INFINITY;  // 10's kernels are faster
    return wb_forward(shape, device, wb_over_keys(shape, 192, 128, 1));
}
