// spent.h - what a process has cost, with all that it has started, in seconds of its own: processor time, and time in
// which all slept. Waiting for a processor costs nothing, so a busy machine takes nothing from anybody. Where there is
// no /proc, seconds are those of a clock.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { SPENT_WALL = 30 };  // whoever may take S seconds of its own may take this many times S of a clock

typedef struct spent_time {
    double seconds;  // so far
    double cpu;      // of these, processor time
    double looked;   // when that was seen, by spent_now
    double seen;     // the processor time of those that were there then
    bool awake;      // whether one of them ran then, or waited for a processor; false where the system does not tell
} spent_time;

double spent_now(void);  // seconds, of a clock that only goes forward

// Adds what was spent since the last look; `asleep`: also the time, up to SPENT_LOOK seconds, if all of them sleep now.
#define SPENT_LOOK 0.25
void spent_look(spent_time *s, pid_t root, bool asleep);
void spent_add(spent_time *s, double cpu);  // it has cost so much processor time by now

// Runs a command, "SECONDS", its words, and null, and returns its exit status (128 + n after signal n); SPENT_LATE if
// it was stopped since it had used them up; SPENT_STARVED, and a sentence, if the machine gave it too few of them. Its
// cost is noted.
enum { SPENT_STARVED = 75, SPENT_LATE = 124 };
int spent_within(char **given);

// Adds a line to the file WB_SPENT, if there is one: a grader adds up what a submission has cost.
void spent_note(double seconds);
