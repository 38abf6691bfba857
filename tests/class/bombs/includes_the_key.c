// rule: the compiler sees no answer key
// expect: @ROOT@/solutions/01/tiled_attention.c: No such file or directory
#include "@ROOT@/solutions/01/tiled_attention.c"
#include "../../solutions/01/tiled_attention.c"

static wb_status bomb(void) { return WB_OK; }
