// hopper_walk.cu - flash_hopper by 07's kernel for any window: blocks are persistent, and the end of one tile of
// queries overlaps the beginning of the next, which pays off if the loop over the keys is short. Two warpgroups and
// tiles of 64 keys, or 128. hopper_walk_wide.cu has three warpgroups, 192 queries together; hopper_walk_narrow.cu has
// one, with two or three blocks per SM (D 128, 64).
// Random shapes that it is chosen for: 27 of 375 forward passes (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

// MANY_KEYS: from 2048 on, with D 128 (of 186 shapes drawn on an H100: 0.95 of the time).
#ifndef WALK_TILES
#define WALK_TILES(D) D, 64, 2, D == 64 ? 6 : 4, D == 64 ? 6 : 4
#define MANY_KEYS(D)  D, 128, 2, 2, 2
#else
#define MANY_KEYS WALK_TILES
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
    if (shape->kv_len >= 2048)
        go = shape->causal ? launch_walk<MANY_KEYS(128), false> : launch_walk<MANY_KEYS(128), false, true>;
    if (shape->head_dim == 64)
        go = shape->causal ? launch_walk<WALK_TILES(64), false> : launch_walk<WALK_TILES(64), false, true>;
    attention_shape whole = *shape;
    whole.window = shape->q_len;
    return go(O, L, Q, K, V, nullptr, &whole, stream);
}

double flash_hopper_microseconds(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim < 64) return INFINITY;
    constexpr int tiles[][5] = {{WALK_TILES(64)}, {WALK_TILES(128)}, {MANY_KEYS(128)}};
    const int which = shape->head_dim == 64 ? 0 : shape->kv_len < 2048 ? 1 : 2, *const t = tiles[which];
    const bool too_much = shape->q_len > 640 || wb_megabytes(shape, 0, 2) > 220;  // see hopper_walk_narrow.cu
    if (t[2] == 1 && too_much) return INFINITY;
    double more = which == 2 && t[1] > tiles[1][1] ? device->costs->more : 1;  // a step of twice as many keys
    if (which == 0 && t[2] == 3 && !shape->causal) more = 0.95;                // beside a causal one (70 shapes)
    const int at_once = t[2] > 1 ? 1 : shape->head_dim == 128 ? 2 : 3;
    return walks::walk_microseconds(shape, device, 64 * t[2], t[1], more, at_once);
}
