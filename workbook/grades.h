// grades.h - what the suites found, and the points that it is worth: shared by all that show scores.
//
// A folder of records (build/grade) holds, written by test.sh: NN.state, NN.results, NN.report, NN.speed if it was timed; and,
// by grade.sh, 00.note if there is something to say of a submission as a whole.
// A checkpoint is earned if each of its tests is known to have passed: a missing line or file earns nothing, nor does a SKIP where the table
// does not allow for one (if:).
#ifndef WORKBOOK_GRADES_H
#define WORKBOOK_GRADES_H

#include <stdbool.h>

enum { MAX_CHECKPOINTS = 128, MAX_RESULTS = 128, MAX_PROBLEMS = 100 };

// A line of checkpoints.txt.
typedef struct checkpoint {
    int number, points;  // number: of the problem
    char name[32], needs[128], title[160], tests[1024];
    bool earned, judged;
} checkpoint;

// A line of NN.results. `checkpoint`: of a held-out case, which belongs to no test of the table; "" otherwise.
typedef struct result {
    char status[8], test[128], checkpoint[32];
} result;

typedef struct record {
    char state[32];  // "not run" if there is no record
    result results[MAX_RESULTS];
    int count;
    char *report;  // "" if there is none
    double speed;  // times faster than the answer key; 0 if not timed
} record;

typedef struct score {
    int earned, possible;
    const checkpoint *next;  // the first that is not earned; null if all are, or for a sum
} score;

extern checkpoint grades_table[MAX_CHECKPOINTS];
extern int grades_checkpoints;
extern record grades_records[MAX_PROBLEMS];  // by the problem's number
extern const char *grades_note;              // "" if there is none

// Reads the table and all records of a folder, and decides what is earned. Ends the program with a sentence and
// status 2 if the table cannot be read.
void grades_read(const char *table, const char *folder);
void grades_give_up(const char *what) __attribute__((noreturn));  // with errno's sentence

// The bytes of a file, to be freed by the caller; ends with 0, zeros in it become '?'. "" if there is no such file.
char *grades_read_file(const char *format, ...) __attribute__((format(printf, 1, 2)));

// "ok", "FAIL", "SKIP" or "not run".
const char *grades_status(int number, const char *test);

// Calls visit for every test that this checkpoint asks for, held-out cases included.
void grades_each_test(const checkpoint *c, void (*visit)(const char *test, const char *status, void *), void *context);

// The first test of a checkpoint that is not known to have passed; "" if all have.
void grades_missing(const checkpoint *c, char test[128]);

score grades_of(int number);
score grades_total(bool bonus);          // of the bonus problems, or of all others
double grades_speed_points(int number);  // the formula of speed.sh, for a problem that is won whole

#endif
