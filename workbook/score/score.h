// score.h - the commands of the program `score` (score.c says what they do and what they are given, up to a null), a file each. They
// print to stdout and return an exit status.
#pragma once

#include "score/grades.h"

#define OWN_RECORDS "build/grade"  // of the student's own work

int score_points(char **given);
int score_progress(char **given);
int score_next(char **given);
int score_after(char **given);  // next.c
int score_page(char **given);
int score_hint(char **given);
int score_gaps(char **given);  // hint.c
int score_report(char **given);
int score_row(char **given);  // class.c
int score_class(char **given);
int score_lesson(char **given);

// The problems with these numbers; ends the program if one is none.
void score_numbers(char **numbers, bool asked[WB_PROBLEMS]);
const wb_problem *score_problem(const char *number);

// What points.c writes beside the table: platforms.c, junit.c.
void score_write_gradescope(FILE *to, const char *folder);
void score_write_prairielearn(FILE *to, const char *folder);
void score_write_classroom(FILE *to, const char *folder);
void score_write_junit(FILE *to, const char *folder);

// report_pictures.c: charts and masks of the page of make report, NN_name_KIND.svg, mask_NN.svg and roofline_chart.svg in a folder `plots`;
// where nothing was measured the recorded chart in plots/. As images they are no part of the page: no script in them runs, they load nothing.
void score_show_pictures(const wb_problem *p, const char *plots);
void score_show_roofline(const char *plots);
