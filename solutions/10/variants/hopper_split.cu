// hopper_split.cu - flash_hopper for few tiles of queries: the kernel of hopper_short.cu, where each tile's warpgroups
// split the keys.
#define SPLIT_KEYS
#include "hopper_short.cu"
