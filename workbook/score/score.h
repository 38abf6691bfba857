// score.h - commands of wb about points and what to do next (wb/wb.c says what they do and what they are given, up to a
// null), a file each, the smaller ones in score.c. They print to stdout and return an exit status.
#pragma once

#include "score/gaps.h"
#include "score/grades.h"

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
