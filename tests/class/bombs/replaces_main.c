// rule: the worker's own functions cannot be replaced
// expect: NaN or infinite
int main(void) { return 0; }
int wb_call(void) { return 0; }

static wb_status bomb(void) { return WB_OK; }
