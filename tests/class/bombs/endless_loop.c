// rule: every case has a time limit
// expect: no answer in
static wb_status bomb(void)
{
    for (volatile int i = 0;; i++) {}
    return WB_OK;
}
