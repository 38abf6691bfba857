// listen.h - starts a test program on a worker, and hears what its tests come to.
#pragma once

#include "score/results.h"

typedef struct suite_run {
    const char *program, *worker, *backend;
    char **options;        // Criterion's; null, or ends with null
    const char *given;     // run this case alone; null: what CASE says
    const char *coverage;  // the folder for what workers count (judge/session.c); null: they do not
    const char *tried;     // the file to which the cases are added; null: none
    bool first;            // stop at the first failure
    bool names;            // run nothing: each test is as if it had been skipped
    void (*seen)(const results *so_far, void *context);  // called when a row has come; null: not
    void *context;
} suite_run;

// Runs it to its end; the caller frees what its tests came to. Returns false if that is not of a whole run. Unless all
// has passed, what the program said on stderr is then said, indented. What its cases cost is noted in the file
// WB_SPENT, if there is one.
bool listen_to(const suite_run *run, results *r);

void listen_clean(void);  // what a run that was interrupted has left
