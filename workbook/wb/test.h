// test.h - one problem on its way through make test, a stage a file: build.c compiles it, suite.c runs its suite,
// explain.c looks for the cause of a failure, test.c goes through them and keeps the outcome.
#pragma once

#include "problems.h"
#include "score/grades.h"

// What all problems of a run have in common.
typedef struct wb_run {
    const char *backend, *impl;
    char out[64];         // build/BACKEND
    char record[3800];    // the folder of outcomes
    char work[3900];      // in it, this run's own: of two at once none touches what is the other's
    const char *builder;  // of a grader (class/grade_build.sh); null: there is none
    const char *one;      // CASE or TEST: a single case or test is tried, and not recorded; null: all is
    const char *counted;  // "_counted": the worker counts what runs of its source (COVERAGE=1); "": it does not
    bool mine;            // the files of problems/, and
    bool own;             // the student's own work, tested by themselves
    bool watched;         // by make watch: an interrupt ends the run without a word
} wb_run;
extern wb_run run;

typedef struct attempt {
    const wb_problem *problem;
    char number[4];
    char file[256];                 // its source; "" if there is none
    char worker[256], tried[4096];  // what is built, and this run's link to it
    char *unwritten;                // a line for its gaps that are as shipped; "" if there are none
    outcome *outcome;
} attempt;

// NAME=value, or a path: text in memory, never freed.
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Makes programs of `backend`: what make said. *status, unless null: how it ended. Unless `quiet`, a wait is told.
char *build_programs(const char *backend, char *const programs[], bool quiet, int *status);
// Compiles the attempt: what the compiler said is in its outcome. make's status.
int build(attempt *a);
// Of what a compiler said the first error whole, of others a line each; or its warnings.
char *build_brief(const char *log, bool failed);

// After a failure: says its cause, if it can be named, and a change that fixes it.
void explain(attempt *a);

// What the check build finds of a case; given: BACKEND, IMPL, NN, CASE, and a descriptor for what it is of
// (layer_requests.h). In a process of its own.
int sanitize_after(char **given);  // sanitize.c
// Prints what WORKER, the ordinary one, reports where CASE leaves a buffer: a finding, and the place.
int sanitize_ends(char **given);
// The same of several cases; given: BACKEND, IMPL, NN.
int sanitize_one(char **given);
