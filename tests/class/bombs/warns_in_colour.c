// rule: no control character reaches a report, by the linker neither
// expect: warning: ?[2J 750
__asm__(".section .gnu.warning, \"\", @progbits\n.string \"\\033[2J 750\"\n.text");

static wb_status bomb(void) { return WB_OK; }
