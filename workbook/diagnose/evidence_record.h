// evidence_record.h - the record of products (asks.h), each with the rows of Q, K, V or dO that its factors are. What evidence_forward.c and
// evidence_backward.c share.
#ifndef DIAGNOSE_EVIDENCE_RECORD_H
#define DIAGNOSE_EVIDENCE_RECORD_H

#include "evidence.h"

#include <math.h>

enum { NO_ROW = -1, NOBODYS_ROW = -2 };  // zeros; numbers that are no row of any input

typedef enum owner { NOBODY, OF_Q, OF_K, OF_V, OF_dO } owner;

typedef struct product {
    int walker, rows, cols, depth;
    const float *a, *b, *before, *after;
    bool scores;  // A B^T: B's columns are rows of a tensor, not its rows
    owner left, right;
    int *a_row, *b_row;  // which rows, counted over the whole tensor
} product;

// What one warp, or one tile of problem 01, does: its products in their order. All of them have the same rows on the left of their scores.
typedef struct walk {
    const product *at;
    int count, block;
    const product *first;  // the first scores
} walk;

typedef struct record {
    product *products;
    walk *walks;
    int count, walk_count;
} record;

// False if there is none, or not all of it. Nothing is given back: a case or two are looked at.
bool record_read(const evidence *e, record *r);

typedef bool (*judge_of_gaps)(const char *gaps);

__attribute__((format(printf, 5, 6))) void find(finding *best, judge_of_gaps may_say, int rank, const char *gaps,
                                                const char *format, ...);

static inline bool near_to(double a, double b, double part) { return isfinite(b) && fabs(a - b) <= part * fabs(b); }

// The first of these numbers that x is `part` of away from, in words; "" if it is none of them.
typedef struct named_number {
    double value;
    const char *says;
} named_number;
const char *name_of(double x, const named_number *numbers, int count, double part);

// y = slope x + at; how far off the farthest point is.
typedef struct line {
    double slope, at, off;
} line;
line line_through(const double *x, const double *y, int count);

#endif
