// expect.h - what each output of a case should be, by the oracle, and how far from that it may be.
#pragma once

#include "worker_run.h"

// Prepares a case and has a worker run it; O and L of a backward are the oracle's, rounded.
void expect_start(worker_run *run, const wb_problem *problem, const wb_case *c, worker_kind kind);

// Multiplications that the oracle may spend on a case. Beyond it, only every n-th row is compared, in all heads.
extern double expect_budget;

typedef struct expected {
    double *want, *tolerance;  // an element each; infinite: not computed, any finite number passes; NaN: anything does
} expected;

// Is `got` element i? NaN is not, and what should be infinite is that alone.
static inline bool expected_is(const expected *e, size_t i, double got)
{
    if (isnan(e->tolerance[i])) return true;
    if (isinf(e->want[i])) return got == e->want[i];
    return isfinite(got) && fabs(got - e->want[i]) <= e->tolerance[i];
}

// A query is excused when V of some keys is NaN and a kernel of tiles may rightly have met them: if a query less than
// EXCUSED from it sees a key less than EXCUSED from one of them. So tiles may have EXCUSED queries and keys, wherever
// they start. excused: [q_len]. Where dO of queries is NaN, keys, [kv_len], are excused in the same way.
enum { EXCUSED = 128 };
void expect_excused(const worker_run *run, bool *excused);
void expect_excused_keys(const worker_run *run, bool *excused);

// For every output tensor k of the run, from the inputs that the worker never saw. Free want and tolerance.
void expect_outputs(const worker_run *run, expected outputs[WB_MAX_TENSORS]);

// By which one number all that is wrong of output k is off; NaN: by none.
double expected_factor(const worker_run *run, int k, const expected *e);
