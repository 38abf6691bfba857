// run_suite.h - starts a test program on a worker, and follows the record that it writes.
#pragma once

#include "score/results.h"

typedef struct suite_run {
    const char *program, *worker, *backend;
    char **options;                                      // Criterion's; null, or ends with null
    const char *record;                                  // where the record stays; null: nowhere
    const char *given;                                   // run this case alone; null: what WB_CASE says
    bool first;                                          // stop at the first failure
    void (*seen)(const results *so_far, void *context);  // called when rows have been added; null: not
    void *context;
} suite_run;

// Runs it to its end and reads the record, which the caller frees. Returns false if it has none of a whole run. Unless
// all has passed, what the program said on stderr is then on standard output, indented. What its cases cost is noted in
// the file WB_SPENT, if there is one.
bool run_suite(const suite_run *run, results *r);
