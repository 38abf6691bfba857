// child.h - other programs: started, listened to, ended. An interrupt (INT, TERM, HUP) goes to those that run.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

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
