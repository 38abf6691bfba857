#include "expect.h"

#include "../reference/oracle.h"
#include "tolerance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Multiplications that the oracle may spend on a case. Beyond it, only every n-th row is compared, in all heads.
#define ORACLE_BUDGET 3e9

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "harness: no memory for the oracle\n");
        exit(99);
    }
    return memory;
}

// Input tensor `name` as floats.
static float *as_floats(const worker_run *run, const char *name)
{
    for (int k = 0; k < run->count; k++) {
        const wb_tensor *t = &run->tensors[k];
        if (t->output || strcmp(t->name, name)) continue;
        float *values = allocate(t->count * sizeof *values);
        const char *data = original_tensor(run, k);
        for (size_t i = 0; i < t->count; i++)
            values[i] = t->type == WB_FLOAT32 ? ((const float *)data)[i] : wb_from_bf16(((const uint16_t *)data)[i]);
        return values;
    }
    abort();
}

static void expect_row_sum(const worker_run *run, expected *y)
{
    const int rows = run->c.rows, cols = run->c.cols;
    float *x = as_floats(run, "x"), *w = as_floats(run, "w");
    oracle_row_sum(x, w, rows, cols, y->want, y->tolerance);
    for (int i = 0; i < rows; i++) y->tolerance[i] = tolerance_row_sum(y->tolerance[i], cols);
    free(x);
    free(w);
}

static void expect_forward(const worker_run *run, expected *O, expected *L)
{
    const wb_problem *problem = run->problem;
    const attention_shape *s = &run->c.shape;
    const wb_type type = run->tensors[0].type;
    float *Q = as_floats(run, "Q"), *K = as_floats(run, "K"), *V = as_floats(run, "V");
    const double work = 2.0 * s->batch * s->q_heads * s->head_dim * wb_case_visible_pairs(problem, &run->c);
    const int heads = s->batch * s->q_heads, every = 1 + (int)(work / ORACLE_BUDGET), D = s->head_dim;

#pragma omp parallel for collapse(2) schedule(dynamic, 16)
    for (int bh = 0; bh < heads; bh++)
        for (int i = 0; i < s->q_len; i++) {
            const size_t row = (size_t)bh * (size_t)s->q_len + (size_t)i;
            double *want = O->want + row * (size_t)D, *tolerance = O->tolerance + row * (size_t)D, largest;
            if ((i + bh) % every) {
                for (int d = 0; d < D; d++) want[d] = 0, tolerance[d] = INFINITY;
                L->want[row] = 0, L->tolerance[row] = INFINITY;
                continue;
            }
            oracle_attention_row_scales(problem, s, Q, K, V, bh / s->q_heads, bh % s->q_heads, i, want, &L->want[row],
                                        tolerance, &largest);
            for (int d = 0; d < D; d++) tolerance[d] = tolerance_O(want[d], tolerance[d], largest, D, s->kv_len, type);
            L->tolerance[row] = tolerance_L(L->want[row], largest, D, s->kv_len);
        }
    free(Q);
    free(K);
    free(V);
}

void expect_outputs(const worker_run *run, expected outputs[WB_MAX_TENSORS])
{
    for (int k = 0; k < run->count; k++) {
        if (!run->tensors[k].output) continue;
        outputs[k].want = allocate(run->tensors[k].count * sizeof(double));
        outputs[k].tolerance = allocate(run->tensors[k].count * sizeof(double));
    }
    switch (run->problem->signature) {
    case WB_ROW_SUM: expect_row_sum(run, &outputs[0]); break;
    case WB_FORWARD: expect_forward(run, &outputs[0], &outputs[1]); break;
    case WB_BACKWARD: abort();  // problems 08 and 09 bring their oracle
    }
}
