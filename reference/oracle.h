// oracle.h - what every result is compared with: double precision, obvious loops, no tiling, nothing shared with any kernel.
#ifndef REFERENCE_ORACLE_H
#define REFERENCE_ORACLE_H

#include "problems.h"
#include "workbook.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether query i may see key j in this problem.
bool oracle_visible(const wb_problem *problem, const attention_shape *shape, int i, int j);

// Output O [D] and logsumexp L of query i of head h of batch b. Q, K, V: the rounded inputs as floats, laid out as in workbook.h.
void oracle_attention_row(const wb_problem *problem, const attention_shape *shape, const float *Q, const float *K,
                          const float *V, int b, int h, int i, double *O, double *L);

// The same, and what tolerances are made of: abs_V [D] = sum over j of P[j] |V[j, d]|, and the largest sum over d of
// scale |q[d] k[j, d]| of any visible key: how large the terms of a logit are that may cancel.
void oracle_attention_row_scales(const wb_problem *problem, const attention_shape *shape, const float *Q,
                                 const float *K, const float *V, int b, int h, int i, double *O, double *L,
                                 double *abs_V, double *logit);

// y[i] = sum over j of x[i, j] w[j], and terms[i] = sum of |x[i, j] w[j]| unless terms is null.
void oracle_row_sum(const float *x, const float *w, int rows, int cols, double *y, double *terms);

#ifdef __cplusplus
}
#endif
#endif
