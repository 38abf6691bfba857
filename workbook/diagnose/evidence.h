// evidence.h - what the execution layer saw a function do, against what each step should have done. Nothing is guessed: a fact is named, and
// the gaps that it comes from.
#ifndef DIAGNOSE_EVIDENCE_H
#define DIAGNOSE_EVIDENCE_H

#include "case.h"
#include "mistakes.h"

// One case: its inputs, what came out as floats (O and L, or dQ, dK, dV and delta, or y), and the record of products (asks.h).
typedef struct evidence {
    model_inputs in;
    const float *out[5], *products;
    size_t product_count;  // numbers in the record
} evidence;

// The first step that is not what it should be: the lower the rank, the earlier. `gaps`: where that can come from, "max|rescale", those of them
// that the problem has. rank 0: nothing was found.
typedef struct finding {
    int rank;
    char says[1200];
    const char *gaps;
} finding;

// Keeps in *best what this case shows, if that comes earlier than what is there. may_say(gaps): whether these are worth naming.
void evidence_of_forward(const evidence *e, bool (*may_say)(const char *gaps), finding *best);
// Of a row sum, which has no products: run(rows, cols, input, seed, y) has the function make y [rows], its elements that were not written NaN;
// false if it could not.
void evidence_of_sum(bool (*run)(int rows, int cols, wb_input input, int seed, float *y),
                     bool (*may_say)(const char *gaps), finding *best);
void evidence_of_hang(const evidence *e, bool (*may_say)(const char *gaps), finding *best);
void evidence_of_backward(const evidence *e, bool (*may_say)(const char *gaps), finding *best);

#endif
