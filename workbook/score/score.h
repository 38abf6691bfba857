// score.h - commands of wb about points and what to do next (wb/wb.c says what they do and what they are given, up to a
// null), a file each, the smaller ones in score.c. They print to stdout and return an exit status.
#pragma once

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
int score_row(char **given);   // class.c
int score_class(char **given);

// The problems with these numbers; ends the program if one is none.
void score_numbers(char **numbers, bool asked[WB_PROBLEMS]);
const wb_problem *score_problem(const char *number);

// What points.c writes beside the table: gradescope.c.
void score_write_gradescope(FILE *to, const char *folder);
