// in_this_name.h - for functions that are no problem: the validator knows a problem that is like them, and what it says
// is said in the function's own name.
#pragma once

#include "workbook.h"

#include <stdio.h>
#include <string.h>

static inline wb_status in_this_name(const char *function, wb_status status)
{
    char said[400];
    if (status == WB_OK) return status;
    snprintf(said, sizeof said, "%s", wb_last_message());
    return wb_fail(status, "%s%s", function, strchr(said, ':'));
}
