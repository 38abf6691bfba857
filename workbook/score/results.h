// results.h - the record of a suite's run, NN.results: written and read here and nowhere else.
//
// A file of lines, a row each, fields separated by tabs; the first line names the fields. In a field \t, \n and
// \\ stand for a tab, a newline and a backslash; any other control character is written as "?". Rows stand in the order
// in which tests ended; whoever shows them sorts by `line`. A test program writes a row as soon as its test has ended,
// and a last row, `end`, when all have: a file without it is that of a run that was ended from outside, or, with
// `starved` in its place, of one that the machine was too busy for.
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef enum result_status { RESULT_OK, RESULT_FAIL, RESULT_SKIP, RESULT_STATUSES } result_status;

typedef struct result {
    result_status status;
    char *test;        // its name
    int line;          // where it stands in the suite's source; 0: nowhere
    double seconds;    // how long it took
    char *given;       // the case with which to run it again, as CASE= takes it; "" if there is none
    char *checkpoint;  // of a private case, which is no test of the suite; "" otherwise
    char *message;     // what a failure or skip says, lines; "" otherwise
} result;

typedef struct results {
    result *rows;
    int count;
    bool ended, starved;  // the run came to its end; it got nothing of the machine
} results;

extern const char *const result_words[RESULT_STATUSES];  // "ok", "FAIL", "SKIP", as in the file

void results_begin(FILE *to);                     // the line that names the fields
void results_write(FILE *to, const result *row);  // one row, flushed
void results_end(FILE *to, bool starved);

// Reads a file. A row that is damaged is left out. Returns false if there is no such file; what is read is then empty.
bool results_read(const char *path, results *r);
void results_free(results *r);

// Whether it is a failure because earlier cases gave no answer: its own was not tried (judge/worker_run.c).
bool results_not_run(const result *row);

// Sorts by line of the source, what has none last.
void results_sort(results *r);
