// hopper_walk_narrow.cu - hopper_walk.cu's kernel with one warpgroup a block, 64 queries, where two or three blocks share
// a multiprocessor: while one waits for memory, another computes.
#define WALK_TILES(D) D, 64, 1, D == 64 ? 3 : 2, D == 64 ? 3 : 2
#include "hopper_walk.cu"
