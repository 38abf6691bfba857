// rule: what a report shows stands in the order in which it was written: nothing turns or hides it
// expect: ?05?7 /?05?7 :erocS?
static wb_status bomb(void)
{
    return wb_fail(WB_UNSUPPORTED, "\xe2\x80\xae"
                                   "05\xe2\x80\x8b"
                                   "7 /\xe2\x81\xa6"
                                   "05\xd8\x9c"
                                   "7 :erocS\xef\xbb\xbf");
}
