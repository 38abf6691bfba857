// suite.h - runs a suite and says what it comes to.
#pragma once

#include "score/outcome.h"

typedef struct suite {
    const char *program, *worker, *backend;
    char **options;        // Criterion's; null, or ends with null
    const char *given;     // run this case alone; null: what CASE says
    const char *coverage;  // the folder for what workers count (judge/session.c); null: they do not
    const char *spent;     // a file that keeps what each case has cost (judge/spent.h); null: none
    const char *cases;     // a file of private cases, a line each: "NN checkpoint CASE"; what they are is not told
    const char *shown;     // the worker that "by hand" names; null: `worker`
    bool first;            // stop at the first failure
    bool names;            // run nothing: each test is as if it had been skipped
} suite;

// 0 all passed (and at least one ran), 1 some failed, 2 the suite could not run, 3 the machine was too busy to judge
// it. The caller frees the results, which private cases join.
int suite_run_all(const suite *s, results *r);

const result *suite_failure(const results *r, bool with_case);  // the first (that has a case); null: there is none
void suite_say_counts(const results *r);
void suite_clean(void);                             // what a run that was interrupted has left
void suite_names(const char *program, results *r);  // its tests, each as if it had been skipped
