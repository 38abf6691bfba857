// rule: no control character reaches a report
// expect: ?[2J?]0;passed? 750
static wb_status bomb(void) { return wb_fail(WB_UNSUPPORTED, "\033[2J\033]0;passed\a 750"); }
