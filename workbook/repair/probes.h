// probes.h - names the variable that a gap leaves wrong: it runs one case with the student's text in the gap and with
// the reference solution's, all else equal, and compares what variables hold at its end (probe.h).
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef struct probed {
    const char *source;  // of which source[at] to source[end] are the gap
    int at, end;
    const char *text;  // the reference solution's, and its length
    int length;
    const char *names, *the_case;
    bool (*build)(void write(FILE *), bool drop(int line));  // false: it cannot be compiled
    bool (*is_wrong)(void);                                  // runs the case
} probed;

// Says which one, in a line. Nothing is said if no variable alone makes the case right.
typedef enum probes_found { PROBES_NONE, PROBES_NUMBER, PROBES_INDEX } probes_found;  // INDEX: a whole number
probes_found probes_say(const probed *of);
