// diagnose.c - names the mistake in a student's function: diagnose [-v] [--source FILE] NN [CASE]
//
// Runs the worker (WB_WORKER) on a few small cases, chosen so that mistakes differ, and compares what comes back with what a kernel
// with each known mistake would return (mistakes.h). A mistake is named if it explains every element of every wrong output of all
// cases, tile sizes being whatever fits, and no other mistake explains them as well. Otherwise nothing is printed: silence is better
// than a wrong name. Outputs that depend on gaps which FILE still has as they were shipped are not looked at. The search is bounded
// in pairs of a query and a key, so that it ends in the same words on every machine.
//
// What the execution layer sees the function do comes before (evidence.h): a mistake that it does not bear out is not named.
//
// -v shows what fits; --facts: what is seen alone. diagnose --models STRIDE NN: puts the results of the models in the place of the worker's, and says which of them
// are recognised. diagnose --gaps NN: every mistake that may be named here, with the gaps that are shown for it.
//
// Exit status: 0 a mistake was named, 1 none, 2 could not run.
#include "judge/expect.h"
#include "score/gaps.h"

#include "cases.h"
#include "evidence.h"
#include "mistakes.h"
#include "pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// How much farther than a right kernel from the oracle a wrong one may be from its model, and which share of elements farther yet.
#define SLACK  3
#define BUDGET 0.002
// A model is off by less than this part of the error that it explains.
#define EXPLAINED 0.2
// ... and of less than this, if the search for a better tile size may end.
#define WELL_EXPLAINED 0.1

// Pairs that the search for one mistake may look at, in the cases of one tile size; and a case may have.
enum { PAIRS = 4000000, CASE_PAIRS = 300000 };

enum { MAX_FOUND = 512, MAX_OUTPUTS = 5 };

// Numbers of room for a record of the products of a case.
enum { RECORD = 1 << 22 };

// One case: what the worker returned, what is right, and the inputs.
typedef struct trial {
    worker_run run;
    expected right[WB_MAX_TENSORS];
    model_inputs in;
    size_t wrong[MAX_OUTPUTS];  // elements of each output
    size_t *rows[MAX_OUTPUTS];  // of each output, the wrong ones first
} trial;

static const wb_problem *problem;
static trial trials[MAX_CASES + 1];
static int trial_count, output_count;
static bool recorded;                // a case had a whole record of products
static bool verbose, outside, hung;  // outside: a case wrote beside an output; hung: one had no answer in time
static gap gaps[MAX_GAPS];           // of the problem
static int gap_count;
static char gap_names[MAX_GAPS * sizeof gaps->name];  // a line each
static bool no_mask;         // the gap of an optional mask is as shipped: only cases without one are looked at
static unsigned unfinished;  // bits: outputs that depend on a gap that is as shipped

// Which outputs depend on what is in a gap. In 12 dsinks stands where delta does elsewhere, and delta is given.
static unsigned feeds(const char *name)
{
    enum { DQ = 1, DK = 2, DV = 4, DELTA = 8, DSINKS = 8 };
    if (problem->signature != WB_BACKWARD) return ~0u;
    if (strcmp(name, "rows of the head") == 0 || strcmp(name, "sum of the block") == 0) return DSINKS;
    if (strcmp(name, "delta") == 0) return DQ | DK | DELTA;
    if (strcmp(name, "dV") == 0) return DV;
    if (strcmp(name, "dS") == 0 || strcmp(name, "dK") == 0 || strcmp(name, "dK scale") == 0) return DK;
    return strstr(name, "dQ") || strcmp(name, "keys") == 0 ? DQ : DK | DV;
}

static void read_gaps(const char *file)
{
    gap_count = gaps_in(problem, file, gaps);
    for (int n = 0; n < gap_count; n++) {
        strcat(strcat(gap_names, gaps[n].name), "\n");
        if (!gaps[n].untouched || strcmp(gaps[n].name, "ends") == 0 || strcmp(gaps[n].name, "bound") == 0)
            continue;  // these may stay empty
        if (problem->mask == WB_CAUSAL_OPTIONAL && strcmp(gaps[n].name, "mask") == 0)
            no_mask = true;
        else
            unfinished |= feeds(gaps[n].name);
    }
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (memory) return memory;
    fprintf(stderr, "diagnose: no memory\n");
    exit(2);
}

// ---------------------------------------------------------------------------------------------------------------- trials

static double element(const trial *t, int k, size_t i)
{
    return wb_get(t->run.tensors[k].type, worker_tensor(&t->run, k), i);
}

// Outputs begin as bytes of 0xff, which no arithmetic makes of anything but themselves.
static bool is_written(const trial *t, int k, size_t i)
{
    const size_t bytes = wb_type_bytes(t->run.tensors[k].type);
    return memcmp(worker_tensor(&t->run, k) + i * bytes, "\xff\xff\xff\xff", bytes) != 0;
}

static bool is_right(const trial *t, int k, size_t i) { return expected_is(&t->right[k], i, element(t, k, i)); }

static size_t row_length(const trial *t, int k)
{
    const bool matrix = t->run.tensors[k].dim[0] * t->run.tensors[k].dim[1] > 0 && problem->signature != WB_ROW_SUM &&
                        strcmp(t->run.tensors[k].name, "L") && strcmp(t->run.tensors[k].name, "delta") &&
                        strcmp(t->run.tensors[k].name, "dsinks");
    return matrix ? t->run.tensors[k].dim[3] : 1;
}

static const float *as_floats(const trial *t, const char *name)
{
    for (int k = 0; k < t->run.count; k++) {
        const wb_tensor *tensor = &t->run.tensors[k];
        if (tensor->output || strcmp(tensor->name, name)) continue;
        const char *data = original_tensor(&t->run, k);
        float *values = allocate(tensor->count, sizeof *values);
        for (size_t i = 0; i < tensor->count; i++) values[i] = (float)wb_get(tensor->type, data, i);
        return values;
    }
    return NULL;
}

static struct dots *make_dots(const model_inputs *in)
{
    const attention_shape *s = in->shape;
    const size_t D = (size_t)s->head_dim, Nk = (size_t)s->kv_len, rows = (size_t)s->q_heads * (size_t)s->q_len;
    const size_t shared = (size_t)(s->q_heads / s->kv_heads) * (size_t)s->q_len;  // query rows that have the same keys
    struct dots *dots = allocate((size_t)s->batch * rows * Nk, sizeof *dots);
    for (size_t i = 0; i < (size_t)s->batch * rows; i++)
        for (size_t j = 0; j < Nk; j++) {
            const float *q = in->Q + i * D, *g = in->dO ? in->dO + i * D : NULL;
            const size_t key = (i / shared * Nk + j) * D;
            double sum[4] = {0};
            for (size_t d = 0; d < D; d++) {
                const double a = (double)q[d] * in->K[key + d], b = g ? (double)g[d] * in->V[key + d] : 0;
                sum[0] += a, sum[1] += b, sum[2] += fabs(a), sum[3] += fabs(b);
            }
            dots[i * Nk + j] = (struct dots){(float)sum[0], (float)sum[1], (float)sum[2], (float)sum[3]};
        }
    return dots;
}

// Wrong elements, and the order in which rows are compared: wrong ones first, since most models fail there at once.
static void sort_rows(trial *t, int k)
{
    const size_t D = row_length(t, k), rows = t->run.tensors[k].count / D;
    size_t n = 0;
    t->rows[k] = allocate(rows, sizeof(size_t));
    t->wrong[k] = 0;
    bool *wrong = allocate(rows, sizeof *wrong);
    for (size_t i = 0; i < rows * D && !(unfinished >> k & 1); i++)
        if (!is_right(t, k, i)) wrong[i / D] = true, t->wrong[k]++;
    for (size_t row = 0; row < rows; row++)
        if (wrong[row]) t->rows[k][n++] = row;
    for (size_t row = 0; row < rows; row++)
        if (!wrong[row]) t->rows[k][n++] = row;
    free(wrong);
}

// Whether a byte beside an output was changed.
static bool wrote_outside(const worker_run *run)
{
    for (int k = 0; k < run->count; k++) {
        const wb_zone *z = &run->zones[k];
        const size_t end = z->data + run->tensors[k].bytes;
        if (memcmp(run->shared + z->start, run->original + z->start, z->data) ||
            memcmp(run->shared + z->start + end, run->original + z->start + end, z->bytes - end))
            return true;
    }
    return false;
}

static const int *ints(const trial *t, const char *name, int *count)
{
    const int k = wb_tensor_named(t->run.tensors, t->run.count, name);
    if (k < 0) return NULL;
    *count = (int)t->run.tensors[k].count;
    return (const int *)original_tensor(&t->run, k);
}

// What 13 to 15 have beside what all have. In 14 shares are given, and so right: one part will do.
static void add_tables(const trial *t, model_inputs *in)
{
    int count = 0, words = 0;
    if (problem->signature == WB_DECODE) {
        in->decode = wb_decode_shape(&t->run.c);
        in->table = ints(t, "page_table", &count), in->kv_len = ints(t, "kv_len", &count);
        const size_t rows = in->decode.q_heads / in->decode.kv_heads * in->decode.q_len <= 16 ? 16 : 32;
        in->blocks =
            (int)(worker_exchange(&t->run)->workspace_bytes / (2 * rows * 4 * ((size_t)in->decode.head_dim + 1)));
        in->K_scale = as_floats(t, "K_scale"), in->V_scale = as_floats(t, "V_scale");
        if (in->K_scale) in->blocks = 1;
    }
    if (problem->signature != WB_BLOCK_MASK) return;
    in->lists = (block_mask){t->run.c.q_tile,
                             t->run.c.kv_tile,
                             t->run.c.masks,
                             ints(t, "whole_start", &count),
                             ints(t, "whole", &in->wholes),
                             ints(t, "part_start", &count),
                             ints(t, "part", &in->parts),
                             (const uint32_t *)ints(t, "bits", &words)};
    in->bit_words = (size_t)words;
}

static model_inputs inputs_of(const trial *t)
{
    return (model_inputs){.problem = problem,
                          .shape = &t->run.c.shape,
                          .Q = as_floats(t, "Q"),
                          .K = as_floats(t, "K"),
                          .V = as_floats(t, "V"),
                          .O = as_floats(t, "O"),
                          .L = as_floats(t, "L"),
                          .dO = as_floats(t, "dO"),
                          .sink_logits = as_floats(t, "sink_logits"),
                          .x = as_floats(t, "x"),
                          .w = as_floats(t, "w"),
                          .rows = t->run.c.rows,
                          .cols = t->run.c.cols,
                          .bf16_output = !problem->on_host};
}

static bool add_trial(const char *text)
{
    trial *t = &trials[trial_count];
    wb_case c;
    if (wb_case_parse(problem, text, &c) != WB_OK) {
        fprintf(stderr, "diagnose: %s\n", wb_last_message());
        exit(2);
    }
    if (!wb_case_is_valid(problem, &c) || (no_mask && c.shape.causal)) return true;
    const double work = problem->signature == WB_ROW_SUM
                            ? (double)c.rows * c.cols
                            : (double)c.shape.batch * c.shape.q_heads * c.shape.q_len * c.shape.kv_len;
    const bool sums_rows = problem->sink_logits && problem->signature == WB_BACKWARD;  // 1024 a round
    const double most = sums_rows ? 5 * CASE_PAIRS : CASE_PAIRS;
    if (work > most && !strstr(text, "nan_")) return true;
    worker_start(&t->run, problem, &c, WORKER_SHARED);
    const wb_exchange *x = worker_exchange(&t->run);
    if (t->run.ending[0] || x->status != WB_OK || x->device_status != WB_OK) {
        if (verbose) printf("%s: %s\n", text, t->run.ending[0] ? t->run.ending : x->message);
        hung |= strstr(t->run.ending, "no answer") != NULL;
        worker_end(&t->run);
        worker_retire(WORKER_SHARED);
        return false;
    }
    if (wrote_outside(&t->run)) outside = true, worker_retire(WORKER_SHARED);
    if (c.products) t->run.count--;  // look_at() reads the record
    expect_outputs(&t->run, t->right);
    t->in = inputs_of(t);
    add_tables(t, &t->in);
    if (problem->signature == WB_FORWARD || problem->signature == WB_BACKWARD) t->in.dots = make_dots(&t->in);
    output_count = 0;
    for (int k = 0; k < t->run.count; k++)
        if (t->run.tensors[k].output) sort_rows(t, output_count++);
    trial_count++;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------- search

// What is left of the errors when a model has explained them: sums over the wrong elements.
typedef struct fit {
    double left, error;
} fit;

// Of 13 to 15 it is known where NaN comes from, and what is not written.
static bool strict(void) { return problem->signature == WB_DECODE || problem->signature == WB_BLOCK_MASK; }

static double clip(double x) { return isfinite(x) && x < 1000 ? x : 1000; }

// Compares an element; false if it is not what the model says.
static bool agrees(const trial *t, int k, size_t i, double value, double tolerance, fit *f)
{
    if (tolerance == MODEL_UNWRITTEN && strict() && !is_right(t, k, i)) f->error += 1;
    if (tolerance == MODEL_UNKNOWN) return true;
    if (tolerance == MODEL_UNWRITTEN) return !is_written(t, k, i);
    const double got = element(t, k, i);
    bool fits;
    double off = 0;
    if (*t->run.tensors[k].name != 'L' && fabs(value) > 1e30) value = INFINITY;  // close to what a float holds
    const wb_input input = t->run.c.input;
    const bool extreme = input == WB_HUGE || input == WB_TINY || input == WB_RISING || input == WB_FALLING;
    if (!isfinite(value) && strict())  // a row without keys is 0 and -infinity, and no NaN
        fits = is_written(t, k, i) && (isnan(value) || *t->run.tensors[k].name != 'L' ? !isfinite(got) : got == value);
    else if (!isfinite(value) && problem->on_host && extreme)  // exp2_fast of 01 makes anything of what overflows
        fits = is_written(t, k, i) && (got == 0 || !is_right(t, k, i));
    else if (!isfinite(value) && *t->run.tensors[k].name == 'L')
        fits = is_written(t, k, i) &&
               (isnan(value) ? isnan(got) : got == value || (fabs(got) > 1e30 && (got > 0) == (value > 0)));
    else if (!isfinite(value))
        fits = (!isfinite(got) && is_written(t, k, i)) || got == 0 || fabs(got) > 1e30;
    else {
        off = fabs(got - value);
        fits = isfinite(got) && isfinite(tolerance) && off <= SLACK * tolerance;
    }
    if (fits && !is_right(t, k, i)) {
        const double error = fabs(got - t->right[k].want[i]), weight = clip(error / t->right[k].tolerance[i]);
        f->left += weight * (off < error ? off / error : error > 0);
        f->error += weight;
    }
    return fits;
}

static bool explains_trial(const trial *t, const kernel *model, int k, fit *f)
{
    static _Thread_local model_row out[MODEL_ROWS];
    const size_t D = row_length(t, k), rows = t->run.tensors[k].count / D;
    const size_t budget = (size_t)(BUDGET * (double)(rows * D));
    const size_t group = (size_t)model_group(&t->in, model);
    const size_t per_head = t->run.problem->signature == WB_FORWARD ? (size_t)t->in.shape->q_len : rows;
    bool *done = group > 1 ? allocate(rows, sizeof *done) : NULL;
    size_t missed = 0;
    for (size_t n = 0; n < rows && missed <= budget; n++) {
        size_t row = t->rows[k][n], count = 1;
        if (group > 1) {
            if (done[row]) continue;
            const size_t head = row / per_head * per_head;
            row = head + (row - head) / group * group;
            while (count < group && row + count < head + per_head) count++;
            for (size_t r = row; r < row + count; r++) done[r] = true;
        }
        model_rows(&t->in, model, k, row, (int)count, out);
        for (size_t r = 0; r < count; r++)
            for (size_t d = 0; d < D; d++)
                if (!agrees(t, k, (row + r) * D + d, out[r].value[d], out[r].tolerance[d], f)) missed++;
    }
    free(done);
    return missed <= budget;
}

static int by_wrongness(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return x[0] < y[0] ? 1 : x[0] > y[0] ? -1 : 0;
}

// Kernels choose their tiles by D and by W: cases with the same number here have the same ones.
static int tiles_of(const trial *t)
{
    const attention_shape *s = &t->run.c.shape;
    return problem->signature == WB_ROW_SUM ? 0 : 2 * s->head_dim + (problem->window && s->window > 512);
}

// Errors that a model has explained: without any, of wrong rows that could be anything, there is nothing to go by.
static _Thread_local double explained;

// Whether this kernel returns output k of all cases with these tiles; *left: the share of the error that it does not explain.
static bool explains_output(const kernel *model, int tiles, int k, double *left)
{
    double order[MAX_CASES + 1][2];
    int count = 0;
    for (int n = 0; n < trial_count; n++) {
        if (tiles_of(&trials[n]) != tiles) continue;
        order[count][0] = (double)trials[n].wrong[k] / (double)trials[n].run.tensors[k].count;
        order[count++][1] = n;
    }
    qsort(order, (size_t)count, sizeof order[0], by_wrongness);
    fit f = {0};
    for (int n = 0; n < count; n++)
        if (!explains_trial(&trials[(int)order[n][1]], model, k, &f)) return false;
    explained += f.error;
    *left = f.error > 0 ? f.left / f.error : 0;
    return *left < EXPLAINED;
}

typedef struct candidate {
    const mistake *mistake;
    double left;
    int spoiled;  // right outputs of which the mistake would make wrong ones
    int where;    // the mask that it is in
} candidate;

static size_t wrong_elements(int k)
{
    size_t wrong = 0;
    for (int n = 0; n < trial_count; n++) wrong += trials[n].wrong[k];
    return wrong;
}

// Whether this kernel returns outputs from ... to - 1 of all cases with these tiles, those that are wrong first.
static bool explains(const kernel *model, int tiles, int from, int to, double *left)
{
    double part;
    *left = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = from; k < to; k++) {
            if ((wrong_elements(k) > 0) != (pass == 0)) continue;
            if (!explains_output(model, tiles, k, &part)) return false;
            *left += part;
        }
    return true;
}

// The best variant of a mistake for these outputs, over all rows of the table that belong to it. *where: the mask that it is in.
static bool best_variant_at(const mistake *m, int tiles, int from, int to, double *left, int *where)
{
    const long long end = model_pairs + PAIRS;
    *left = INFINITY;
    for (const mistake *row = m; row < mistakes + mistakes_count && (row == m || !row->id); row++) {
        if (!mistake_applies(row, problem, gap_names)) continue;
        kernel model;
        double here;
        for (int v = 0; mistake_variant(row, problem, v, &model); v++) {
            if (model_pairs > end) return *left < INFINITY;
            if (model.BR == 0 || !explains(&model, tiles, from, to, &here) || here >= *left) continue;
            *left = here, *where = (int)model.where;
            if (verbose)
                printf("  tiles %d output %d: %s, BC %d BR %d ROWS %d where %d slack %g: %.4f of the error left\n",
                       tiles, from, m->id, model.BC, model.BR, model.ROWS, model.where, model.slack, here);
            if (here < WELL_EXPLAINED) return true;
        }
    }
    return *left < INFINITY;
}

// The same for all tile sizes.
static bool best_variant(const mistake *m, int from, int to, double *left, int *where)
{
    double part;
    int mask = 0;
    *left = 0;
    for (int t = 0; t < trial_count; t++) {
        bool seen = false;
        for (int before = 0; before < t; before++) seen |= tiles_of(&trials[before]) == tiles_of(&trials[t]);
        if (seen) continue;
        if (!best_variant_at(m, tiles_of(&trials[t]), from, to, &part, &mask)) return false;
        *left += part;
        if (t == 0 || mask) *where = mask;
    }
    return true;
}

static int bits(unsigned x) { return x ? (int)(x & 1) + bits(x >> 1) : 0; }

// O and L come from one kernel and must be explained by the same variant; the outputs of a backward come from several, and each of
// them may be right or made by another variant.
static bool fits(const mistake *m, double *left, int *where)
{
    explained = 0;
    if (problem->signature != WB_BACKWARD)
        return best_variant(m, 0, output_count, left, where) && (explained > 0 || !strict());
    double part;
    *left = 0;
    for (int k = 0; k < output_count; k++) {
        if (wrong_elements(k) == 0) continue;
        if (!best_variant(m, k, k + 1, &part, where)) return false;
        *left += part;
    }
    return true;
}

// How many outputs of a backward are right though this mistake would make them wrong.
static int spoiled_by(const mistake *m)
{
    int spoiled = 0, where;
    double left;
    for (int k = 0; k < output_count && problem->signature == WB_BACKWARD; k++)
        if (wrong_elements(k) == 0 && !(unfinished >> k & 1)) spoiled += !best_variant(m, k, k + 1, &left, &where);
    return spoiled;
}

static const mistake *by_name(const char *id)
{
    for (size_t n = 0; n < mistakes_count; n++)
        if (mistakes[n].id && strcmp(mistakes[n].id, id) == 0)
            return mistake_applies(&mistakes[n], problem, gap_names) ? &mistakes[n] : NULL;
    return NULL;
}

// Everything is right so far: what else may a suite have found? Each case has NaN where a kernel has no business (harness.h).
static const mistake *search_further(void)
{
    static const char *const probes[][2] = {
        {"future_not_skipped", "causal=1,Nq=512,D=16,nan_from=448,nan_keys=64"},
        {"window_not_skipped", "causal=1,Nq=640,D=16,W=16,nan_from=64,nan_keys=64"},
        {"queries_not_skipped", "causal=1,Nq=640,D=16,W=16,nan_from=576,nan_queries=64"},
    };
    if (outside) return by_name("writes_past_the_end");
    for (size_t n = 0; n < sizeof probes / sizeof *probes; n++) {
        const mistake *m = by_name(probes[n][0]);
        const int before = trial_count;
        if (!m || !add_trial(probes[n][1]) || trial_count == before) continue;
        for (int k = 0; k < output_count; k++)
            if (trials[before].wrong[k] > 0) return m;
    }
    return NULL;
}

// Of mistakes that explain as much: the one that explains why other outputs are right, then the one with the fewest sizes to choose,
// which fits least by chance.
static int order_of(const candidate *a, const candidate *b)
{
    const int tries = bits(a->mistake->tries) - bits(b->mistake->tries);
    return a->spoiled != b->spoiled ? a->spoiled - b->spoiled : tries;
}

// Finds the mistake that fits best, if no other one does as well.
static const mistake *search_models(int *where)
{
    candidate found[MAX_FOUND];
    int count = 0, best = 0;
#pragma omp parallel for schedule(dynamic)
    for (size_t n = 0; n < mistakes_count; n++) {
        candidate c = {&mistakes[n], 0, 0, 0};
        if (!mistakes[n].id || !fits(&mistakes[n], &c.left, &c.where)) continue;
        c.spoiled = spoiled_by(&mistakes[n]);
#pragma omp critical
        found[count++] = c;
    }
    for (int n = 1; n < count; n++) {
        const candidate *a = &found[n], *b = &found[best];
        const bool alike = a->left < 4 * b->left + 1e-9 && b->left < 4 * a->left + 1e-9;
        if (alike ? order_of(a, b) < 0 : a->left < b->left) best = n;
    }
    for (int n = 0; verbose && n < count; n++)
        printf("  fits: %s %.4f, spoils %d\n", found[n].mistake->id, found[n].left, found[n].spoiled);
    for (int n = 0; n < count; n++)
        if (n != best && found[n].left < 4 * found[best].left + 1e-9 && order_of(&found[n], &found[best]) <= 0)
            return NULL;
    if (count) *where = found[best].where;
    return count ? found[best].mistake : NULL;
}

static const mistake *search(int *where)
{
    size_t all = 0;
    for (int k = 0; k < output_count; k++) all += wrong_elements(k);
    return all ? search_models(where) : unfinished ? NULL : search_further();
}

// Puts the results of a model in the place of the worker's.
static void pretend(const kernel *model)
{
    static model_row out[MODEL_ROWS];
    for (int n = 0; n < trial_count; n++) {
        trial *t = &trials[n];
        for (int k = 0; k < output_count; k++) {
            const wb_tensor *tensor = &t->run.tensors[k];
            const size_t D = row_length(t, k), group = (size_t)model_group(&t->in, model);
            const size_t per_head = problem->signature == WB_FORWARD ? (size_t)t->in.shape->q_len : tensor->count / D;
            char *data = worker_tensor(&t->run, k);
            memset(data, 0xff, tensor->bytes);
            for (size_t row = 0, count; row < tensor->count / D; row += count) {
                const size_t left = per_head - row % per_head;
                count = group < left ? group : left;
                model_rows(&t->in, model, k, row, (int)count, out);
                for (size_t i = 0; i < count * D; i++) {
                    const model_row *r = &out[i / D];
                    if (r->tolerance[i % D] == MODEL_UNWRITTEN) continue;
                    const float value = isnan(r->value[i % D]) ? NAN : (float)r->value[i % D];
                    wb_put(tensor->type, data, row * D + i, value);
                }
            }
            free(t->rows[k]);
            sort_rows(t, k);
        }
    }
}

// Each model's own results must be given its name, or none if another model gives the same; every `stride`-th variant is tried.
static int check_models(int stride)
{
    int named = 0, silent = 0, wrong = 0, like_right = 0, where;
    const mistake *of = NULL;
    for (size_t n = 0; n < mistakes_count; n++) {
        kernel model;
        if (mistakes[n].id) of = &mistakes[n];
        if (!mistake_applies(&mistakes[n], problem, gap_names)) continue;
        for (int v = 0; mistake_variant(&mistakes[n], problem, v, &model); v++) {
            if (v % stride || model.BR == 0) continue;
            pretend(&model);
            size_t all = 0;
            for (int k = 0; k < output_count; k++) all += wrong_elements(k);
            const mistake *m = all ? search(&where) : NULL;
            like_right += all == 0, named += m && m == of, silent += all && !m, wrong += m && m != of;
            if (m != of)
                printf("%02d %s, variant %d (BC %d BR %d ROWS %d walk %d ghost %d): %s\n", problem->number, of->id, v,
                       model.BC, model.BR, model.ROWS, model.walk, model.ghost,
                       all == 0 ? "right in all cases"
                       : m      ? m->id
                                : "not named");
            fflush(stdout);
        }
    }
    printf("%02d: %d models named, %d silent, %d named wrong, %d right in all cases\n", problem->number, named, silent,
           wrong, like_right);
    return wrong > 0;
}

// Where to look, and where another one lets look, too, if there is one: those gaps where the mistake can be made that feed a wrong output, or of several masks the one that it is in.
static int print_gaps(const mistake *m, const mistake *and, unsigned wrong, int where)
{
    static const char *const mask[] = {"", "mask of the diagonal", "mask of the window", "mask of the sinks"};
    int count = 0, masks = 0;
    for (int n = 0; n < gap_count; n++) masks += where && strcmp(gaps[n].name, mask[where]) == 0;
    for (int n = 0; n < gap_count; n++) {
        const bool listed = mistake_is_in(m, gaps[n].name, strlen(gaps[n].name)) && feeds(gaps[n].name) & wrong &&
                            (!and || mistake_is_in(and, gaps[n].name, strlen(gaps[n].name)));
        if (masks ? strcmp(gaps[n].name, mask[where]) == 0 : listed) printf("%s%s", count++ ? ", " : "", gaps[n].name);
    }
    return count;
}

static int list_gaps(void)
{
    for (size_t n = 0; n < mistakes_count; n++) {
        if (!mistakes[n].id || !mistake_applies(&mistakes[n], problem, gap_names)) continue;
        printf("%02d %s: ", problem->number, mistakes[n].id);
        print_gaps(&mistakes[n], NULL, ~0u, 0);
        printf("\n");
    }
    return 0;
}

// "your result matches", or which of several outputs do: each comes from a kernel of its own.
static unsigned print_outputs(void)
{
    unsigned wrong = 0;
    int count = 0, n = 0;
    for (int k = 0; k < output_count; k++)
        if (wrong_elements(k) > 0) wrong |= 1u << k, count++;
    if (problem->signature != WB_BACKWARD || !wrong) {
        printf("your result matches a kernel that ");
        return ~0u;
    }
    for (int k = 0; k < output_count; k++)
        if (wrong >> k & 1)
            printf("%s%s", n == 0 ? "your " : n == count - 1 ? " and " : ", ", trials[0].run.tensors[k].name), n++;
    printf(" %s a kernel that ", count == 1 ? "matches that of" : "match those of");
    return wrong;
}

// ---------------------------------------------------------------------------------------------------------------- evidence

// Whether a mask is as shipped that the cases have: the gaps of the softmax then see scores that they should not.
static bool mask_is_missing(void)
{
    for (int n = 0; n < gap_count; n++)
        if (gaps[n].untouched && ((strstr(gaps[n].name, "mask") && !no_mask) || strstr(gaps[n].name, "tail")))
            return true;
    return false;
}

// Whether the problem has one of these gaps, and none of them is as shipped.
static bool worth_naming(const char *look)
{
    if (mask_is_missing() && (strstr(look, "max") || strstr(look, "rescale") || strstr(look, "accumulate")))
        return false;
    const mistake m = {.look = look};
    bool some = false;
    for (int n = 0; n < gap_count; n++) {
        if (!mistake_is_in(&m, gaps[n].name, strlen(gaps[n].name))) continue;
        if (gaps[n].untouched) return false;
        some = true;
    }
    return some;
}

// Whether a mistake can be made in one of these gaps.
static bool agree(const mistake *m, const char *look)
{
    const mistake there = {.look = look};
    for (int n = 0; n < gap_count; n++)
        if (mistake_is_in(m, gaps[n].name, strlen(gaps[n].name)) &&
            mistake_is_in(&there, gaps[n].name, strlen(gaps[n].name)))
            return true;
    return false;
}

static const float *floats_of_output(const trial *t, int k)
{
    float *values = allocate(t->run.tensors[k].count, sizeof *values);
    for (size_t i = 0; i < t->run.tensors[k].count; i++) values[i] = (float)element(t, k, i);
    return values;
}

static bool run_sum(int rows, int cols, wb_input input, int seed, float *y)
{
    worker_run run;
    const wb_case c = {.rows = rows, .cols = cols, .input = input, .seed = (uint64_t)seed};
    worker_start(&run, problem, &c, WORKER_SHARED);
    const bool done =
        !run.ending[0] && worker_exchange(&run)->status == WB_OK && worker_exchange(&run)->device_status == WB_OK;
    if (done) memcpy(y, worker_tensor(&run, 0), (size_t)rows * sizeof *y);
    worker_end(&run);
    return done;
}

// Runs the case once more, with a record of what the execution layer sees, and looks for the first step that is wrong.
static void look_at(const char *text, finding *best, char *shown)
{
    char more[WB_CASE_TEXT];
    if (snprintf(more, sizeof more, "%.200s,products=%d", text, RECORD) >= WB_CASE_TEXT) return;
    const int n = trial_count;
    trial *t = &trials[n];
    const int rank = best->rank;
    if (!add_trial(more) || trial_count == n) return;
    trial_count = n;
    evidence e = {
        .in = t->in, .products = (const float *)worker_tensor(&t->run, t->run.count), .product_count = RECORD};
    for (int k = 0; k < output_count; k++) e.out[k] = floats_of_output(t, k);
    recorded |= e.products[0] == 0 && e.products[1] >= 0;
    if (problem->signature == WB_FORWARD) evidence_of_forward(&e, worth_naming, best);
    if (problem->signature == WB_BACKWARD) evidence_of_backward(&e, worth_naming, best);
    worker_end(&t->run);
    t->run.c.products = 0;
    if (best->rank != rank) wb_case_print(problem, &t->run.c, shown);
}

// The same of a case that ended in no answer: what it did before its worker was sent away.
static void look_at_hang(const char *text, finding *best, char *shown)
{
    char more[WB_CASE_TEXT];
    trial *t = &trials[trial_count];
    wb_case c;
    if (snprintf(more, sizeof more, "%.200s,products=%d", text, RECORD) >= WB_CASE_TEXT ||
        wb_case_parse(problem, more, &c) != WB_OK || !wb_case_is_valid(problem, &c))
        return;
    unsetenv("WB_HUNG");
    setenv("WB_TIMEOUT", "2", 1);
    worker_start(&t->run, problem, &c, WORKER_ALONE);
    t->run.count--;
    if (strstr(t->run.ending, "no answer")) {
        t->in = inputs_of(t);
        const evidence e = {
            .in = t->in, .products = (const float *)worker_tensor(&t->run, t->run.count), .product_count = RECORD};
        evidence_of_hang(&e, worth_naming, best);
        t->run.c.products = 0;
        wb_case_print(problem, &t->run.c, shown);
    }
    worker_end(&t->run);
}

static void print_page(void) { printf("; problems/%02d/README.md, \"Common mistakes\"\n", problem->number); }

static void print_fact(const finding *fact, const mistake *m, const char *shown)
{
    const mistake there = {.look = fact->gaps};
    if (verbose) printf("fact %d\n", fact->rank);
    printf("step by step%s%s: %s\nlook at: ", *shown ? ", in " : "", shown, fact->says);
    print_gaps(&there, m, ~0u, 0);
    print_page();
}

int main(int argc, char **argv)
{
    const char *source = "";
    char shown[WB_CASE_TEXT] = "";
    bool list = false, facts_alone = false;
    int stride = 0, at = 1;
    for (; at < argc && *argv[at] == '-'; at++)
        if (strcmp(argv[at], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[at], "--facts") == 0)
            facts_alone = true;
        else if (strcmp(argv[at], "--gaps") == 0)
            list = true;
        else if (strcmp(argv[at], "--models") == 0 && at + 1 < argc)
            stride = atoi(argv[++at]);
        else if (strcmp(argv[at], "--source") == 0 && at + 1 < argc)
            source = argv[++at];
    problem = at < argc ? wb_problem_number(atoi(argv[at])) : NULL;
    if (!problem) {
        fprintf(stderr, "usage: diagnose [-v] [--facts] [--source FILE] NN [CASE], diagnose --models STRIDE NN, "
                        "diagnose --gaps NN\n");
        return 2;
    }
    read_gaps(source);
    if (list) return list_gaps();
    char cases[MAX_CASES][WB_CASE_TEXT];
    const int count = diagnose_cases(problem, cases);
    const char *last = at + 1 < argc ? argv[at + 1] : "";
    for (int n = 0; n < count && !hung; n++) add_trial(last = cases[n]);
    if (hung) {  // no other case is worth the wait
        finding fact = {0};
        look_at_hang(last, &fact, shown);
        if (fact.rank) print_fact(&fact, NULL, shown);
        return fact.rank ? 0 : 1;
    }
    if (stride > 0) return check_models(stride);
    if (at + 1 < argc && !strstr(argv[at + 1], "nan_")) add_trial(argv[at + 1]);
    finding fact = {0};
    size_t wrong = 0;
    for (int k = 0; k < output_count; k++) wrong += wrong_elements(k);
    if (problem->signature == WB_ROW_SUM) evidence_of_sum(run_sum, worth_naming, &fact);
    const bool known = (problem->signature == WB_FORWARD || problem->signature == WB_BACKWARD) &&
                       !problem->sink_logits;  // of others evidence knows nothing
    for (int pass = 0; pass < 2 && known && !fact.rank; pass++) {
        for (int n = 0; n < count; n++)  // what is plain to see comes first
            if ((!strstr(cases[n], "input=") || strstr(cases[n], "stairs")) == (pass == 0))
                look_at(cases[n], &fact, shown);
        if (pass && at + 1 < argc && !fact.rank) look_at(argv[at + 1], &fact, shown);
    }
    if (!fact.rank && hung) look_at_hang(argv[at + 1], &fact, shown);
    int where = 0;
    const mistake *m = facts_alone || trial_count < 3 ? NULL : search(&where);
    // Where a step is wrong that is in a gap, it was seen.
    if (!fact.rank && recorded && wrong) m = NULL;
    // What was seen stands against a guess. Whether NaN in y was written nobody can tell.
    if (m && fact.rank && (!agree(m, fact.gaps) || strcmp(m->id, "y_not_written") == 0)) m = NULL;
    if (!m && !fact.rank) return trial_count < 3 ? 2 : 1;
    if (m) {
        if (verbose) printf("id %s\n", m->id);
        const unsigned outputs = print_outputs();
        printf("%s\n", m->says);
        if (!fact.rank) printf("look at: "), print_gaps(m, NULL, outputs, where);
    }
    if (fact.rank)
        print_fact(&fact, m, shown);
    else
        print_page();
    return 0;
}
