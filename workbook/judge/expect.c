#include "expect.h"

#include "record.h"
#include "reference/oracle.h"
#include "tolerance.h"

#include <stdio.h>

double expect_budget = 3e9;

// Of rows that are too many for the budget every so many-th is computed; which, the seed says: no submission may know.
static bool is_judged(const worker_run *run, int row, int every)
{
    return (row + (int)(run->c.seed % (unsigned)every)) % every == 0;
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "harness: out of memory for the oracle\n");
        exit(RECORD_GAVE_UP);
    }
    return memory;
}

static expected room_for(size_t count)
{
    return (expected){.want = allocate(count * sizeof(double)), .tolerance = allocate(count * sizeof(double))};
}

static void expect_row_sum(const worker_run *run, expected *y)
{
    const int rows = run->c.rows, cols = run->c.cols;
    double *x = worker_numbers(run, "x"), *w = worker_numbers(run, "w");
    oracle_row_sum(x, w, rows, cols, y->want, y->tolerance);
    for (int i = 0; i < rows; i++) y->tolerance[i] = tolerance_row_sum(y->tolerance[i], cols);
    free(x);
    free(w);
}

// Under a mask as data a query is excused if its tile's lists name a tile that has one of these keys, in any mask.
static void excused_by_lists(const worker_run *run, bool *excused)
{
    const wb_case *c = &run->c;
    const block_mask *m = &wb_case_mask_of(c)->lists;
    const int q_tiles = (c->shape.q_len - 1) / m->q_tile + 1;
    memset(excused, 0, (size_t)c->shape.q_len * sizeof *excused);
    for (int n = 0; n < m->masks * q_tiles; n++) {
        const int t = n % q_tiles, r = n / q_tiles * (q_tiles + 1) + t;
        bool named = false;
        for (int part = 0; part < 2; part++) {
            const int *list = part ? m->part : m->whole, *start = part ? m->part_start : m->whole_start;
            for (int k = start[r]; k < start[r + 1]; k++) {
                const int j = list[k] * m->kv_tile;
                named = named || (j < c->nan_from + c->nan_keys && j + m->kv_tile > c->nan_from);
            }
        }
        for (int i = t * m->q_tile; named && i < (t + 1) * m->q_tile && i < c->shape.q_len; i++) excused[i] = true;
    }
}

// Those that lie near a query that sees a key near one of NaN; keys: near a key that such a query sees.
static void excuse_near(const worker_run *run, bool keys, bool *excused)
{
    const wb_case *c = &run->c;
    const attention_shape *s = &c->shape;
    const int nans = keys ? c->nan_queries : c->nan_keys, count = keys ? s->kv_len : s->q_len;
    const int from = c->nan_from - EXCUSED + 1, to = c->nan_from + nans + EXCUSED - 1;
    memset(excused, 0, (size_t)count * sizeof *excused);
    for (int x = 0; nans > 0 && x < count; x++) {
        bool meets = false;
        for (int y = from > 0 ? from : 0; y < to && y < (keys ? s->q_len : s->kv_len) && !meets; y++)
            meets = oracle_visible(run->problem, s, keys ? y : x, keys ? x : y);
        for (int k = x - EXCUSED + 1; meets && k < x + EXCUSED && k < count; k++)
            if (k >= 0) excused[k] = true;
    }
}

void expect_excused(const worker_run *run, bool *excused)
{
    if (run->problem->signature == WB_BLOCK_MASK)
        excused_by_lists(run, excused);
    else
        excuse_near(run, false, excused);
}

void expect_excused_keys(const worker_run *run, bool *excused) { excuse_near(run, true, excused); }

// Where V of a head is NaN nothing is judged of its rows, which may be several heads', but L. dsinks has one sequence.
static void excuse_head(const worker_run *run, int k, const expected *e)
{
    const attention_shape *s = &run->c.shape;
    const wb_tensor *t = &run->tensors[k];
    const size_t heads = (size_t)(s->kv_heads * (strcmp(t->name, "dsinks") == 0 ? 1 : s->batch));
    const size_t rows = t->count / heads, head = (size_t)(run->c.nan_head - 1) % heads;
    for (size_t i = head * rows; i < (head + 1) * rows && strcmp(t->name, "L") != 0; i++) e->tolerance[i] = NAN;
}

// Whether a row, is_judged's n-th, is not compared: any finite numbers pass.
static bool leaves_out(const worker_run *run, int n, int every, expected *O, expected *L, size_t row)
{
    const size_t D = (size_t)run->c.shape.head_dim;
    if (is_judged(run, n, every)) return false;
    for (size_t i = row * D; i < (row + 1) * D; i++) O->want[i] = 0, O->tolerance[i] = INFINITY;
    L->want[row] = 0, L->tolerance[row] = INFINITY;
    return true;
}

// Such a row is judged in any case: its L is -infinity, and that is no finite number.
static bool sees_nothing(const wb_named_mask *mask, int b, int i)
{
    for (int j = 0; j < mask->kv_len; j++)
        if (wb_named_mask_sees(mask, b % mask->masks, i, j)) return false;
    return true;
}

static void excuse_queries(const worker_run *run, expected *O)
{
    const size_t N = (size_t)run->c.shape.q_len, D = (size_t)run->c.shape.head_dim;
    if (!run->c.nan_keys) return;
    bool *excused = allocate(N * sizeof *excused);
    expect_excused(run, excused);
    for (size_t i = 0; i < run->tensors[0].count; i++)
        if (excused[i / D % N]) O->tolerance[i] = NAN;
    free(excused);
}

static void expect_forward(const worker_run *run, expected *O, expected *L, double budget)
{
    const wb_problem *problem = run->problem;
    const attention_shape *s = &run->c.shape;
    const wb_type type = run->tensors[0].type;
    double *Q = worker_numbers(run, "Q"), *K = worker_numbers(run, "K"), *V = worker_numbers(run, "V");
    double *sinks = worker_numbers(run, "sink_logits");
    const wb_named_mask *mask = problem->signature == WB_BLOCK_MASK ? &wb_case_mask_of(&run->c)->named : NULL;
    const int heads = s->batch * s->q_heads, D = s->head_dim;
    const int parts = problem->signature == WB_RING ? 2 * run->c.ranks : 0;
    const int every = 1 + (int)(2.0 * heads * D * wb_case_visible_pairs(problem, &run->c) / budget);

#pragma omp parallel for schedule(dynamic, 16)
    for (size_t row = 0; row < (size_t)heads * (size_t)s->q_len; row++) {
        const int i = (int)(row % (size_t)s->q_len), bh = (int)(row / (size_t)s->q_len), b = bh / s->q_heads;
        double *want = O->want + row * (size_t)D, *tolerance = O->tolerance + row * (size_t)D, largest;
        if (!(mask && sees_nothing(mask, b, i)) && leaves_out(run, i + bh, every, O, L, row)) continue;
        const oracle_mask named = {wb_named_mask_sees, mask, mask ? b % mask->masks : 0};
        oracle_attention_row(&(oracle_inputs){problem, s, Q, K, V, sinks, .mask = mask ? &named : NULL}, b,
                             bh % s->q_heads, i, want, &L->want[row], tolerance, &largest, NULL);
        for (int d = 0; d < D; d++) {
            const double abs_V = tolerance[d];
            tolerance[d] = tolerance_O(want[d], abs_V, largest, D, s->kv_len, type);
            if (parts) tolerance[d] += tolerance_parts_O(abs_V, L->want[row], parts);
        }
        L->tolerance[row] = tolerance_L(L->want[row], largest, D, s->kv_len);
        if (parts) L->tolerance[row] += tolerance_parts_L(L->want[row], parts);
    }
    excuse_queries(run, O);
    free(Q), free(K), free(V), free(sinks);
}

// O and L of a backward are the oracle's, rounded; for a shape that will be refused they stay what they are.
static void fill_forward_inputs(const worker_run *run)
{
    void *const any = (void *)256;
    if (wb_check_backward(run->problem->name, any, any, any, any, any, any, any, any, any, any, &run->c.shape) != WB_OK)
        return;
    const int at[2] = {worker_named(run, "O"), worker_named(run, "L")};
    expected is[2] = {room_for(run->tensors[at[0]].count), room_for(run->tensors[at[1]].count)};
    expect_forward(run, &is[0], &is[1], INFINITY);
    for (int k = 0; k < 2; free(is[k].want), free(is[k].tolerance), k++)
        for (size_t i = 0; i < run->tensors[at[k]].count; i++)
            wb_put(run->tensors[at[k]].type, original_tensor(run, at[k]), i, is[k].want[i]);
}

void expect_start(worker_run *run, const wb_problem *problem, const wb_case *c, worker_kind kind)
{
    *run = (worker_run){.problem = problem, .c = *c};
    worker_lay_out(run);
    if (wb_is_backward(problem) && !c->dry) fill_forward_inputs(run);
    worker_start(run, kind);
}

// One row of dQ, dK or dV.
static void set_gradients(expected *e, size_t row, const oracle_sum *sum, int D, double terms, bool left_out)
{
    for (size_t d = 0; d < (size_t)D; d++) {
        const oracle_sum x = sum[d];
        e->want[row * (size_t)D + d] = x.value;
        e->tolerance[row * (size_t)D + d] =
            left_out ? INFINITY : tolerance_gradient(x.value, x.size, x.exponent, x.cancel, D, terms);
    }
}

// Where V or dO is NaN. What the oracle says is NaN is not judged, nor are excused rows of `e`, a head's `rows` each.
static void excuse_gradients(expected *e, size_t count, const bool *excused, int rows, int D)
{
    for (size_t k = 0; k < count; k++)
        if (isnan(e->want[k]) || (excused && excused[k / (size_t)D % (size_t)rows])) e->tolerance[k] = NAN;
}

static void excuse_backward(const worker_run *run, expected outputs[WB_MAX_TENSORS])
{
    const attention_shape *s = &run->c.shape;
    bool *queries = allocate((size_t)s->q_len), *keys = allocate((size_t)s->kv_len);
    expect_excused(run, queries);
    expect_excused_keys(run, keys);
    excuse_gradients(&outputs[0], run->tensors[0].count, queries, s->q_len, s->head_dim);
    excuse_gradients(&outputs[1], run->tensors[1].count, keys, s->kv_len, s->head_dim);
    excuse_gradients(&outputs[2], run->tensors[2].count, keys, s->kv_len, s->head_dim);
    for (int k = 3; k < run->count && run->tensors[k].output; k++)  // delta, dsinks
        excuse_gradients(&outputs[k], run->tensors[k].count, NULL, 1, 1);
    // Where V is NaN, so is delta of the queries that see it, and with it dK of every key that shares a tile with one
    // of them.
    for (size_t k = 0; run->c.nan_keys > 0 && k < run->tensors[1].count; k++) outputs[1].tolerance[k] = NAN;
    free(queries), free(keys);
}

// Every output of a backward: dQ and delta a query at a time, dK and dV a key at a time, dsinks a head at a time.
static void expect_backward(const worker_run *run, expected outputs[WB_MAX_TENSORS])
{
    const attention_shape *s = &run->c.shape;
    expected *dQ = &outputs[0], *dK = &outputs[1], *dV = &outputs[2];
    expected *delta = &outputs[worker_named(run, "delta")];
    double *Q = worker_numbers(run, "Q"), *K = worker_numbers(run, "K"), *V = worker_numbers(run, "V"),
           *O = worker_numbers(run, "O"), *L = worker_numbers(run, "L"), *dO = worker_numbers(run, "dO"),
           *sinks = worker_numbers(run, "sink_logits");
    const oracle_inputs in = {run->problem, s, Q, K, V, sinks, O, L, dO, NULL};
    const double work = 16.0 * s->batch * s->q_heads * s->head_dim * wb_case_visible_pairs(run->problem, &run->c);
    // which results may be NaN where V or dO is, a row says that is computed
    const int every = run->c.nan_keys || run->c.nan_queries ? 1 : 1 + (int)(work / expect_budget), D = s->head_dim;
    const size_t Nq = (size_t)s->q_len, Nk = (size_t)s->kv_len, batch = (size_t)s->batch;
    const double terms = (double)(s->q_heads / s->kv_heads) * s->q_len;  // of a key

#pragma omp parallel for schedule(dynamic, 16)
    for (size_t row = 0; row < batch * (size_t)s->q_heads * Nq; row++) {
        const int bh = (int)(row / Nq), i = (int)(row % Nq);
        const bool left_out = !is_judged(run, i + bh, every);
        oracle_sum sum[WB_MAX_HEAD_DIM], of_delta = {0};
        memset(sum, 0, sizeof sum);
        if (!left_out) oracle_backward_query(&in, bh / s->q_heads, bh % s->q_heads, i, sum, &of_delta);
        set_gradients(dQ, row, sum, D, s->kv_len, left_out);
        delta->want[row] = of_delta.value;
        delta->tolerance[row] = left_out ? INFINITY : tolerance_delta(of_delta.size, D);
    }
#pragma omp parallel for schedule(dynamic, 16)
    for (size_t row = 0; row < batch * (size_t)s->kv_heads * Nk; row++) {
        const int bh = (int)(row / Nk), j = (int)(row % Nk);
        const bool left_out = !is_judged(run, j + bh, every);
        oracle_sum of_dK[WB_MAX_HEAD_DIM], of_dV[WB_MAX_HEAD_DIM];
        memset(of_dK, 0, sizeof of_dK), memset(of_dV, 0, sizeof of_dV);
        if (!left_out) oracle_backward_key(&in, bh / s->kv_heads, bh % s->kv_heads, j, of_dK, of_dV);
        set_gradients(dK, row, of_dK, D, terms, left_out);
        set_gradients(dV, row, of_dV, D, terms, left_out);
    }
    for (int h = 0; sinks && h < s->q_heads; h++) {
        expected *dsinks = &outputs[worker_named(run, "dsinks")];
        oracle_sum sum;
        oracle_backward_sink(&in, h, &sum);
        dsinks->want[h] = sum.value;
        dsinks->tolerance[h] = tolerance_dsink(sum.size, sum.exponent, sum.cancel, D, (double)s->batch * s->q_len);
    }
    if (run->c.nan_keys > 0 || run->c.nan_queries > 0) excuse_backward(run, outputs);
    free(Q), free(K), free(V), free(O), free(L), free(dO), free(sinks);
}

// What a cache of int8 stands for: K or V, each row times its scale.
static void dequantise(const worker_run *run, const char *scales, double *cache)
{
    double *scale = worker_numbers(run, scales);
    const size_t *dim = run->tensors[worker_named(run, "K")].dim;
    for (size_t row = 0; scale && row < dim[0] * dim[1] * dim[2]; row++) {
        const size_t h = row % dim[2], r = row / dim[2] % dim[1], page = row / dim[2] / dim[1];
        for (size_t d = 0; d < dim[3]; d++)
            cache[row * dim[3] + d] = (float)(cache[row * dim[3] + d] * scale[(page * dim[2] + h) * dim[1] + r]);
    }
    free(scale);
}

// Key head by key head: its keys are gathered once for all queries of its group.
static void expect_decode(const worker_run *run, expected *O, expected *L)
{
    const decode_shape shape = wb_decode_shape(&run->c), *s = &shape;
    const int *table = (const int *)original_tensor(run, worker_named(run, "page_table"));
    const int *kv_len = (const int *)original_tensor(run, worker_named(run, "kv_len"));
    double *Q = worker_numbers(run, "Q"), *K = worker_numbers(run, "K"), *V = worker_numbers(run, "V");
    dequantise(run, "K_scale", K), dequantise(run, "V_scale", V);
    const int D = s->head_dim, packed = s->q_heads / s->kv_heads * s->q_len;  // rows that read the same keys
    const double work = 2.0 * s->batch * s->q_heads * D * wb_case_visible_pairs(run->problem, &run->c);
    const int every = 1 + (int)(work / expect_budget);

#pragma omp parallel for schedule(dynamic, 1)
    for (int bh = 0; bh < s->batch * s->kv_heads; bh++) {
        const int b = bh / s->kv_heads, keys = kv_len[b];
        double *K_rows = allocate((size_t)(keys + 1) * (size_t)D * sizeof *K_rows);
        double *V_rows = allocate((size_t)(keys + 1) * (size_t)D * sizeof *V_rows);
        oracle_gather(s, K, table + (size_t)b * (size_t)s->max_pages, bh % s->kv_heads, keys, K_rows);
        oracle_gather(s, V, table + (size_t)b * (size_t)s->max_pages, bh % s->kv_heads, keys, V_rows);
        for (int r = 0; r < packed; r++) {
            const size_t row = (size_t)bh * (size_t)packed + (size_t)r;
            double *want = O->want + row * (size_t)D, *tolerance = O->tolerance + row * (size_t)D, largest;
            const int seen = oracle_decode_keys(s, keys, r % s->q_len);
            if (seen > 0 && leaves_out(run, r + bh, every, O, L, row)) continue;
            oracle_decode_row(s, Q + row * (size_t)D, K_rows, V_rows, seen, want, &L->want[row], tolerance, &largest);
            for (int d = 0; d < D; d++)
                tolerance[d] = tolerance_O(want[d], tolerance[d], largest, D, seen, run->tensors[0].type);
            L->tolerance[row] = tolerance_L(L->want[row], largest, D, seen);
        }
        free(K_rows), free(V_rows);
    }
    free(Q), free(K), free(V);
}

// What the bytes of 16 stand for, as the tensors of 10 would have it.
static double *dequantise_fp8(const worker_run *run, const char *name)
{
    const attention_shape *s = &run->c.shape;
    const bool Q = *name == 'Q';
    const size_t D = (size_t)s->head_dim, N = (size_t)(Q ? s->q_len : s->kv_len);
    const size_t heads = (size_t)s->batch * (size_t)(Q ? s->q_heads : s->kv_heads);
    const int bytes = worker_named(run, name);
    float *x = allocate(heads * N * D * sizeof *x);
    double *values = allocate(heads * N * D * sizeof *values);
    wb_dequantise_fp8(x, *name, (const uint8_t *)original_tensor(run, bytes),
                      (const int8_t *)original_tensor(run, bytes + 3), heads, N, D);
    wb_get_all(WB_FLOAT32, x, heads * N * D, values);
    free(x);
    return values;
}

// The sizes of V's numbers, without powers of two, summed over the tiles before each: [heads, tiles + 1, D].
static double *sizes_before(const double *V, const double *units, size_t heads, size_t Nk, size_t D)
{
    const size_t tiles = (size_t)wb_fp8_tiles((int)Nk);
    double *sums = allocate(heads * (tiles + 1) * D * sizeof *sums);
    for (size_t n = 0; n < heads; n++) {
        double *to = sums + n * (tiles + 1) * D;
        memset(to, 0, D * sizeof *to);
        for (size_t t = 0; t < tiles; t++, to += D) {
            memcpy(to + D, to, D * sizeof *to);
            for (size_t j = t * WB_FP8_KEYS; j < (t + 1) * WB_FP8_KEYS && j < Nk; j++)
                for (size_t d = 0; d < D; d++) to[D + d] += fabs(V[(n * Nk + j) * D + d]) / units[n * tiles + t];
        }
    }
    return sums;
}

static void expect_fp8(const worker_run *run, expected *O, expected *L)
{
    const attention_shape *s = &run->c.shape;
    double *Q = dequantise_fp8(run, "Q"), *K = dequantise_fp8(run, "K"), *V = dequantise_fp8(run, "V");
    const int of_V = worker_named(run, "V_exponent");
    double *units = allocate(run->tensors[of_V].count * sizeof *units);  // the power of two of each tile of V
    for (size_t t = 0; t < run->tensors[of_V].count; t++)
        units[t] = ldexp(1, ((const int8_t *)original_tensor(run, of_V))[t]);
    const size_t tiles = (size_t)wb_fp8_tiles(s->kv_len);
    double *sizes = sizes_before(V, units, (size_t)(s->batch * s->kv_heads), (size_t)s->kv_len, (size_t)s->head_dim);
    const oracle_inputs in = {run->problem, s, Q, K, V, .mask = NULL};
    const double work = 3.0 * s->batch * s->q_heads * s->head_dim * wb_case_visible_pairs(run->problem, &run->c);
    const int heads = s->batch * s->q_heads, every = 1 + (int)(work / expect_budget), D = s->head_dim;
    const size_t Nq = (size_t)s->q_len, Nk = (size_t)s->kv_len;

#pragma omp parallel for schedule(dynamic, 16)
    for (size_t row = 0; row < (size_t)heads * Nq; row++) {
        const int bh = (int)(row / Nq), i = (int)(row % Nq);
        double *want = O->want + row * (size_t)D, *tolerance = O->tolerance + row * (size_t)D, largest;
        if (leaves_out(run, i + bh, every, O, L, row)) continue;
        const size_t head = (size_t)(bh / (s->q_heads / s->kv_heads));
        const double *unit = units + head * tiles;
        double *P = allocate(Nk * sizeof *P), steps[WB_MAX_HEAD_DIM], top = 0, lost = 0, exponent = 0;
        oracle_attention_row(&in, bh / s->q_heads, bh % s->q_heads, i, want, &L->want[row], tolerance, &largest, P);
        for (size_t j = 0; j < Nk; j++) top = fmax(top, P[j] * unit[j / WB_FP8_KEYS]);
        for (size_t t = 0; t * WB_FP8_KEYS < Nk; t++) exponent = fmax(exponent, fabs(log2(unit[t])));
        // all keys of whole tiles, but for those whose weight is 0, and the rest
        const size_t seen = s->causal && (size_t)i < Nk ? (size_t)i + 1 : Nk, whole = seen / WB_FP8_KEYS;
        memcpy(steps, sizes + (head * (tiles + 1) + whole) * (size_t)D, (size_t)D * sizeof *steps);
        for (size_t j = 0; j < seen; j++) {
            const double per_unit = 1 / unit[j / WB_FP8_KEYS];
            const double *v = V + (head * Nk + j) * (size_t)D, way = (P[j] != 0) - (j / WB_FP8_KEYS < whole);
            if (P[j] * unit[j / WB_FP8_KEYS] < 0x1p-128 * top) lost += P[j];
            for (int d = 0; d < D && way != 0; d++) steps[d] += way * fabs(v[d]) * per_unit;
        }
        for (int d = 0; d < D; d++)
            tolerance[d] =
                tolerance_fp8_O(want[d], tolerance[d], top * steps[d], lost, largest, D, s->kv_len, run->c.levels);
        L->tolerance[row] = tolerance_fp8_L(L->want[row], lost, largest, exponent, D, s->kv_len);
        free(P);
    }
    excuse_queries(run, O);
    free(Q), free(K), free(V), free(units), free(sizes);
}

// A tolerance that is no number would let anything pass: only what is excused or left out has none.
static void insist_on_tolerances(const worker_run *run, int k, const expected *e)
{
    const bool excuses = run->c.nan_keys > 0 || run->c.nan_queries > 0 || run->c.nan_head > 0;
    for (size_t i = 0; i < run->tensors[k].count; i++) {
        const double tolerance = e->tolerance[i];
        if (isnan(tolerance) ? excuses : isinf(tolerance) ? e->want[i] == 0 : tolerance >= 0) continue;
        fprintf(stderr, "harness: no tolerance for %s at element %zu, expected %g\n", run->tensors[k].name, i,
                e->want[i]);
        exit(RECORD_GAVE_UP);
    }
}

void expect_outputs(const worker_run *run, expected outputs[WB_MAX_TENSORS])
{
    for (int k = 0; k < run->count; k++)
        if (run->tensors[k].output) outputs[k] = room_for(run->tensors[k].count);
    switch (run->problem->signature) {
    case WB_ROW_SUM: expect_row_sum(run, &outputs[0]); break;
    case WB_BLOCK_MASK:
    case WB_RING:
    case WB_FORWARD: expect_forward(run, &outputs[0], &outputs[1], expect_budget); break;
    case WB_RING_BACKWARD:
    case WB_BACKWARD: expect_backward(run, outputs); break;
    case WB_DECODE: expect_decode(run, &outputs[0], &outputs[1]); break;
    case WB_FP8: expect_fp8(run, &outputs[0], &outputs[1]); break;
    }
    for (int k = 0; k < run->count; k++) {
        if (!run->tensors[k].output) continue;
        if (run->c.nan_head) excuse_head(run, k, &outputs[k]);
        insist_on_tolerances(run, k, &outputs[k]);
    }
}

double expected_factor(const worker_run *run, int k, const expected *e)
{
    const wb_tensor *t = &run->tensors[k];
    double both = 0, right = 0;
    size_t telling = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < t->count; i++) {
            const double got = wb_get(t->type, worker_tensor(run, k), i), want = e->want[i];
            const double c = right > 0 ? both / right : 0;
            if (expected_is(e, i, got)) continue;
            if (!isfinite(got) || !isfinite(want)) return NAN;
            if (pass == 0)
                both += got * want, right += want * want;
            else if (fabs(got - c * want) > e->tolerance[i] * fmax(1, fabs(c)) * 1.5)
                return NAN;
            else
                telling += fabs(want) > 8 * e->tolerance[i];
        }
    return right > 0 && (telling > 2 || (telling && both == 0)) && fabs(both / right - 1) > 0.01 ? both / right : NAN;
}
