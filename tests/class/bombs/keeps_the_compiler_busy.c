// rule: compiling has a time limit
// expect: the compiler was stopped
// The assembler repeats nothing, a thousand million million times.
__asm__(".rept 100000\n.rept 100000\n.rept 100000\n.endr\n.endr\n.endr");

static wb_status bomb(void) { return WB_OK; }
