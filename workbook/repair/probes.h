// probes.h - what variables hold at a gap's end: one case runs with the student's text there, with an edit of that, and
// with the reference solution's, all else equal.
#pragma once

#include "repair/shared.h"

#include <stdbool.h>

typedef struct probed {
    const char *names, *the_case, *const *words;  // the gap; the case; what is probed, by number
    bool (*is_wrong)(bool theirs, int on);        // runs the case, with the reference solution's text, or a change
} probed;

void probes_are_of(const probed *of, repair_shared *in);  // first of all

// What an edit with which the case is right leaves: what the reference solution's text does, where the student's did
// not; a whole number that is another one, which `other` says; or it is not known.
enum { PROBES_OTHER_TEXT = 300 };
typedef enum probes_found { PROBES_SAME, PROBES_UNKNOWN, PROBES_OTHER } probes_found;
probes_found probes_with(int on, char other[PROBES_OTHER_TEXT]);

// Says which variable the student's text leaves wrong, in a line, if it is one. Else false.
bool probes_say(void);
