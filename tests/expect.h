// expect.h - what each output of a case should be, by the oracle, and how far from that it may be.
#ifndef TESTS_EXPECT_H
#define TESTS_EXPECT_H

#include "worker_run.h"

typedef struct expected {
    double *want,
        *tolerance;  // an element each; a tolerance of infinity: not computed (see ORACLE_BUDGET), any finite number passes
} expected;

// For every output tensor k of the run, from the inputs that the worker never saw. Free want and tolerance.
void expect_outputs(const worker_run *run, expected outputs[WB_MAX_TENSORS]);

#endif
