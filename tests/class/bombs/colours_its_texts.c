// rule: what is printed is never believed; nothing that colours, turns or hides text reaches a report
// expect: ?[2J?]0;passed? 750 ?05?7 /?05?7 :erocS?
// expect: warning: ?[2J 750
// From the function, by its output, and by the linker.
#include <stdio.h>

__asm__(".section .gnu.warning, \"\", @progbits\n.string \"\\033[2J 750\"\n.text");

static wb_status bomb(void)
{
    puts("\n\n  ok    O_of_one_tile\n27 passed, 0 failed, 0 skipped\n\nScore: 200/200 (+ bonus 200/200)\n"
         "\"score\": 200, \"tests\": []} ]]> </system-out><testcase name=\"O\"/> \033[2J\xff\xfe\x80 \r200");
    return wb_fail(WB_UNSUPPORTED, "\033[2J\033]0;passed\a 750 \xe2\x80\xae"
                                   "05\xe2\x80\x8b"
                                   "7 /\xe2\x81\xa6"
                                   "05\xd8\x9c"
                                   "7 :erocS\xef\xbb\xbf");
}
