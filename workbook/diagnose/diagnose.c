// diagnose.c - names the mistake in a student's function: diagnose [-v] NN [CASE]
//
// Runs the worker (WB_WORKER) on a few small cases, chosen so that mistakes differ, and compares what comes back with what a kernel
// with each known mistake would return (mistakes.h). A mistake is named if it explains every element of every wrong output of all
// cases, tile sizes being whatever fits, and no other mistake explains them as well. Otherwise nothing is printed: silence is better
// than a wrong name. -v shows what fits. --models STRIDE: puts the results of the models in the place of the worker's, and says which
// of them are recognised.
//
// Exit status: 0 a mistake was named, 1 none, 2 could not run.
#include "judge/expect.h"

#include "cases.h"
#include "mistakes.h"

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

enum { MAX_FOUND = 512 };

// One case: what the worker returned, what is right, and the inputs.
typedef struct trial {
    worker_run run;
    expected right[WB_MAX_TENSORS];
    model_inputs in;
    size_t wrong[4];  // elements of each output
    size_t *rows[4];  // of each output, the wrong ones first
} trial;

static const wb_problem *problem;
static trial trials[MAX_CASES + 1];
static int trial_count, output_count;
static bool verbose, outside, rare;  // outside: a case wrote beside an output; rare: unusual tile sizes

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
    const char *data = worker_tensor(&t->run, k);
    return t->run.tensors[k].type == WB_FLOAT32 ? ((const float *)data)[i] : wb_from_bf16(((const uint16_t *)data)[i]);
}

// Outputs begin as bytes of 0xff, which no arithmetic makes of anything but themselves.
static bool is_written(const trial *t, int k, size_t i)
{
    const char *data = worker_tensor(&t->run, k);
    return t->run.tensors[k].type == WB_FLOAT32 ? ((const uint32_t *)data)[i] != 0xffffffffu
                                                : ((const uint16_t *)data)[i] != 0xffffu;
}

static bool is_right(const trial *t, int k, size_t i)
{
    const double got = element(t, k, i), want = t->right[k].want[i], tolerance = t->right[k].tolerance[i];
    if (isnan(tolerance)) return true;
    return (isfinite(got) && fabs(got - want) <= tolerance) || (isinf(want) && got == want);
}

static size_t row_length(const trial *t, int k)
{
    const bool matrix = t->run.tensors[k].dim[0] * t->run.tensors[k].dim[1] > 0 && problem->signature != WB_ROW_SUM &&
                        strcmp(t->run.tensors[k].name, "L") && strcmp(t->run.tensors[k].name, "delta");
    return matrix ? t->run.tensors[k].dim[3] : 1;
}

static const float *as_floats(const trial *t, const char *name)
{
    for (int k = 0; k < t->run.count; k++) {
        const wb_tensor *tensor = &t->run.tensors[k];
        if (tensor->output || strcmp(tensor->name, name)) continue;
        const char *data = original_tensor(&t->run, k);
        float *values = allocate(tensor->count, sizeof *values);
        for (size_t i = 0; i < tensor->count; i++)
            values[i] =
                tensor->type == WB_FLOAT32 ? ((const float *)data)[i] : wb_from_bf16(((const uint16_t *)data)[i]);
        return values;
    }
    return NULL;
}

// q . k of each query with all keys of its head.
static const float *make_dots(const model_inputs *in)
{
    const attention_shape *s = in->shape;
    const size_t D = (size_t)s->head_dim, Nk = (size_t)s->kv_len, Nq = (size_t)s->q_len;
    const size_t heads = (size_t)s->batch * (size_t)s->q_heads, group = (size_t)(s->q_heads / s->kv_heads);
    float *dots = allocate(heads * Nq * Nk, sizeof *dots);
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < Nq; i++)
            for (size_t j = 0; j < Nk; j++) {
                const float *q = in->Q + (h * Nq + i) * D, *k = in->K + (h / group * Nk + j) * D;
                double sum = 0;
                for (size_t d = 0; d < D; d++) sum += (double)q[d] * k[d];
                dots[(h * Nq + i) * Nk + j] = (float)sum;
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
    for (size_t i = 0; i < rows * D; i++)
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

static bool add_trial(const char *text)
{
    trial *t = &trials[trial_count];
    wb_case c;
    if (wb_case_parse(problem, text, &c) != WB_OK) {
        fprintf(stderr, "diagnose: %s\n", wb_last_message());
        exit(2);
    }
    if (!wb_case_is_valid(problem, &c)) return true;
    const double work = problem->signature == WB_ROW_SUM
                            ? (double)c.rows * c.cols
                            : (double)c.shape.batch * c.shape.q_heads * c.shape.q_len * c.shape.kv_len;
    if (work > 2e6) return true;
    worker_start(&t->run, problem, &c, WORKER_SHARED);
    const wb_exchange *x = worker_exchange(&t->run);
    if (t->run.ending[0] || x->status != WB_OK || x->device_status != WB_OK) {
        if (verbose) printf("%s: %s\n", text, t->run.ending[0] ? t->run.ending : x->message);
        worker_end(&t->run);
        worker_retire(WORKER_SHARED);
        return false;
    }
    if (wrote_outside(&t->run)) outside = true, worker_retire(WORKER_SHARED);
    expect_outputs(&t->run, t->right);
    t->in = (model_inputs){.problem = problem,
                           .shape = &t->run.c.shape,
                           .Q = as_floats(t, "Q"),
                           .K = as_floats(t, "K"),
                           .V = as_floats(t, "V"),
                           .O = as_floats(t, "O"),
                           .L = as_floats(t, "L"),
                           .dO = as_floats(t, "dO"),
                           .x = as_floats(t, "x"),
                           .w = as_floats(t, "w"),
                           .rows = c.rows,
                           .cols = c.cols,
                           .bf16_output = !problem->on_host};
    if (problem->signature == WB_FORWARD) t->in.dots = make_dots(&t->in);
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

static double clip(double x) { return isfinite(x) && x < 1000 ? x : 1000; }

// Compares an element; false if it is not what the model says.
static bool agrees(const trial *t, int k, size_t i, double value, double tolerance, fit *f)
{
    if (tolerance == MODEL_UNKNOWN) return true;
    if (tolerance == MODEL_UNWRITTEN) return !is_written(t, k, i);
    const double got = element(t, k, i);
    bool fits;
    double off = 0;
    if (*t->run.tensors[k].name != 'L' && fabs(value) > 1e30) value = INFINITY;  // close to what a float holds
    const wb_input input = t->run.c.input;
    const bool extreme = input == WB_HUGE || input == WB_TINY || input == WB_RISING || input == WB_FALLING;
    if (!isfinite(value) && problem->on_host && extreme)  // exp2_fast of 01 makes anything of what overflows
        fits = is_written(t, k, i) && (got == 0 || !is_right(t, k, i));
    else if (!isfinite(value) && *t->run.tensors[k].name == 'L')
        fits = is_written(t, k, i) && (isnan(value) ? isnan(got) : got == value || fabs(got) > 1e30);
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

// Whether this kernel returns output k of all cases with this D; *left: the share of the error that it does not explain.
static bool explains_output(const kernel *model, int D, int k, double *left)
{
    double order[MAX_CASES + 1][2];
    int count = 0;
    for (int n = 0; n < trial_count; n++) {
        if (trials[n].run.c.shape.head_dim != D) continue;
        order[count][0] = (double)trials[n].wrong[k] / (double)trials[n].run.tensors[k].count;
        order[count++][1] = n;
    }
    qsort(order, (size_t)count, sizeof order[0], by_wrongness);
    fit f = {0};
    for (int n = 0; n < count; n++)
        if (!explains_trial(&trials[(int)order[n][1]], model, k, &f)) return false;
    *left = f.error > 0 ? f.left / f.error : 0;
    return *left < EXPLAINED;
}

typedef struct candidate {
    const mistake *mistake;
    double left;
    int spoiled;  // right outputs of which the mistake would make wrong ones
} candidate;

static size_t wrong_elements(int k)
{
    size_t wrong = 0;
    for (int n = 0; n < trial_count; n++) wrong += trials[n].wrong[k];
    return wrong;
}

// Whether this kernel returns outputs from ... to - 1 of all cases with this D, those that are wrong first.
static bool explains(const kernel *model, int D, int from, int to, double *left)
{
    double part;
    *left = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = from; k < to; k++) {
            if ((wrong_elements(k) > 0) != (pass == 0)) continue;
            if (!explains_output(model, D, k, &part)) return false;
            *left += part;
        }
    return true;
}

// The best variant of a mistake for these outputs, over all rows of the table that belong to it.
static bool best_variant_at(const mistake *m, int D, int from, int to, double *left)
{
    *left = INFINITY;
    for (const mistake *row = m; row < mistakes + mistakes_count && (row == m || !row->id); row++) {
        if (!mistake_applies(row, problem)) continue;
        kernel model;
        double here;
        for (int v = 0; mistake_variant(row, problem, rare, v, &model); v++) {
            if (model.BR == 0 || !explains(&model, D, from, to, &here) || here >= *left) continue;
            *left = here;
            if (verbose)
                printf("  D %d output %d: %s, BC %d BR %d ROWS %d slack %g: %.4f of the error left\n", D, from, m->id,
                       model.BC, model.BR, model.ROWS, model.slack, here);
            if (here < WELL_EXPLAINED) return true;
        }
    }
    return *left < INFINITY;
}

// The same for all D: kernels may choose their tiles by D.
static bool best_variant(const mistake *m, int from, int to, double *left)
{
    static const int D[] = {0, 16, 32, 64, 128};
    double part;
    *left = 0;
    for (int n = 0; n < 5; n++) {
        bool any = false;
        for (int t = 0; t < trial_count; t++) any |= trials[t].run.c.shape.head_dim == D[n];
        if (!any) continue;
        if (!best_variant_at(m, D[n], from, to, &part)) return false;
        *left += part;
    }
    return true;
}

static int bits(unsigned x) { return x ? (int)(x & 1) + bits(x >> 1) : 0; }

// O and L come from one kernel and must be explained by the same variant; the outputs of a backward come from several, and each of
// them may be right or made by another variant.
static bool fits(const mistake *m, double *left)
{
    if (problem->signature != WB_BACKWARD) return best_variant(m, 0, output_count, left);
    double part;
    *left = 0;
    for (int k = 0; k < output_count; k++) {
        if (wrong_elements(k) == 0) continue;
        if (!best_variant(m, k, k + 1, &part)) return false;
        *left += part;
    }
    return true;
}

// How many outputs of a backward are right though this mistake would make them wrong.
static int spoiled_by(const mistake *m)
{
    int spoiled = 0;
    double left;
    for (int k = 0; k < output_count && problem->signature == WB_BACKWARD; k++)
        spoiled += wrong_elements(k) == 0 && !best_variant(m, k, k + 1, &left);
    return spoiled;
}

static const mistake *by_name(const char *id)
{
    for (size_t n = 0; n < mistakes_count; n++)
        if (mistakes[n].id && strcmp(mistakes[n].id, id) == 0)
            return mistake_applies(&mistakes[n], problem) ? &mistakes[n] : NULL;
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

// Finds the mistake that fits best, if no other one does as well; false if none fits at all.
static bool search_models(const mistake **named)
{
    candidate found[MAX_FOUND];
    int count = 0, best = 0;
#pragma omp parallel for schedule(dynamic)
    for (size_t n = 0; n < mistakes_count; n++) {
        candidate c = {&mistakes[n], 0, 0};
        if (!mistakes[n].id || !fits(&mistakes[n], &c.left)) continue;
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
    *named = count ? found[best].mistake : NULL;
    for (int n = 0; n < count; n++)
        if (n != best && found[n].left < 4 * found[best].left + 1e-9 && order_of(&found[n], &found[best]) <= 0)
            *named = NULL;
    return count > 0;
}

static const mistake *search(void)
{
    size_t all = 0;
    for (int k = 0; k < output_count; k++) all += wrong_elements(k);
    if (all == 0) return search_further();
    rare = false;
    const mistake *m = NULL;
    if (!search_models(&m)) rare = true, search_models(&m);
    return m;
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
                    if (tensor->type == WB_FLOAT32)
                        ((float *)data)[row * D + i] = value;
                    else
                        ((uint16_t *)data)[row * D + i] = wb_to_bf16(value);
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
    int named = 0, silent = 0, wrong = 0, like_right = 0;
    const mistake *of = NULL;
    for (size_t n = 0; n < mistakes_count; n++) {
        kernel model;
        if (mistakes[n].id) of = &mistakes[n];
        if (!mistake_applies(&mistakes[n], problem)) continue;
        for (int v = 0; mistake_variant(&mistakes[n], problem, false, v, &model); v++) {
            if (v % stride || model.BR == 0) continue;
            pretend(&model);
            size_t all = 0;
            for (int k = 0; k < output_count; k++) all += wrong_elements(k);
            const mistake *m = all ? search() : NULL;
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

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "-v") == 0) verbose = true, argc--, argv++;
    int stride = 0;
    if (argc > 2 && strcmp(argv[1], "--models") == 0) stride = atoi(argv[2]), argc -= 2, argv += 2;
    problem = argc > 1 ? wb_problem_number(atoi(argv[1])) : NULL;
    if (!problem) {
        fprintf(stderr, "usage: diagnose [-v] NN [CASE], or diagnose --models STRIDE NN\n");
        return 2;
    }
    char cases[MAX_CASES][WB_CASE_TEXT];
    const int count = diagnose_cases(problem, cases);
    for (int n = 0; n < count; n++) add_trial(cases[n]);
    if (trial_count < 3) return 2;
    if (stride > 0) return check_models(stride);
    if (argc > 2 && !strstr(argv[2], "nan_")) add_trial(argv[2]);
    const mistake *m = search();
    if (!m) return 1;
    if (verbose) printf("id %s\n", m->id);
    printf("your result matches a kernel that %s\n", m->says);
    printf("look at: %s; problems/%02d/README.md, \"Common mistakes\"\n", m->look, problem->number);
    return 0;
}
