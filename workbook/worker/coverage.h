// coverage.h - how often each branch of the function's own source ran in this process, as gcc counts it. A worker that
// is built so (build.mk, COUNTED) keeps it in memory and, after each case, writes it to descriptor 4, a file of
// COVERAGE_ROOM bytes that the test gave it and reads when the worker has ended: wb_counted_head, and then what gcov
// reads as a .gcda. Nobody believes it: the function could write there what it likes (class/threats.md).
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { COVERAGE_FILE = 4, COVERAGE_ROOM = 1 << 20 };

typedef struct coverage {
    uint64_t bytes;  // of what follows; 0: nothing was counted
    char gcda[COVERAGE_ROOM - sizeof(uint64_t)];
} coverage;

// How many bytes of the function's variables are counters.
size_t coverage_statics(void);

// Whether descriptor 4 is such a file; and what has been counted so far into it.
int coverage_wanted(void);
void coverage_write(void);
