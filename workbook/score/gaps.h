// gaps.h - the gaps of a problem: what stands between //{ name and //} in the student's file, beside what was shipped.
#pragma once

#include "problems.h"

#include <stddef.h>

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

// The first that is untouched, or null.
const gap *gaps_first(const gap *gaps, int count);

// A line that names the gaps as shipped, and what else keeps code from running, or "". The caller frees it.
char *gaps_sentence(const wb_problem *p, const char *file);

// A line that says where a file differs from the skeleton outside of its gaps; "" if it does not, or has other gaps.
// *lines, unless null: where each such part begins and ends, " 19 82".
char *gaps_given(const wb_problem *p, const char *file, char **lines);

// A file with the skeleton as it was shipped; "" if it is not to be had. What shipped.sh finds is kept.
const char *gaps_skeleton(const wb_problem *p);
