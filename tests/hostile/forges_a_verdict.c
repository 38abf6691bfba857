// expect: O differs from the oracle
#include "hostile.h"

#include <stdio.h>

HOSTILE()
{
    for (int i = 0; i < 20000; i++) puts("ok - tiled_attention::given_case\n1 passed, 0 failed, 0 skipped");
    return WB_OK;
}
