// by_hand.h - what a worker does itself where no test started it.
#pragma once

#include "worker/run.h"

// A case in memory: an exchange and its zones, of `guard` bytes on both sides of each tensor.
typedef struct laid_case {
    const wb_problem *problem;
    wb_case c;
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    int count;
    size_t guard, bytes;
    char *at;
} laid_case;

// file: a test's memory, or -1: by hand. False, with a line on stderr, if there is none.
bool lay_out(laid_case *l, const wb_problem *problem, const wb_case *c, size_t guard, int file);

// Runs it once, as one worker or rank does. Returns the exit status that the worker deserves. board: a file, or -1.
int try_run(const laid_case *l, int board);

// Makes the inputs; starts a process for each rank, of which the first that ends badly ends all; prints what came out,
// each output by its rows, all of a small one, as a lesson's tables have them. `told`, unless -1: a descriptor that is
// told of an error, as of a report (layer_requests.h); then memory is not printed.
void by_hand_fill(const laid_case *l);
int by_hand_run_ranks(const laid_case *whole);
void by_hand_print(const laid_case *l, int told);
