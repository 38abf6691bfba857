// oracle.h - what every result is compared with: double precision, obvious loops, no tiling, nothing shared with any
// kernel.
#pragma once

#include "problems.h"
#include "workbook.h"

// Whether query i may see key j in this problem.
bool oracle_visible(const wb_problem *problem, const attention_shape *shape, int i, int j);

// A mask that has no formula here: who asks it tells whether a query sees a key (wb_sees, workbook.h).
typedef struct oracle_mask {
    wb_sees *sees;
    const void *of;
    int b;  // which mask
} oracle_mask;

// The rounded tensors that the student's function gets, as numbers, laid out as in workbook.h.
typedef struct oracle_inputs {
    const wb_problem *problem;
    const attention_shape *shape;
    const double *Q, *K, *V;
    const double *sink_logits;  // null where the problem has none
    const double *O, *L, *dO;   // of a backward
    const oracle_mask *mask;    // null where the problem's own formula tells who sees whom
} oracle_inputs;

// Output O [D] and logsumexp L of query i of head h of batch b. What is wanted besides, null if not: of what tolerances
// are made, abs_V [D] = sum over j of P[j] |V[j, d]|, and the largest sum over d of scale |q[d] k[j, d]| of any visible
// key, how large the terms of a logit are that may cancel; and the weights, P [Nk], 0 where a key is hidden.
void oracle_attention_row(const oracle_inputs *in, int b, int h, int i, double *O, double *L, double *abs_V,
                          double *logit, double *P);

// Of a paged cache [pages, page_size, Hkv, D] the first `keys` rows of a sequence's key head, in order: rows [keys, D].
// table: the sequence's row of page_table.
void oracle_gather(const decode_shape *shape, const double *cache, const int *table, int kv_head, int keys,
                   double *rows);

// O [D] and L of a query whose keys and values are the first `keys` rows of K and V, all of them seen; with none O = 0,
// L = -infinity. abs_V and logit as above. The keys that query i of Nq sees, of a sequence of kv_len: kv_len - Nq + i +
// 1, or none.
void oracle_decode_row(const decode_shape *shape, const double *q, const double *K, const double *V, int keys,
                       double *O, double *L, double *abs_V, double *logit);
int oracle_decode_keys(const decode_shape *shape, int kv_len, int i);

// An element of a gradient, a sum over query-key pairs, and what its tolerance is made of: three sums of absolute
// values.
typedef struct oracle_sum {
    double value;
    double size;      // of the terms themselves
    double exponent;  // of the terms, each times the size of the numbers that cancel in its exponent scale q . k - L
    double cancel;    // of the terms with the sizes of what cancels in dP - delta in place of that difference
} oracle_sum;

// dQ [D] and delta of query i of head h of batch b.
void oracle_backward_query(const oracle_inputs *in, int b, int h, int i, oracle_sum *dQ, oracle_sum *delta);

// dK [D] and dV [D] of key j of key head h of batch b: over all queries of all query heads of the group.
void oracle_backward_key(const oracle_inputs *in, int b, int h, int j, oracle_sum *dK, oracle_sum *dV);

// dsinks of head h: over all rows of all batches. Reads sink_logits, O, L and dO. Its exponent is sink_logits[h] - L.
void oracle_backward_sink(const oracle_inputs *in, int h, oracle_sum *dsink);

// y[i] = sum over j of x[i, j] w[j], and terms[i] = sum of |x[i, j] w[j]| unless terms is null.
void oracle_row_sum(const double *x, const double *w, int rows, int cols, double *y, double *terms);
