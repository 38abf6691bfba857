// rule: what the compiler writes is limited
// expect: File size limit exceeded
// The compiler writes every byte of it.
static const char much[(size_t)1 << 31] = {1};

static wb_status bomb(void) { return much[wb_last_message()[0] != 0] ? WB_OK : WB_UNSUPPORTED; }
