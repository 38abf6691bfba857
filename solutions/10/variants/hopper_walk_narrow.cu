// hopper_walk_narrow.cu - hopper_walk.cu's kernel with one warpgroup per block, 64 queries, so that two or three blocks
// share an SM: while one waits for memory, another computes. Of 1,303 shapes drawn on an H100, most of up to 600
// queries, it is the fastest of 10's in 44 %, by 7 % on average (2026-11-26). It fetches each key twice as often, and
// is not asked above 640 queries: of 87 such shapes, drawn on an H100, it is never 3 % faster than the others, and up
// to 42 % slower (B88 25/25 N1206 D64). Nor where K and V have more than 220 MB: there it takes 1.13 to 1.37 of what
// its costs say, and is 3 % to 18 % slower than others in 7 of 8 causal shapes (2026-11-28).
// Random shapes that it is chosen for: 21 of 375 forward passes (records of `make duel`, 2026-11-28).
#define WALK_TILES(D) D, 64, 1, D == 64 ? 3 : 2, D == 64 ? 3 : 2
#include "hopper_walk.cu"
