// bench_measure.c - one shape: its inputs, in the memory where functions want them; of each implementation the memory
// of a call, whether it is right, by the judge of the suites at the very shape, and times.
#include "bench.h"

#include "judge/expect.h"
#include "memory.h"
#include "reference/naive.h"

#include <cblas.h>
#include <malloc.h>
#include <unistd.h>

enum { WARM_UPS = 2, MIN_RUNS = 3, CHART_RUNS = 5 };
static const double HOST_BUDGET_MS = 1500;  // of the slowest implementation's runs at one shape on the host
// Multiplications of the oracle, which judges as many rows as that allows: see expect_budget.
static const double BUDGET = 5e7, DEVICE_BUDGET = 1e9;

typedef struct measurement {
    bench_options *o;
    worker_run run;  // the case, and in `original` its inputs; no worker runs it
    size_t io_bytes;
    int sets;
    void *set[BENCH_MAX_SETS][WB_MAX_TENSORS];  // all tensors, where the functions want them
    expected want[WB_MAX_TENSORS];
} measurement;

// Aligned for any vector; ends the program if there is no memory.
static void *allocate(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 256, bytes ? bytes : 1)) {
        bench_say("bench: no memory for %zu bytes on this machine\n", bytes);
        exit(1);
    }
    return p;
}

// ------------------------ inputs

static void make_inputs(measurement *m)
{
    worker_run *run = &m->run;
    run->count = wb_case_tensors(run->problem, &run->c, run->tensors);
    run->original = allocate(wb_exchange_layout(run->tensors, run->count, &(wb_case){0}, 0, run->zones));
    for (int k = 0; k < run->count; k++) m->io_bytes += run->tensors[k].bytes;
#pragma omp parallel for schedule(dynamic)
    for (int k = 0; k < run->count; k++)
        if (!run->tensors[k].output) wb_case_fill(run->problem, &run->c, &run->tensors[k], original_tensor(run, k));
}

// O and L of a backward, by the naive forward in the first set, a head at a time: all score matrices may not fit.
static void fill_forward(const measurement *m)
{
    enum { Q, K, V, O, L, SINK, COUNT };
    static const char *const names[COUNT] = {"Q", "K", "V", "O", "L", "sink_logits"};
    const worker_run *run = &m->run;
    attention_shape one = run->c.shape;
    const size_t Hq = one.q_heads, heads = (size_t)one.batch * Hq, group = one.q_heads / one.kv_heads;
    int at[COUNT];
    one.batch = one.q_heads = one.kv_heads = 1;
    for (int k = 0; k < COUNT; k++) at[k] = wb_tensor_named(run->tensors, run->count, names[k]);
    for (size_t h = 0; h < heads; h++) {
        char *of[COUNT] = {0};  // no sink logits: null
        for (int k = 0; k < COUNT; k++) {
            const size_t part = k == SINK ? Hq : k == K || k == V ? heads / group : heads;
            const size_t which = k == SINK ? h % Hq : k == K || k == V ? h / group : h;
            if (at[k] >= 0) of[k] = (char *)m->set[0][at[k]] + run->tensors[at[k]].bytes / part * which;
        }
        bench_must(naive_gpu_sink_attention((bf16 *)of[O], (float *)of[L], (bf16 *)of[Q], (bf16 *)of[K], (bf16 *)of[V],
                                            (float *)of[SINK], &one, NULL));
    }
    bench_must(naive_gpu_release());
    for (int k = O; k <= L; k++)
        bench_must(wb_copy_to_host(original_tensor(run, at[k]), m->set[0][at[k]], run->tensors[at[k]].bytes));
}

// Fills the outputs of a set with NaN, so that what a function leaves out shows.
static void spoil(const measurement *m, int set)
{
    for (int k = 0; k < m->run.count; k++) {
        void *const at = m->set[set][k];
        const size_t bytes = m->run.tensors[k].bytes;
        if (!m->run.tensors[k].output) continue;
        if (m->run.problem->on_host)
            memset(at, WB_NAN_BYTE, bytes);
        else
            bench_must(wb_device_fill(at, WB_NAN_BYTE, bytes));
    }
}

// As many sets as it takes for the caches to have forgotten one when its turn comes again. On the host the inputs are
// what they are, and all sets share them.
static void make_sets(measurement *m)
{
    const bool on_host = m->run.problem->on_host;
    m->sets = m->o->timed && !on_host && m->io_bytes < (size_t)1 << 30 ? BENCH_MAX_SETS : 1;
    for (int set = 0; set < m->sets; set++) {
        for (int k = 0; k < m->run.count; k++) {
            const wb_tensor *t = &m->run.tensors[k];
            void **at = &m->set[set][k], *input = t->output ? NULL : original_tensor(&m->run, k);
            if (on_host)
                *at = input ? input : allocate(t->bytes);
            else
                bench_must(wb_device_alloc(at, t->bytes));
            if (!on_host && input) bench_must(wb_copy_to_device(*at, input, t->bytes));
        }
        if (set == 0 && m->run.problem->signature == WB_BACKWARD) fill_forward(m);
    }
}

static void free_all(measurement *m)
{
    for (int set = 0; set < m->sets; set++)
        for (int k = 0; k < m->run.count; k++)
            if (!m->run.problem->on_host)
                bench_must(wb_device_free(m->set[set][k]));
            else if (m->run.tensors[k].output)
                free(m->set[set][k]);
    for (int k = 0; k < WB_MAX_TENSORS; k++) free(m->want[k].want), free(m->want[k].tolerance);
    for (int k = 0; k < m->o->impls; k++) bench_must(wb_device_free(m->o->impl[k].room.at));
    free(m->run.original);
}

// ------------------------ a call

static wb_status call(const measurement *m, bench_impl *impl, int set)
{
    void *pointers[WB_MAX_TENSORS + 1];
    memcpy(pointers, m->set[set], sizeof m->set[set]);
    pointers[m->run.count] = &impl->room;
    return wb_call(m->run.problem, impl->function, &m->run.c, pointers, NULL);
}

// Whether a call went wrong. If so, says it and takes the implementation out: for this shape if that is only
// unsupported or too large, else for good.
static bool failed(const measurement *m, bench_impl *impl, wb_status status, const char *message, const char *when)
{
    if (status == WB_OK) return false;
    const bool for_good = status != WB_UNSUPPORTED && status != WB_OUT_OF_MEMORY;
    bench_note(m->o, "%s is left out %s %s, %s: %s", impl->label, for_good ? "from here on:" : "at", bench->where, when,
               *message ? message : wb_status_text(status));
    impl->out = true;
    if (for_good) bench->well = false, bench_leave_out(impl->label);
    if (status == WB_DEVICE_ERROR && !m->run.problem->on_host) {  // the device may be lost to this process
        bench->end = BENCH_SAID;
        exit(3);
    }
    return true;
}

// Compares the outputs of a set with the oracle's. WB_OK if all is right; else a sentence in wb_last_message().
static wb_status compare(const measurement *m, int set, double *max_error)
{
    wb_status verdict = WB_OK;
    *max_error = 0;
    for (int k = 0; k < m->run.count; k++) {
        const wb_tensor *tensor = &m->run.tensors[k];
        const expected *e = &m->want[k];
        void *const at = m->set[set][k];
        if (!tensor->output) continue;
        void *got = m->run.problem->on_host ? at : allocate(tensor->bytes);
        const wb_status status = got == at ? WB_OK : wb_copy_to_host(got, at, tensor->bytes);
        if (status != WB_OK) verdict = status;
        for (size_t i = 0; status == WB_OK && i < tensor->count; i++) {
            const double value = wb_get(tensor->type, got, i), error = fabs(value - e->want[i]);
            const bool judged = !isinf(e->tolerance[i]) && isfinite(e->want[i]);
            if (judged && !(error <= *max_error)) *max_error = isnan(*max_error) ? NAN : error;
            if (verdict == WB_OK && !expected_is(e, i, value))
                verdict = wb_fail(WB_BAD_ARGUMENT, "%s[%zu] = %g, but the oracle has %g +- %.2g", tensor->name, i,
                                  value, e->want[i], e->tolerance[i]);
        }
        if (got != at) free(got);
    }
    return verdict;
}

// One call, waited for, its outputs judged. The messages of a function and of its kernels differ in origin.
static bool runs_right(const measurement *m, bench_impl *impl, int set, const char *when)
{
    double error = 0;
    spoil(m, set);
    bench_enter(impl->label);
    const wb_status status = call(m, impl, set);
    const wb_status later = status != WB_OK || m->run.problem->on_host ? WB_OK : wb_device_synchronize();
    bench_leave();
    if (failed(m, impl, status, impl->message(), when)) return false;
    if (failed(m, impl, later, wb_last_message(), when)) return false;
    if (failed(m, impl, compare(m, set, &error), wb_last_message(), when)) return false;
    if (!(error <= impl->result.max_error)) impl->result.max_error = error;
    return true;
}

// ------------------------ memory

// The number of kilobytes behind "name:" in a file of such lines, in bytes; 0 if it is not there.
static size_t proc_bytes(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[512];
    size_t kilobytes = 0;
    while (file && !kilobytes && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) kilobytes = strtoull(line + strcspn(line, "0123456789"), NULL, 10);
    if (file) fclose(file);
    return kilobytes * 1024;
}

// OpenBLAS keeps a packing buffer for each thread for ever. A large product makes them resident before anything is
// measured.
static void warm_openblas(void)
{
    enum { N = 768 };
    float *A = allocate(3 * sizeof(float) * N * N);
    memset(A, 0, 3 * sizeof(float) * N * N);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, A, N, A + N * N, N, 0, A + 2 * N * N, N);
    free(A);
}

// The memory of one call on the host, and its correctness: how far what is resident grows. What earlier calls have left
// goes back to the system first, and the peak, VmHWM, begins anew.
static void host_memory(const measurement *m, bench_impl *impl)
{
    static const char status[] = "/proc/self/status";
    enum { NEAR = 1 << 20 };
    spoil(m, 0);
    malloc_trim(0);
    const size_t before = proc_bytes(status, "VmRSS");
    FILE *const peak = fopen("/proc/self/clear_refs", "w");
    if (peak) fputs("5", peak), fclose(peak);
    const bool known = proc_bytes(status, "VmHWM") < before + NEAR;
    if (!runs_right(m, impl, 0, "before timing")) return;
    const size_t most = proc_bytes(status, "VmHWM");
    if (!known) bench_say("\n  the memory of %s could not be measured\n ", impl->label);
    impl->result.peak_bytes = m->io_bytes + (known && most > before ? most - before : 0);
}

// The memory of one call on the device, and its correctness.
static void device_memory(const measurement *m, bench_impl *impl)
{
    if (impl->workspace) {
        const decode_shape shape = wb_decode_shape(&m->run.c);
        impl->room.bytes = impl->workspace(&shape);
        bench_must(wb_device_alloc(&impl->room.at, impl->room.bytes ? impl->room.bytes : 1));
    }
    // What the baseline's libraries set up once is no part of the measurement. Its own work space is, and is made anew.
    if (!impl->path && call(m, impl, 0) == WB_OK) bench_must(wb_device_synchronize());
    bench_must(naive_gpu_release());
    const size_t before = wb_memory_current();
    wb_memory_reset_peak();
    runs_right(m, impl, 0, "before timing");
    impl->result.peak_bytes = wb_memory_peak() - before + m->io_bytes + impl->room.bytes;
}

// Whether the naive baseline's score matrix leaves room for everything else.
static bool naive_fits(const measurement *m)
{
    const wb_problem *problem = m->run.problem;
    const attention_shape *s = &m->run.c.shape;
    if (problem->signature == WB_ROW_SUM || problem->signature == WB_DECODE) return true;
    size_t room = proc_bytes("/proc/meminfo", "MemAvailable");
    if (!room) room = (size_t)4 << 30;
    if (m->o->cuda && !problem->on_host) bench_must(wb_device_free_bytes(&room));
    const size_t matrices = problem->signature == WB_BACKWARD ? 2 : 1;
    const size_t need =
        problem->on_host ? 4 * (size_t)s->q_len * (size_t)s->kv_len : matrices * naive_gpu_score_bytes(s);
    if (need <= room / 2) return true;
    bench_note(m->o,
               "naive is left out at %s: its score matrix of %.1f GiB is more than half of the free memory, %.1f GiB",
               bench->where, (double)need / (1 << 30), (double)room / (1 << 30));
    return false;
}

// ------------------------ times

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Between the two nearest of n sorted values.
static double percentile(const double *sorted, int n, double p)
{
    const double at = p * (n - 1);
    const int below = (int)at;
    return below + 1 < n ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[n - 1];
}

// One run of one implementation; a time is kept if run >= 0.
static double one_run(const measurement *m, bench_impl *impl, int set, int run)
{
    const bool on_host = m->run.problem->on_host;
    double ms = 0;
    if (impl->out) return 0;
    bench_enter(impl->label);
    if (!on_host) bench_must(wb_timer_start());
    const double start = spent_now();
    const wb_status status = call(m, impl, set);
    if (on_host)
        ms = 1e3 * (spent_now() - start);
    else
        bench_must(wb_timer_stop(&ms));
    bench_leave();
    if (failed(m, impl, status, *impl->message() ? impl->message() : wb_last_message(), "while timing")) return 0;
    if (run >= 0) impl->ms[run] = ms, impl->result.runs = run + 1;
    return ms;
}

// On the host the implementations take turns in rounds: a pause, in which the other's OpenBLAS threads stop to spin; a
// warm-up; and a share of the runs. There are as many as fit into HOST_BUDGET_MS.
static void take_host_times(const measurement *m)
{
    bench_options *const o = m->o;
    const int rounds = o->charts ? 1 : 3;
    double slowest = 1e-3;
    for (int k = 0; k < o->impls; k++) slowest = fmax(slowest, one_run(m, &o->impl[k], 0, -1));
    const int runs = (int)fmin(o->charts ? CHART_RUNS : BENCH_MAX_RUNS, fmax(MIN_RUNS, HOST_BUDGET_MS / slowest));
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < o->impls; k++) {
            usleep(100000);
            one_run(m, &o->impl[k], 0, -1);
            for (int run = runs * round / rounds; run < runs * (round + 1) / rounds; run++)
                one_run(m, &o->impl[k], 0, run);
        }
}

// The implementations take turns, so that a machine that slows down or speeds up does so for all of them.
static void take_times(const measurement *m)
{
    bench_options *const o = m->o;
    if (m->run.problem->on_host)
        take_host_times(m);
    else
        for (int run = -WARM_UPS; run < BENCH_MAX_RUNS; run++)
            for (int k = 0; k < o->impls; k++) one_run(m, &o->impl[k], (run + WARM_UPS + k) % m->sets, run);
    for (int k = 0; k < o->impls; k++) {
        bench_impl *impl = &o->impl[k];
        const int n = impl->result.runs;
        if (impl->out || n == 0) continue;
        qsort(impl->ms, n, sizeof *impl->ms, by_value);
        impl->result.ms = percentile(impl->ms, n, 0.5);
        impl->result.ms_p10 = percentile(impl->ms, n, 0.1);
        impl->result.ms_p90 = percentile(impl->ms, n, 0.9);
    }
}

double bench_roof_sgemm(void)
{
    enum { M = 128, N = 128, K = 64, CALLS = 200, RUNS = 9 };
    float *A = allocate(sizeof(float) * (M * K + N * K + M * N)), *B = A + M * K, *C = B + N * K;
    for (int i = 0; i < M * K; i++) A[i] = (float)(i % 17) / 17 - 0.5f;
    for (int i = 0; i < N * K; i++) B[i] = (float)(i % 13) / 13 - 0.5f;
    const int threads = openblas_get_num_threads();
    openblas_set_num_threads(1);
    double best = 0;
    for (int run = 0; run < RUNS; run++) {  // a roof is the best run, not the median
        const double start = spent_now();
        for (int call = 0; call < CALLS; call++)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, M, N, K, 1, A, K, B, K, 0, C, N);
        best = fmax(best, 2.0 * M * N * K * CALLS / (spent_now() - start) * 1e-9);
    }
    openblas_set_num_threads(threads);
    free(A);
    return best * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

// ------------------------ a row of the table

static void write_row(const measurement *m, const bench_impl *impl)
{
    FILE *const out = m->o->out;
    const wb_problem *const problem = m->run.problem;
    const wb_case *const c = &m->run.c;
    const attention_shape *const s = &c->shape;
    const bench_result *const r = &impl->result;
    char shape[80];
    const roofline_work w = r->emulated ? (roofline_work){0} : roofline_work_of(problem, c);
    const roofline_verdict v = roofline_judge(problem, &bench->peaks, &w, r->ms);
    bench_shape_text(problem, c, shape, sizeof shape);
    fprintf(out, "%02d\t%s\t", problem->number, impl->label);
    if (problem->signature == WB_ROW_SUM) {
        fprintf(out, "-\t-\t-\t-\t-\t-\t-\t-\t%d\t%d\t-\t", c->rows, c->cols);
    } else {
        fprintf(out, "%d\t%d\t%d\t%d\t%d\t%d\t", s->batch, s->q_heads, s->kv_heads, s->q_len, s->kv_len, s->head_dim);
        fprintf(out, problem->window ? "%d\t" : "-\t", s->window);
        fprintf(out, problem->sinks ? "%d\t" : "-\t", s->sinks);
        fprintf(out, "-\t-\t%d\t", s->causal);
    }
    if (r->emulated)
        fprintf(out, "emulated\t-\t-\t-\t-\t");
    else
        fprintf(out, "%.5g\t%.5g\t%.5g\t%.5g\t%.5g\t", r->ms, r->ms_p10, r->ms_p90, w.flops / r->ms * 1e-9,
                w.bytes / r->ms * 1e-6);
    fprintf(out, "%zu\t%zu\t%.3g\t%d", r->peak_bytes, r->io_bytes, r->max_error, r->runs);
    if (problem->signature == WB_DECODE) fprintf(out, "\t%d\t%s", c->page, wb_lens_name(c->lens));
    if (problem->signature == WB_BLOCK_MASK)
        fprintf(out, "\t%s/%d\t%d", wb_mask_names[c->mask], c->mask_size, c->q_tile);
    fprintf(out, "\t%s", shape);
    roofline_columns(out, &v, problem);
    fprintf(out, "\n");
    fflush(out);
}

// ------------------------ one shape

bool bench_measure(bench_options *o, const wb_case *c)
{
    measurement m = {.o = o, .run = {.problem = o->problem, .c = *c}};
    bool measured = o->impls == 1 && !o->impl[0].path;  // the naive baseline alone is what was asked for
    make_inputs(&m);
    make_sets(&m);
    expect_budget = o->cuda ? DEVICE_BUDGET : BUDGET;
    expect_outputs(&m.run, m.want);
    if (o->problem->on_host) warm_openblas();
    for (int k = 0; k < o->impls; k++) {
        bench_impl *impl = &o->impl[k];
        impl->room = (wb_workspace){0};
        impl->result = (bench_result){.io_bytes = m.io_bytes, .emulated = !o->timed, .runs = 1};
        impl->out = bench_is_out(impl->label) || (!impl->path && !naive_fits(&m));
        if (!impl->out) (o->problem->on_host ? host_memory : device_memory)(&m, impl);
    }
    if (o->timed) {
        take_times(&m);
        for (int k = 0; k < o->impls; k++)
            if (!o->impl[k].out) runs_right(&m, &o->impl[k], m.sets - 1, "after timing");
    }
    for (int k = 0; k < o->impls; k++) {
        const bench_impl *impl = &o->impl[k];
        if (impl->out) continue;
        measured |= impl->path != NULL;
        write_row(&m, impl);
        bench_say(o->timed ? "  %s %.4g ms" : "  %s %.2f MiB", strcmp(impl->label, "key") ? impl->label : "reference",
                  o->timed ? impl->result.ms : (double)impl->result.peak_bytes / (1 << 20));
    }
    free_all(&m);
    return measured;
}
