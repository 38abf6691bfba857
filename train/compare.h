// compare.h - what a loss curve cannot show: are the gradients right?
#ifndef TRAIN_COMPARE_H
#define TRAIN_COMPARE_H

#include "model.h"

// One step's gradients of all attention weights, with the model's kernels and with naive attention on the same numbers. Each may be off by
// twice of what rounding explains (attention.h), in relation to its size: sqrt(sum of squared differences / sum of squares). Prints a
// table and PASS, or FAIL and which gradient is off; writes layer, gradient, error and bound to the table, if there is one.
// Returns whether all are right.
bool compare_gradients(model *m, const unsigned char *text, const unsigned char *target, int B, int T,
                       const char *table);

#endif
