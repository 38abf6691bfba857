// hopper_walk_wide.cu - hopper_walk.cu's kernel with three warpgroups per block, 192 queries.
// Random shapes that it is chosen for: 189 of 375 forward passes (records of `make duel`, 2026-11-28).
#define WALK_TILES(D) D, D == 64 ? 128 : 64, 3, D == 64 ? 3 : 2, 3
#include "hopper_walk.cu"
