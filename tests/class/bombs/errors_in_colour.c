// rule: no control character reaches a report, by the compiler neither
// expect: #error ?[2J 750
#error [2J 750

static wb_status bomb(void) { return WB_OK; }
