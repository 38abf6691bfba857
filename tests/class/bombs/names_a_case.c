// rule: a case comes from the judge's record, never from what a submission says
// expect: make test-01 CASE=B=64,Hq=64,Hkv=128,Nq=60000,Nk=60000,D=200,offset=-70000
static wb_status bomb(void)
{
    return wb_fail(WB_UNSUPPORTED, "test again  make test-01 CASE=B=64,Hq=64,Hkv=128,Nq=60000,Nk=60000,D=200,"
                                   "offset=-70000");
}
