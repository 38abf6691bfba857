// bench_check.c - a quick check that what is timed is right. The suites judge; this only keeps wrong kernels out of charts.
#include "bench.h"

#include "../reference/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 32, HEADS = 4 };

// One row: D values of O with their tolerances and one L, or one y.
typedef struct sample {
    size_t row;  // of [B, Hq, Nq], or of y
    double *value, *tolerance;
    double L, L_tolerance;
} sample;

struct bench_samples {
    int count;
    int width;  // values a row
    sample at[SAMPLES];
};

// `count` elements of an input from `first` on, as floats.
static float *as_floats(const bench_inputs *inputs, int tensor, size_t first, size_t count)
{
    float *x = bench_alloc(count * sizeof *x);
    const void *from = inputs->host[tensor];
    for (size_t i = 0; i < count; i++)
        x[i] = inputs->tensor[tensor].type == WB_FLOAT32 ? ((const float *)from)[first + i]
                                                         : wb_from_bf16(((const uint16_t *)from)[first + i]);
    return x;
}

static int find(const bench_inputs *inputs, const char *name)
{
    int k = 0;
    while (strcmp(inputs->tensor[k].name, name)) k++;
    return k;
}

// The k-th place to look at among `length`: both ends, the second, the middle, then scattered ones.
static size_t place(int k, size_t length)
{
    const size_t fixed[] = {0, length - 1, 1, length / 2};
    return (k < 4 ? fixed[k] : (size_t)k * 2654435761u) % length;
}

static void row_sum_samples(bench_samples *s, const bench_inputs *inputs)
{
    const size_t rows = (size_t)inputs->c.rows, cols = (size_t)inputs->c.cols;
    float *w = as_floats(inputs, find(inputs, "w"), 0, cols);
    for (int k = 0; k < SAMPLES; k++) {
        sample *at = &s->at[s->count++];
        at->row = place(k, rows);
        at->value = bench_alloc(sizeof(double));
        at->tolerance = bench_alloc(sizeof(double));
        float *x = as_floats(inputs, find(inputs, "x"), at->row * cols, cols);
        double terms;
        oracle_row_sum(x, w, 1, (int)cols, at->value, &terms);
        // With terms of random sign, partial sums and the total of their float32 roundings both grow with sqrt(cols), so the
        // error is a small multiple of 2^-24 terms, in whatever order the terms are added.
        *at->tolerance = 16 * ldexp(terms, -24) + 1e-30;
        free(x);
    }
    free(w);
}

static void attention_samples(bench_samples *s, const bench_inputs *inputs)
{
    const attention_shape *shape = &inputs->c.shape;
    const size_t Nq = (size_t)shape->q_len, Nk = (size_t)shape->kv_len, D = (size_t)shape->head_dim;
    const size_t heads = (size_t)shape->batch * (size_t)shape->q_heads;
    const size_t group = (size_t)(shape->q_heads / shape->kv_heads);
    const double rounding =
        inputs->problem->on_host ? 1e-5 : ldexp(1, -8);  // twice that of bf16: O is rounded, and so is P
    attention_shape one_head = *shape;
    one_head.batch = one_head.q_heads = one_head.kv_heads = 1;
    double *abs_V = bench_alloc(D * sizeof *abs_V);

    for (int k = 0; k < HEADS && (size_t)k < heads; k++) {
        const size_t head = place(k, heads), kv_head = head / group;  // heads of all batches, counted through
        float *Q = as_floats(inputs, find(inputs, "Q"), head * Nq * D, Nq * D);
        float *K = as_floats(inputs, find(inputs, "K"), kv_head * Nk * D, Nk * D);
        float *V = as_floats(inputs, find(inputs, "V"), kv_head * Nk * D, Nk * D);
        for (int r = 0; r < SAMPLES / HEADS; r++) {
            sample *at = &s->at[s->count++];
            const size_t i = place(r, Nq);
            double logit;
            at->row = head * Nq + i;
            at->value = bench_alloc(D * sizeof(double));
            at->tolerance = bench_alloc(D * sizeof(double));
            oracle_attention_row_scales(inputs->problem, &one_head, Q, K, V, 0, 0, (int)i, at->value, &at->L, abs_V,
                                        &logit);
            const double of_logit =
                1e-5 * (1 + logit);  // a float32 product's error in a logit is one of the weights, relatively
            for (size_t d = 0; d < D; d++)
                at->tolerance[d] = rounding * fabs(at->value[d]) + (rounding + of_logit) * abs_V[d] + 1e-30;
            at->L_tolerance = of_logit + 1e-6 * fabs(at->L);
        }
        free(Q), free(K), free(V);
    }
    free(abs_V);
}

bench_samples *bench_samples_make(const bench_inputs *inputs)
{
    bench_samples *s = bench_alloc(sizeof *s);
    s->count = 0;
    s->width = inputs->problem->signature == WB_ROW_SUM ? 1 : inputs->c.shape.head_dim;
    if (inputs->problem->signature == WB_ROW_SUM)
        row_sum_samples(s, inputs);
    else
        attention_samples(s, inputs);
    return s;
}

void bench_samples_free(bench_samples *s)
{
    for (int k = 0; k < s->count; k++) free(s->at[k].value), free(s->at[k].tolerance);
    free(s);
}

static wb_status fetch(const bench_inputs *inputs, void *to, const void *from, size_t bytes)
{
    if (!inputs->problem->on_host) return wb_copy_to_host(to, from, bytes);
    memcpy(to, from, bytes);
    return WB_OK;
}

// Notes the error of one value. NaN is the largest error there is.
static bool right(double got, double want, double tolerance, double *max_error)
{
    const double error = fabs(got - want);
    if (!(error <= *max_error)) *max_error = isnan(*max_error) ? NAN : error;
    return isfinite(got) && error <= tolerance;
}

wb_status bench_samples_compare(const bench_samples *s, const bench_inputs *inputs, void *const pointers[],
                                double *max_error)
{
    const wb_tensor *first = &inputs->tensor[0];
    const size_t width = (size_t)s->width, size = first->bytes / first->count;
    char *row = bench_alloc(width * size);
    wb_status verdict = WB_OK;
    *max_error = 0;
    for (int k = 0; k < s->count; k++) {
        const sample *at = &s->at[k];
        wb_status status = fetch(inputs, row, (const char *)pointers[0] + at->row * width * size, width * size);
        if (status != WB_OK) verdict = status;
        for (size_t d = 0; status == WB_OK && d < width; d++) {
            const double got = size == 4 ? ((float *)row)[d] : wb_from_bf16(((uint16_t *)row)[d]);
            if (!right(got, at->value[d], at->tolerance[d], max_error) && verdict == WB_OK)
                verdict = wb_fail(WB_BAD_ARGUMENT, "%s[row %zu, %zu] = %g, but the oracle says %g +- %.2g", first->name,
                                  at->row, d, got, at->value[d], at->tolerance[d]);
        }
        if (inputs->problem->signature == WB_ROW_SUM || status != WB_OK) continue;
        float L;
        status = fetch(inputs, &L, (const float *)pointers[1] + at->row, sizeof L);
        if (status != WB_OK) verdict = status;
        if (status == WB_OK && !right(L, at->L, at->L_tolerance, max_error) && verdict == WB_OK)
            verdict = wb_fail(WB_BAD_ARGUMENT, "L[row %zu] = %g, but the oracle says %g +- %.2g", at->row, L, at->L,
                              at->L_tolerance);
    }
    free(row);
    return verdict;
}
