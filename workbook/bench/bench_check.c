// bench_check.c - a quick check that what is timed is right. The suites judge; this only keeps wrong kernels out of charts.
#include "bench.h"

#include "case/pages.h"
#include "reference/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 32, HEADS = 4 };

// One row: D values of O with their tolerances and one L, or one y; of a backward, one row of dQ, dK or dV, or one delta.
typedef struct sample {
    int tensor;  // of the outputs
    int width;   // values
    size_t row;  // of [B, Hq, Nq], of [B, Hkv, Nk], or of y
    double *value, *tolerance;
    double L, L_tolerance;
} sample;

struct bench_samples {
    int count;
    sample at[2 * SAMPLES + HEADS];
};

// `count` elements of an input from `first` on, as floats.
static float *as_floats(const bench_inputs *inputs, int tensor, size_t first, size_t count)
{
    float *x = bench_alloc(count * sizeof *x);
    const void *from = inputs->host[tensor];
    for (size_t i = 0; i < count; i++) x[i] = (float)wb_get(inputs->tensor[tensor].type, from, first + i);
    return x;
}

static int find(const bench_inputs *inputs, const char *name)
{
    return wb_tensor_named(inputs->tensor, inputs->count, name);
}

static sample *add(bench_samples *s, int tensor, size_t row, size_t width)
{
    sample *at = &s->at[s->count++];
    *at = (sample){.tensor = tensor, .width = (int)width, .row = row};
    at->value = bench_alloc(width * sizeof(double));
    at->tolerance = bench_alloc(width * sizeof(double));
    return at;
}

// Of O and L, which differ by `rounding` of O and of P. abs_V, logit: oracle.h.
static void tolerate(sample *at, double rounding, const double *abs_V, double logit)
{
    const double of_logit =
        1e-5 * (1 + logit);  // a float32 product's error in a logit is one of the weights, relatively
    for (int d = 0; d < at->width; d++)
        at->tolerance[d] = rounding * fabs(at->value[d]) + (rounding + of_logit) * abs_V[d] + 1e-30;
    at->L_tolerance = of_logit + 1e-6 * fabs(at->L);
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
        sample *at = add(s, 0, place(k, rows), 1);
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

// The sink logits of `count` query heads of a batch; null where there are none.
static float *sinks_of(const bench_inputs *inputs, size_t head, size_t count)
{
    const int at = find(inputs, "sink_logits");
    return at < 0 ? NULL : as_floats(inputs, at, head, count);
}

// Head `head` of Q, K or V as floats [N, D]; of e4m3 what they stand for.
static float *head_of(const bench_inputs *inputs, const char *name, size_t head, size_t N, size_t D)
{
    const int at = find(inputs, name);
    if (inputs->problem->signature != WB_FP8) return as_floats(inputs, at, head * N * D, N * D);
    const size_t tile = *name == 'Q' ? 1 : WB_FP8_KEYS, tiles = (N - 1) / tile + 1;
    const size_t first = head * (*name == 'V' ? tiles * tile : N) * D;
    float *x = bench_alloc(N * D * sizeof *x);
    wb_dequantise_fp8(x, *name, (const uint8_t *)inputs->host[at] + first,
                      (const int8_t *)inputs->host[at + 3] + head * tiles, 1, N, D);
    return x;
}

static void attention_samples(bench_samples *s, const bench_inputs *inputs)
{
    const attention_shape *shape = &inputs->c.shape;
    const size_t Nq = (size_t)shape->q_len, Nk = (size_t)shape->kv_len, D = (size_t)shape->head_dim;
    const size_t heads = (size_t)shape->batch * (size_t)shape->q_heads;
    const size_t group = (size_t)(shape->q_heads / shape->kv_heads);
    const double rounding = inputs->problem->on_host ? 1e-5
                            : inputs->problem->signature == WB_FP8
                                ? 0.1            // of e4m3; and what sums lose: tolerance.h
                                : ldexp(1, -8);  // twice that of bf16: O is rounded, and so is P
    attention_shape one_head = *shape;
    one_head.batch = one_head.q_heads = one_head.kv_heads = 1;
    double *abs_V = bench_alloc(D * sizeof *abs_V);
    const wb_named_mask *mask =
        inputs->problem->signature == WB_BLOCK_MASK ? &wb_case_mask_of(&inputs->c)->named : NULL;

    for (int k = 0; k < HEADS && (size_t)k < heads; k++) {
        const size_t head = place(k, heads), kv_head = head / group;  // heads of all batches, counted through
        float *Q = head_of(inputs, "Q", head, Nq, D), *K = head_of(inputs, "K", kv_head, Nk, D);
        float *V = head_of(inputs, "V", kv_head, Nk, D);
        float *sink = sinks_of(inputs, head % (size_t)shape->q_heads, 1);
        for (int r = 0; r < SAMPLES / HEADS; r++) {
            const size_t i = place(r, Nq);
            sample *at = add(s, 0, head * Nq + i, D);
            double logit;
            if (mask) {
                const int b = (int)(head / (size_t)shape->q_heads);
                const oracle_mask of_batch = {wb_named_mask_sees, mask, b % mask->masks};
                oracle_masked_row_scales(&of_batch, &one_head, Q, K, V, 0, 0, (int)i, at->value, &at->L, abs_V, &logit);
            } else {
                oracle_attention_row_scales(inputs->problem, &one_head, Q, K, V, sink, 0, 0, (int)i, at->value, &at->L,
                                            abs_V, &logit);
            }
            tolerate(at, rounding, abs_V, logit);
            if (inputs->problem->signature == WB_FP8) at->L_tolerance += ldexp(logit, -9);
        }
        free(Q), free(K), free(V), free(sink);
    }
    free(abs_V);
}

// The `keys` rows of a key head of sequence b, gathered; of int8 times their scales.
static float *gathered(const bench_inputs *inputs, const char *name, const wb_pages *p, int b, size_t head)
{
    const int tensor = find(inputs, name), scales = find(inputs, *name == 'K' ? "K_scale" : "V_scale");
    const size_t D = (size_t)p->shape.head_dim, rows = (size_t)p->shape.page_size, heads = (size_t)p->shape.kv_heads;
    float *x = bench_alloc(((size_t)p->kv_len[b] + 1) * D * sizeof *x);
    for (size_t j = 0; j < (size_t)p->kv_len[b]; j++) {
        const size_t page = (size_t)p->table[(size_t)b * (size_t)p->shape.max_pages + j / rows];
        const float *scale = scales < 0 ? NULL : inputs->host[scales];
        for (size_t d = 0; d < D; d++)
            x[j * D + d] = (float)wb_get(inputs->tensor[tensor].type, inputs->host[tensor],
                                         ((page * rows + j % rows) * heads + head) * D + d) *
                           (scale ? scale[(page * heads + head) * rows + j % rows] : 1);
    }
    return x;
}

// The last token of a few query heads of a few sequences that have keys.
static void decode_samples(bench_samples *s, const bench_inputs *inputs)
{
    wb_pages p = wb_pages_make(&inputs->c);
    const decode_shape *shape = &p.shape;
    const size_t D = (size_t)shape->head_dim, Hq = (size_t)shape->q_heads, Nq = (size_t)shape->q_len;
    const size_t group = Hq / (size_t)shape->kv_heads;
    double *abs_V = bench_alloc(D * sizeof *abs_V);
    for (int k = 0; k < 2 * HEADS; k++) {
        const int b = (int)place(k, (size_t)shape->batch);
        const size_t head = place(k + 1, Hq);
        if (p.kv_len[b] == 0) continue;
        sample *at = add(s, 0, ((size_t)b * Hq + head) * Nq + Nq - 1, D);
        float *q = as_floats(inputs, find(inputs, "Q"), at->row * D, D);
        float *K = gathered(inputs, "K", &p, b, head / group), *V = gathered(inputs, "V", &p, b, head / group);
        double logit;
        oracle_decode_row(shape, q, K, V, p.kv_len[b], at->value, &at->L, abs_V, &logit);
        tolerate(at, ldexp(1, -8), abs_V, logit);
        free(q), free(K), free(V);
    }
    free(abs_V);
    wb_pages_free(&p);
}

// One row of a gradient.
static void add_gradient(bench_samples *s, int tensor, size_t row, const oracle_sum *sum, int width)
{
    sample *at = add(s, tensor, row, (size_t)width);
    for (int d = 0; d < width; d++) {
        const oracle_sum x = sum[d];
        at->value[d] = x.value;
        at->tolerance[d] =
            (width == 1 ? 0 : ldexp(fabs(x.value) + x.size, -8)) + 1e-5 * (x.size + x.exponent + x.cancel) + 1e-30;
    }
}

// Of a few key heads, each with its group of query heads: keys, and queries of the group's last head; of a batch of one also that head's
// dsinks, for which it takes all of a head's rows.
static void backward_samples(bench_samples *s, const bench_inputs *inputs)
{
    enum { PLACES = 4 };
    attention_shape one = inputs->c.shape;
    const size_t kv_heads = (size_t)one.batch * (size_t)one.kv_heads, group = (size_t)(one.q_heads / one.kv_heads);
    const size_t N = (size_t)one.q_len, D = (size_t)one.head_dim;
    one.batch = one.kv_heads = 1;
    one.q_heads = (int)group;
    oracle_sum first[WB_MAX_HEAD_DIM], second[WB_MAX_HEAD_DIM];
    for (int k = 0; k < HEADS && (size_t)k < kv_heads; k++) {
        const size_t head = place(k, kv_heads), q_rows = head * group * N, last = group - 1;
        float *Q = as_floats(inputs, find(inputs, "Q"), q_rows * D, group * N * D);
        float *K = as_floats(inputs, find(inputs, "K"), head * N * D, N * D);
        float *V = as_floats(inputs, find(inputs, "V"), head * N * D, N * D);
        float *O = as_floats(inputs, find(inputs, "O"), q_rows * D, group * N * D);
        float *L = as_floats(inputs, find(inputs, "L"), q_rows, group * N);
        float *dO = as_floats(inputs, find(inputs, "dO"), q_rows * D, group * N * D);
        float *sinks = sinks_of(inputs, head * group % (size_t)inputs->c.shape.q_heads, group);
        const oracle_inputs in = {inputs->problem, &one, Q, K, V, O, L, dO, sinks};
        for (int r = 0; r < PLACES; r++) {
            const size_t i = place(r, N);
            oracle_backward_key(&in, 0, 0, (int)i, first, second);
            add_gradient(s, 1, head * N + i, first, (int)D);
            add_gradient(s, 2, head * N + i, second, (int)D);
            oracle_backward_query(&in, 0, (int)last, (int)i, first, second);
            add_gradient(s, 0, q_rows + last * N + i, first, (int)D);
            add_gradient(s, find(inputs, "delta"), q_rows + last * N + i, second, 1);
        }
        if (sinks && inputs->c.shape.batch == 1) {
            oracle_backward_sink(&in, (int)last, first);
            add_gradient(s, find(inputs, "dsinks"), head * group + last, first, 1);
        }
        free(Q), free(K), free(V), free(O), free(L), free(dO), free(sinks);
    }
}

bench_samples *bench_samples_make(const bench_inputs *inputs)
{
    bench_samples *s = bench_alloc(sizeof *s);
    s->count = 0;
    if (inputs->problem->signature == WB_ROW_SUM)
        row_sum_samples(s, inputs);
    else if (inputs->problem->signature == WB_DECODE)
        decode_samples(s, inputs);
    else if (inputs->problem->signature == WB_BACKWARD)
        backward_samples(s, inputs);
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
    if (isinf(want) && got == want) return true;  // L of a row that sees no key
    const double error = fabs(got - want);
    if (!(error <= *max_error)) *max_error = isnan(*max_error) ? NAN : error;
    return isfinite(got) && error <= tolerance;
}

wb_status bench_samples_compare(const bench_samples *s, const bench_inputs *inputs, void *const pointers[],
                                double *max_error)
{
    _Alignas(16) char row[128 * sizeof(float)];
    wb_status verdict = WB_OK;
    *max_error = 0;
    for (int k = 0; k < s->count; k++) {
        const sample *at = &s->at[k];
        const wb_tensor *tensor = &inputs->tensor[at->tensor];
        const size_t width = (size_t)at->width, bytes = width * wb_type_bytes(tensor->type);
        wb_status status = fetch(inputs, row, (const char *)pointers[at->tensor] + at->row * bytes, bytes);
        if (status != WB_OK) verdict = status;
        for (size_t d = 0; status == WB_OK && d < width; d++) {
            const double got = wb_get(tensor->type, row, d);
            if (!right(got, at->value[d], at->tolerance[d], max_error) && verdict == WB_OK)
                verdict = wb_fail(WB_BAD_ARGUMENT, "%s[row %zu, %zu] = %g, but the oracle says %g +- %.2g",
                                  tensor->name, at->row, d, got, at->value[d], at->tolerance[d]);
        }
        const wb_signature signature = inputs->problem->signature;
        const bool has_L = signature != WB_ROW_SUM && signature != WB_BACKWARD;
        if (!has_L || status != WB_OK) continue;
        float L;
        status = fetch(inputs, &L, (const float *)pointers[1] + at->row, sizeof L);
        if (status != WB_OK) verdict = status;
        if (status == WB_OK && !right(L, at->L, at->L_tolerance, max_error) && verdict == WB_OK)
            verdict = wb_fail(WB_BAD_ARGUMENT, "L[row %zu] = %g, but the oracle says %g +- %.2g", at->row, L, at->L,
                              at->L_tolerance);
    }
    return verdict;
}
