// coverage.h - how often each branch of the function's own source ran in this process, as gcc counts it. A worker that
// is built so (build.mk, COUNTED) keeps it in memory and, after each case, writes it to descriptor 4, a file of
// COVERAGE_ROOM bytes that the test gave it and reads when the worker has ended (judge/coverage_sum.c). The function
// could write there what it likes (class/threats.md).
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { COVERAGE_FILE = 4, COVERAGE_ROOM = 1 << 20 };

typedef struct wb_counted {
    uint64_t bytes;                               // of what follows; 0: nothing was counted
    char gcda[COVERAGE_ROOM - sizeof(uint64_t)];  // as gcov reads it: a head, then records
} wb_counted;

enum { COVERAGE_HEAD = 16, COVERAGE_FUNCTION = 0x01000000, COVERAGE_COUNTERS = 0x01a10000 };
typedef struct wb_counted_record {
    uint32_t tag;
    int32_t length;  // bytes that follow; below 0: so many bytes of counters, all 0, which do not
} wb_counted_record;

// How many bytes of the function's variables are counters.
size_t coverage_statics(void);

// Whether descriptor 4 is such a file; and what has been counted so far into it.
int coverage_wanted(void);
void coverage_write(void);
