// hopper_split.cu - flash_hopper for few tiles of queries: the kernel of hopper_short.cu, with the keys of each tile
// split over several warpgroups.
#define SPLIT_KEYS
#include "hopper_short.cu"
