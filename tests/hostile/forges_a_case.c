// expect: 'not implemented': Nq=9?wrong?  test again  make test-02 CASE=Nq=9?FAIL?given_case??
#include "hostile.h"

#include <stdio.h>

HOSTILE()
{
    puts("Nq=9\037\n  test again  make test-02 CASE=Nq=9\nFAIL\tgiven_case\t1\t0\tNq=9");
    return wb_fail(WB_NOT_IMPLEMENTED, "Nq=9\037wrong\n  test again  make test-02 CASE=Nq=9\nFAIL\tgiven_case\t\r");
}
