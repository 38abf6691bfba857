// standing.h - where a problem stands, by the record of its last tests (grades.h) and by the student's file; nothing is
// built or run.
#pragma once

#include "score/gaps.h"
#include "score/grades.h"

typedef struct standing {
    const wb_problem *problem;
    const char
        *state;  // "no file", "not started" for a file as shipped, whatever was recorded, "not tested", or the record's
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

// What is to be done first: of those of the problems in `wanted` that are not done, else of those behind the last of
// them, else of all. False if all are done.
bool standing_next(const bool wanted[WB_PROBLEMS], standing *next);
