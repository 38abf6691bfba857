// wb.h - what the files of wb know of each other.
#pragma once

#include "score/safe_text.h"
#include "score/score.h"

#include <sys/types.h>

// ------------------------ commands that have a file of their own (wb.c says what they do)

// Each with what it is given, up to a null, and its exit status.
int wb_test(char **given);         // test.c
int wb_watch_saves(char **given);  // watch.c
int wb_sanitize(char **given);     // sanitize.c
int wb_look(char **given);
int wb_suite(char **given);  // suite.c

// ------------------------ what a run says (say.c)

// To the screen, and to the report of the problem that it is about.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Text that nobody trusts, as safe_text.h makes it, line by line, with this before each.
void say_plain(const char *before, const char *text);

// For now alone, on stderr: it stands in no report.
void say_now(const char *format, ...) __attribute__((format(printf, 1, 2)));

// What is said from the one to the other is a report, to be freed by the caller.
void say_begin(void);
char *say_end(void);

// ------------------------ other programs: started, listened to, ended (child.c)
// An interrupt (INT, TERM, HUP) goes to those that run.

enum { CHILD_NULL = -1 };

typedef struct child {
    int (*call)(char **words);  // called in the new process, and its result the exit status; null: a program is started
    char *const *words;         // the program, found in PATH, and its arguments; null behind the last
    char *const *environment;   // more of it, "NAME=value", null behind the last; null: no more
    const char *text;           // what it reads; null: nothing
    int error;                  // where it complains, a descriptor; 0: where it writes; CHILD_NULL: nowhere
    void (*before)(void);       // called in the new process; null: nothing is
    void (*seen)(const char *line);  // called by child_output for each line as it comes; null: nothing is
} child;

pid_t child_start(const child *c, int out);  // out: where it writes; CHILD_NULL: nowhere
int child_wait(pid_t pid);                   // its exit status, or 128 + the signal that ended it

// Starts it so that it writes into a pipe, whose other end is *from.
pid_t child_begin(const child *c, int *from);

// What it writes, to be freed by the caller; *status, unless null: how it ended.
char *child_output(const child *c, int *status);

// Reads until all who write there have ended, and closes it. Zeros become '?'.
char *child_read(int from, void (*seen)(const char *line));
void child_pipe(int ends[2]);  // that programs inherit as `out` or `error` alone

// From now on interrupts are caught, and end this program by this.
void child_interrupted(void (*end)(void));
void child_check(void);  // ends it, if there was one

// ------------------------ a suite: it is run, and what it comes to is said (suite.c)

typedef struct suite {
    const char *program, *worker, *backend;
    char **options;        // Criterion's; null, or ends with null
    const char *given;     // run this case alone; null: what CASE says
    const char *coverage;  // the folder for what workers count (judge/session.c); null: they do not
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
void suite_names(const char *program, results *r);  // its tests, each as if it had been skipped

// ------------------------ one problem on its way through make test, a stage a file
// build.c compiles it, suite.c runs its suite, explain.c looks for the cause of a failure, test.c goes through them and
// keeps the outcome.

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

// What the check build finds of a case; given: IMPL, NN, CASE, and a descriptor for what it is of (layer_requests.h).
// In a process of its own.
int sanitize_after(char **given);  // sanitize.c
// Where WORKER, the ordinary one, leaves a buffer in CASE; given: both, and such a descriptor.
int sanitize_ends(char **given);
// What the check build finds of several cases; given: IMPL, NN.
int sanitize_one(char **given);
