// rule: the compiler sees no answer key
// expect: file not found: @ROOT@/solutions/01/tiled_attention.c
__asm__("stolen: .incbin \"@ROOT@/solutions/01/tiled_attention.c\"");

static wb_status bomb(void) { return WB_OK; }
