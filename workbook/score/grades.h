// grades.h - what the suites found, and the points that it is worth: shared by all that show scores.
//
// A folder of records (build/grade) holds the outcome of each problem, NN.json (outcome.h), and, of a submission,
// 00.note. Any may be missing. A checkpoint is earned if each of its tests is known to have passed: a missing line or
// file earns nothing, nor does a SKIP where the table does not allow for one (if:).
#pragma once

#include "problems.h"
#include "score/outcome.h"

enum { MAX_CHECKPOINTS = 16 * WB_PROBLEMS, MAX_TESTS = 64, FILE_LIMIT = 4 << 20 };

// A line of problems/NN/checkpoints.txt.
typedef struct checkpoint {
    int number, points;  // number: of the problem
    char name[32], needs[128], title[160];
    char *tests[MAX_TESTS + 1];  // as they stand there, if: in front of some; null behind the last
    bool earned, judged;
} checkpoint;

typedef struct score {
    int earned, possible;
    const checkpoint *next;  // the first that is not earned; null if all are, or for a sum
} score;

extern checkpoint grades_table[MAX_CHECKPOINTS];
extern int grades_checkpoints;
extern outcome grades_records[WB_PROBLEMS];  // by the problem's number

// The checkpoint after c of a problem, the first if c is null; null after the last.
checkpoint *grades_next(checkpoint *c, int number);
#define EACH_CHECKPOINT(c, number) for (checkpoint *c = NULL; (c = grades_next(c, number));)

// Reads the checkpoints of all problems and the records of a folder, and decides what is earned.
void grades_read(const char *folder);
void grades_give_up(const char *what) __attribute__((noreturn));  // with errno's sentence

// The first FILE_LIMIT bytes of a file, to be freed by the caller; zeros in it become '?'. "" if there is no such file.
char *grades_read_file(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *setting(const char *name, const char *otherwise);  // of the environment; empty is none

bool grades_ran(int number);  // a suite has run to a verdict: the state is "passed" or "failed"

// The next test that this checkpoint asks for, private cases included, where *n is 0 for the first; and in *r what it
// came to, null if it has not run. Null after the last.
const char *grades_test(const checkpoint *c, int *n, const result **r);

// The first test of a checkpoint that is not known to have passed, and in *r what it came to; null if all have.
const char *grades_missing(const checkpoint *c, const result **r);

// Why a checkpoint is not earned: of *test "fails" or "has not run"; if that is null "needs a, b first".
const char *grades_why(const checkpoint *c, const char **test, char why[256]);

score grades_of(int number);
score grades_total(wb_group group);  // of the problems of one group
void grades_print_total(FILE *to);   // "Score: 40/200 (+ bonus 0/100)", and what is beyond where there is any
