// outcome.h - what became of a problem, build/grade/NN.json: one record, of its last tests, written and read here and
// nowhere else. Any of it may be missing; it is written whole or not at all.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double seconds_of(struct timespec t) { return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
static inline double seconds_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return seconds_of(t);
}

// ------------------------ tests

// What the tests of a suite come to. A test program says it a row a line, JSON as in the record, as soon as a test has
// ended. A last line says {"end": true}, or "starved" if the machine was too busy: without it the run was cut off.
typedef enum result_status { RESULT_OK, RESULT_FAIL, RESULT_SKIP, RESULT_STATUSES } result_status;

typedef struct result {
    result_status status;
    char *test;        // its name
    int line;          // where it stands in the suite's source; 0: nowhere
    double seconds;    // how long it took
    char *given;       // the case with which to run it again, as CASE= takes it; "" if there is none
    char *checkpoint;  // of a private case, which is no test of the suite; "" otherwise
    char *finding;     // of a failure, what a report of the layer is of (layer_requests.h); "" otherwise
    char *message;     // what a failure or skip says, lines; "" otherwise
} result;

typedef struct results {
    result *rows;
    int count;
    bool ended, starved;  // the run came to its end; it got nothing of the machine
} results;

extern const char *const result_words[RESULT_STATUSES];  // "ok", "FAIL", "SKIP"

// A test program's lines, flushed.
void results_write(FILE *to, const result *row);
void results_end(FILE *to, bool starved);

struct cJSON;
// Adds what such an object says; true if it is a row, and a whole one.
bool results_take(results *r, const struct cJSON *said);
void results_add(results *r, const result *row);  // a copy, its texts, which may be null, made safe
void results_free(results *r);

// Whether it is a failure because earlier cases gave no answer: its own was not tried (judge/worker_run.c).
bool results_not_run(const result *row);

// Sorts by line of the source, what has none last.
void results_sort(results *r);

result_status results_status(const char *word);  // RESULT_STATUSES if it is none of them

// ------------------------ a problem

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
    char *clean;        // the sha256 of the file in which make sanitize found nothing
    char *coverage;     // lines that no case ran
    char *date, *backend, *seed, *machine;
} outcome;

// All texts are safe (safe_text.h), "" where there is nothing; false if there is no such file.
bool outcome_read(const char *path, outcome *o);
bool outcome_write(const char *path, const outcome *o);

// A text that nobody trusts, to an object of JSON.
void outcome_add(struct cJSON *object, const char *name, const char *text);
