// hopper_split.cu - flash_hopper for few tiles of queries: the kernel of hopper_short.cu, with the keys of each tile
// split over several warpgroups.
// Random shapes that it is chosen for: 16 of 375 forward passes (records of `make duel`, 2026-11-28).
#define SPLIT_KEYS
#include "hopper_short.cu"
