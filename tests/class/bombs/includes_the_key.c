// rule: the compiler sees no answer key, and what it says is shown without colours
// expect: #error ?[2J 750
// expect: @ROOT@/solutions/01/tiled_attention.c: No such file or directory
#error [2J 750
#include "@ROOT@/solutions/01/tiled_attention.c"
#include "../../solutions/01/tiled_attention.c"

static wb_status bomb(void) { return WB_OK; }
