// random_case.h - random cases of a problem: whatever its contract leaves open takes a value by the seed, of one of a
// few classes that kernels treat apart (a tile's length and one more, one head and several, a scale of one's own). Of
// as many cases in a row as a dimension has classes each class occurs in one: Latin hypercube sampling (McKay, Beckman,
// Conover 1979).
#pragma once

#include "case/case.h"

enum { WB_RANDOM_CASES = 8 };  // that a suite tries of a seed

// Case n of this seed, n from 0, with no more than `most` multiplications in its products of matrices; if that is less
// than its shape takes, batches, heads and then lengths become fewer.
wb_case wb_random_case(const wb_problem *problem, uint64_t seed, int n, double most);

// Does without a condition, takes the simplest value of one more field, or half of a length; false if step says nothing
// of this case. From 0 to WB_SIMPLER - 1.
enum {
#define WB_CONDITION(name, ...) WB_WITHOUT_##name,
#include "case/conditions.inc"
    WB_SIMPLER_SHAPE,
    WB_SIMPLER = WB_SIMPLER_SHAPE + 11
};
bool wb_simpler_case(const wb_problem *problem, wb_case *c, int step);

// A few cases of each problem for slow machines that look at every access (make sanitize-NN): every head size and with
// it every kernel, lengths around the ends of tiles, several blocks, one lonely row. Printed one a line, as --case
// takes them.
int wb_small_cases(const wb_problem *problem, wb_case cases[], int room);
void wb_small_cases_print(const wb_problem *problem);
