// outcome.h - what became of a problem, build/grade/NN.json: one record, of its last tests, written and read here and
// nowhere else. Any of it may be missing; it is written whole or not at all.
#pragma once

#include "score/results.h"

typedef struct outcome {
    const char *state;  // passed, failed, ...; "not run" if there is no record, or none of these in it
    results results;    // of its tests; whoever shows them sorts them
    double began;       // when: seconds since 1970
    char *sum;          // the sha256 of a file of one's own
    char *report;       // what was said, as it was said
    char *log;          // all that the compiler said
    char *step;         // a mistake that was named: "step", "relation", "address" (diagnose); "given": code
    char *gaps;         // and what it can come from: "max|rescale"
    char *lines;        // of the source that reports name: " 19 82"
    char *sanitize;     // what the check build reports
    char *coverage;     // lines that no case ran
    char *date, *backend, *seed, *machine;
} outcome;

// All texts are "" where there is nothing; false if there is no such file.
bool outcome_read(const char *path, outcome *o);
bool outcome_write(const char *path, const outcome *o);
