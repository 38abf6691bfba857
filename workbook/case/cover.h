// cover.h - cases drawn from a problem's contract so that they cover it: whatever the contract leaves open is a
// dimension, with classes of values that a kernel might treat apart, and each two classes of two dimensions meet in some
// case (pairwise testing: Cohen et al., "The AETG system", 1997). The seed draws which cases these are and, in a class,
// the value.
#pragma once

#include "case/case.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WB_DIMENSIONS = 40, WB_CLASSES = 12, WB_COVERING = 200, WB_COVER_WORDS = 400 };

// A row of the covering array: a value of each dimension, 0 of those that the problem does not have.
typedef struct wb_cover_row {
    int value[WB_DIMENSIONS];
    int vast;  // 1: so large that the CPU layer runs a few of its blocks; 2: none, and looks at launches alone
} wb_cover_row;

// Numbers that the source of what is judged names: sizes that it may compare with one of them are drawn near them, in
// half of the cases in which the class allows it, or leaves a gap to the next. They are not copied.
void wb_cover_numbers(const int *numbers, int count);

// Fills rows; returns how many. Two classes do not meet where one of them says nothing beside the other (how many keys,
// in a causal case), or where that takes a case of more work than `most`, in tiles of 16 queries, 64 keys and 16 columns.
// Then rows are long: `longest` to 1.5 times as many queries, keys, rows, or columns, or 2^16 where that is cheap,
// and little else; a class that no row has has one; the last are vast.
int wb_cover(const wb_problem *problem, uint64_t seed, double most, int longest, wb_cover_row rows[WB_COVERING]);

// The case that a row says.
wb_case wb_cover_case(const wb_problem *problem, const wb_cover_row *row, uint64_t seed);

// The row with the simplest value of dimension `d`; false if it has that, or the problem has no such dimension.
bool wb_cover_simpler(const wb_problem *problem, wb_cover_row *row, int d);

// Writes the classes of dimension `d`, nothing if the problem has no such dimension; returns what it is, null behind the
// last.
const char *wb_cover_words(const wb_problem *problem, int d, char text[WB_COVER_WORDS]);

#ifdef __cplusplus
}
#endif
