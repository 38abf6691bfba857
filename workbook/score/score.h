// score.h - what the suites found, the points that it is worth, and what to do next.
#pragma once

#include "problems.h"
#include "score/outcome.h"

// ------------------------ points (grades.c)
// A folder of records (build/grade) holds the outcome of each problem, NN.json (outcome.h), and, of a submission,
// 00.note. Any may be missing. A checkpoint is earned if each of its tests is known to have passed: a missing line or
// file earns nothing, nor does a SKIP where the table does not allow for one (if:).

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

// ------------------------ gaps: what stands between //{ name and //}, beside what was shipped (gaps.c)

// The student's file of a problem, "problems/03/flash_forward.cu", or that of another folder; false, and "": none.
bool gaps_file(const wb_problem *p, char file[64]);
bool gaps_file_in(const char *folder, const wb_problem *p, char *file, size_t size);

// The file is a skeleton as it was shipped, by its sha256 in workbook/loop/shipped.sha256.
bool gaps_are_shipped(const char *file);

enum { MAX_GAPS = 64 };

typedef struct gap {
    char name[64];
    int line;        // of the student's file; 0 if it is gone
    int left;        // where a return of the skeleton's still stands before other lines; 0: nowhere
    bool untouched;  // what is in it is the skeleton's
} gap;

// Those in a file, "" for none, in the order in which problems/NN/hints.txt recommends to fill them; how many.
int gaps_in(const wb_problem *p, const char *file, gap gaps[MAX_GAPS]);

// Where the text of the gap `name` stands in a source, and its length; the line above it in *line, 0: it has none.
const char *gaps_text(const char *source, const char *name, size_t *length, int *line);

// The first that is untouched, or null.
const gap *gaps_first(const gap *gaps, int count);

// A line that names the gaps as shipped, and what else keeps code from running, or "". The caller frees it.
char *gaps_sentence(const wb_problem *p, const char *file);

// says: where a file differs from the skeleton outside of its gaps, a few lines; "" if it does not, or has other gaps.
// restored: the file, with the skeleton's lines there.
typedef struct given_code {
    char *says, *restored;
} given_code;
given_code gaps_given(const wb_problem *p, const char *file);

// A file with the skeleton as it was shipped; "" if it is not to be had. What shipped.sh finds is kept.
const char *gaps_skeleton(const wb_problem *p);

// ------------------------ where a problem stands, by its record and by the student's file (standing.c)

typedef struct standing {
    const wb_problem *problem;
    const char *state;  // "no file", "not started" for a file as shipped, "not tested", or the record's
    score points;
    bool changed;     // saved after its last tests began, and with another sum
    bool unfinished;  // it fails, and some of its gaps are as shipped
    char file[64];
} standing;

// grades_read; but a file that is as shipped again is not started, and without a file of one's own nothing is earned.
void standing_read(const char *folder);

standing standing_of(const wb_problem *p);

// The state as a student reads it: "unfinished" for a file that fails while some of its gaps are as shipped.
const char *standing_word(const standing *s);

// In a few words what to do: "the causal mask", "changed since: make test-05".
void standing_step(const standing *s, char step[256]);

// What is to be done first: of the problems `wanted`, else of those behind them, else of all. False if all are done.
bool standing_next(const bool wanted[WB_PROBLEMS], standing *next);

// ------------------------ commands of wb, a file each, the smaller ones in score.c
// wb/wb.c says what they do, and what they are given, up to a null. They print to stdout and return an exit status.

#define OWN_RECORDS "build/grade"  // of the student's own work

int score_total(char **given);
int score_standing(char **given);
int score_lesson(char **given);
int score_progress(char **given);
int score_from(char **given);
int score_untouched(char **given);
int score_points(char **given);
int score_next(char **given);
int score_after(char **given);
int score_cases(char **given);
int score_predicted(char **given);  // next.c
int score_hint(char **given);
int score_gaps(char **given);  // hint.c
int score_class(char **given);

// The problems with these numbers; ends the program if one is none.
void score_numbers(char **numbers, bool asked[WB_PROBLEMS]);
const wb_problem *score_problem(const char *number);
