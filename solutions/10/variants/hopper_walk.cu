// hopper_walk.cu - flash_hopper by 07's kernel for any window: blocks are persistent, and the end of one tile of
// queries overlaps the beginning of the next, which pays off if the loop over the keys is short. Two warpgroups and
// tiles of 64 keys. hopper_walk_wide.cu has three warpgroups, 192 queries together; hopper_walk_narrow.cu has one, with
// two or three blocks per SM (D 128, 64).
// Random shapes that it is chosen for: 15 of 230 forward passes (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

#ifndef WALK_TILES
#define WALK_TILES(D) D, 64, 2, D == 64 ? 6 : 4, D == 64 ? 6 : 4
#endif
namespace walks
{
#include "../../07/variants/hopper_any_window.cu"
}

wb_status flash_hopper(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_forward("flash_hopper", O, L, Q, K, V, shape);
    if (status == WB_OK) status = check_hopper("flash_hopper");
    if (status != WB_OK) return status;
    using walks::launch_walk;
    auto go = shape->causal ? launch_walk<WALK_TILES(128), false> : launch_walk<WALK_TILES(128), false, true>;
    if (shape->head_dim == 64)
        go = shape->causal ? launch_walk<WALK_TILES(64), false> : launch_walk<WALK_TILES(64), false, true>;
    attention_shape whole = *shape;
    whole.window = shape->q_len;
    return go(O, L, Q, K, V, nullptr, &whole, stream);
}

double flash_hopper_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim < 64) return INFINITY;
    constexpr int tiles[2][5] = {{WALK_TILES(64)}, {WALK_TILES(128)}};
    const int *const t = tiles[shape->head_dim == 128];
    if (t[2] == 1 && shape->q_len > 640) return INFINITY;  // see hopper_walk_narrow.cu
    return walks::walk_microseconds(shape, device, 64 * t[2], t[1], 1, t[2] > 1 ? 1 : shape->head_dim == 128 ? 2 : 3);
}
