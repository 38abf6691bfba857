// bench.c - times implementations of one problem side by side, in one process, and measures their memory. For all
// problems; usage() has the options. Without any of shapes it takes that of make demo.
//
// On the cuda backend and for a problem on the host, times are measured; problems of the device on the cpu backend are
// run once, for memory and correctness, and their times are the emulator's and not written down. An implementation that
// is wrong, crashes or hangs is named and left out, and the others go on. Ends with 0 if none was, and at each shape
// one was measured beside the naive baseline; with 1 if not, with 2 if the command line is wrong.
#include "bench.h"

#include "memory.h"
#include "case/pages.h"
#include "reference/naive.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_IMPLS = BENCH_MAX_IMPLS, MAX_SETS = 3, WARM_UPS = 2, MIN_RUNS = 3, CHART_RUNS = 5, MAX_RUNS = 25 };
static const double HOST_BUDGET_MS = 1500;  // of the slowest implementation's runs at one shape on the host

typedef struct implementation {
    const char *label, *given;  // as it was given, LABEL=PATH.so; null of naive
    wb_function function;
    wb_workspace_function workspace;  // how many bytes of it the function wants; null: none
    const char *(*message)(void);     // its own wb_last_message
    bool naive;
    bool given_up;  // it was wrong once
} implementation;

typedef struct options {
    const wb_problem *problem;
    implementation impl[MAX_IMPLS];
    int impls;
    wb_case cases[BENCH_MAX_CASES];
    int count;
    bool sweep, charts;
    bool growth;  // for a measurement of host memory alone
    FILE *out;
    bool cuda;   // the cuda backend
    bool timed;  // times mean something
} options;

static bench_state *state;

// A sentence on the screen, and in the TSV as a comment.
static void note(const options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const options *o, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bench_say("\n  %s\n ", text);
    fprintf(o->out, "# %s\n", text);
    fflush(o->out);
}

// ------------------------ measure

// One implementation's part in the measurement of one shape.
typedef struct lane {
    implementation *impl;
    bench_result result;
    double ms[MAX_RUNS];
    wb_workspace workspace;
    bool out;  // wrong, failed, or too large to run
} lane;

static wb_status call(const bench_inputs *in, const lane *l, const bench_set *set)
{
    void *pointers[WB_MAX_TENSORS + 1];
    memcpy(pointers, set->at, sizeof set->at);
    pointers[in->count] = (void *)&l->workspace;
    return wb_call(in->problem, l->impl->function, &in->c, pointers, NULL);
}

// The workspace that this function wants for this case.
static void workspace_make(const bench_inputs *in, lane *l)
{
    if (!l->impl->workspace) return;
    const decode_shape shape = wb_decode_shape(&in->c);
    l->workspace.bytes = l->impl->workspace(&shape);
    bench_must(wb_device_alloc(&l->workspace.at, l->workspace.bytes ? l->workspace.bytes : 1));
}

// Whether a call went wrong. If so, says it and takes the implementation out: for this shape if that is only
// unsupported or too large, else for good.
static bool failed(const options *o, const bench_inputs *in, lane *l, wb_status status, const char *message,
                   const char *when)
{
    if (status == WB_OK) return false;
    const bool for_good = status != WB_UNSUPPORTED && status != WB_OUT_OF_MEMORY;
    char shape[80];
    bench_shape_text(in->problem, &in->c, shape, sizeof shape);
    note(o, "%s is left out %s %s, %s: %s", l->impl->label, for_good ? "from here on:" : "at", shape, when,
         *message ? message : wb_status_text(status));
    l->out = true;
    l->impl->given_up = for_good;
    if (for_good) state->well = false;
    if (status == WB_DEVICE_ERROR && !in->problem->on_host)
        bench_guard_restart();  // the device may be lost to this process
    return true;
}

// One call, waited for, its outputs judged. The messages of a function and of its kernels differ in origin.
static bool runs_right(const options *o, const bench_inputs *in, const bench_wanted *wanted, const bench_set *set,
                       lane *l, const char *when)
{
    double error = 0;
    bench_set_spoil(in, set);
    bench_guard_enter(l->impl->label);
    const wb_status status = call(in, l, set);
    const wb_status later = status != WB_OK || in->problem->on_host ? WB_OK : wb_device_synchronize();
    bench_guard_leave();
    if (failed(o, in, l, status, l->impl->message(), when)) return false;
    if (failed(o, in, l, later, wb_last_message(), when)) return false;
    if (failed(o, in, l, bench_wanted_compare(wanted, in, set->at, &error), wb_last_message(), when)) return false;
    if (!(error <= l->result.max_error)) l->result.max_error = error;
    return true;
}

// The memory of one call on the device, and its correctness.
static void device_memory(const options *o, const bench_inputs *in, const bench_wanted *wanted, const bench_set *set,
                          lane *l)
{
    // What the baseline's libraries set up once is no part of the measurement. Its own work space is, and is made anew.
    if (l->impl->naive && call(in, l, set) == WB_OK) bench_must(wb_device_synchronize());
    bench_must(naive_gpu_release());
    const size_t before = wb_memory_current();
    wb_memory_reset_peak();
    runs_right(o, in, wanted, set, l, "before timing");
    l->result.peak_bytes = wb_memory_peak() - before + in->io_bytes + l->workspace.bytes;
}

// The memory of one call on the host: measured in a fresh process, since memory that was once resident often stays.
static size_t host_growth(const bench_inputs *in, const lane *l)
{
    char number[8], text[WB_CASE_TEXT], answer[64] = "";
    char *arguments[] = {"bench", number, "--growth", "--shape", text, "--naive", NULL, NULL};
    int ends[2];
    snprintf(number, sizeof number, "%d", in->problem->number);
    wb_case_print(in->problem, &in->c, text);
    if (l->impl->given) arguments[5] = "--impl", arguments[6] = (char *)l->impl->given;
    if (pipe(ends) != 0) return 0;
    const pid_t child = bench_start(arguments, ends[1]);
    close(ends[1]);
    if (child > 0 && read(ends[0], answer, sizeof answer - 1) < 0) answer[0] = 0;
    close(ends[0]);
    if (child > 0) waitpid(child, NULL, 0);
    bench_guard_leave();
    if (!answer[0]) bench_say("\n  the memory of %s could not be measured\n ", l->impl->label);
    return strtoull(answer, NULL, 10);
}

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

static wb_status timed_call(const bench_inputs *in, const lane *l, const bench_set *set, double *ms)
{
    if (in->problem->on_host) {
        const double start = bench_now_ms();
        const wb_status status = call(in, l, set);
        *ms = bench_now_ms() - start;
        return status;
    }
    bench_must(wb_timer_start());
    const wb_status status = call(in, l, set);
    bench_must(wb_timer_stop(ms));
    return status;
}

// One run of one implementation; a time is kept if run >= 0.
static double one_run(const options *o, const bench_inputs *in, const bench_set *set, lane *l, int run)
{
    double ms = 0;
    if (l->out) return 0;
    bench_guard_enter(l->impl->label);
    const wb_status status = timed_call(in, l, set, &ms);
    bench_guard_leave();
    if (failed(o, in, l, status, *l->impl->message() ? l->impl->message() : wb_last_message(), "while timing"))
        return 0;
    if (run >= 0) l->ms[run] = ms, l->result.runs = run + 1;
    return ms;
}

// On the host the implementations take turns in rounds: a pause, in which the other's OpenBLAS threads stop to spin; a
// run that wakes the threads, which is not counted; then runs back to back, since a machine that has slept is slow to
// spread threads again.
static void take_host_times(const options *o, const bench_inputs *in, const bench_set *sets, int set_count, lane *lanes)
{
    const int rounds = o->charts ? 1 : 3;
    double slowest = 1e-3;
    for (int k = 0; k < o->impls; k++) slowest = fmax(slowest, one_run(o, in, &sets[0], &lanes[k], -1));
    const int runs = (int)fmin(o->charts ? CHART_RUNS : MAX_RUNS, fmax(MIN_RUNS, HOST_BUDGET_MS / slowest));
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < o->impls; k++) {
            usleep(100000);
            one_run(o, in, &sets[0], &lanes[k], -1);
            for (int run = runs * round / rounds; run < runs * (round + 1) / rounds; run++)
                one_run(o, in, &sets[(run + k) % set_count], &lanes[k], run);
        }
}

// The implementations take turns, so that a machine that slows down or speeds up does so for all of them.
static void take_times(const options *o, const bench_inputs *in, const bench_set *sets, int set_count, lane *lanes)
{
    if (in->problem->on_host)
        take_host_times(o, in, sets, set_count, lanes);
    else
        for (int run = -WARM_UPS; run < MAX_RUNS; run++)
            for (int k = 0; k < o->impls; k++) one_run(o, in, &sets[(run + WARM_UPS + k) % set_count], &lanes[k], run);
    for (int k = 0; k < o->impls; k++) {
        lane *l = &lanes[k];
        const int n = l->result.runs;
        if (l->out || n == 0) continue;
        qsort(l->ms, (size_t)n, sizeof *l->ms, by_value);
        l->result.ms = percentile(l->ms, n, 0.5);
        l->result.ms_p10 = percentile(l->ms, n, 0.1);
        l->result.ms_p90 = percentile(l->ms, n, 0.9);
    }
}

// Whether the naive baseline's score matrix leaves room for everything else.
static bool naive_fits(const options *o, const bench_inputs *in)
{
    const attention_shape *s = &in->c.shape;
    char shape[80];
    if (o->problem->signature == WB_ROW_SUM || o->problem->signature == WB_DECODE) return true;
    const bool host = o->problem->on_host;
    size_t room = bench_free_host_bytes();
    if (o->cuda && !host) bench_must(wb_device_free_bytes(&room));
    const size_t matrices = o->problem->signature == WB_BACKWARD ? 2 : 1;
    const size_t need = host ? 4 * (size_t)s->q_len * (size_t)s->kv_len : matrices * naive_gpu_score_bytes(s);
    if (need <= room / 2) return true;
    bench_shape_text(o->problem, &in->c, shape, sizeof shape);
    note(o, "naive is left out at %s: its score matrix of %.1f GiB is more than half of the free memory, %.1f GiB",
         shape, (double)need / (1 << 30), (double)room / (1 << 30));
    return false;
}

// As many sets as it takes for the caches to have forgotten one when its turn comes again.
static int sets_for(const options *o, const bench_inputs *in)
{
    if (!o->timed || o->problem->on_host) return 1;
    return in->io_bytes < (size_t)1 << 30 ? MAX_SETS : 1;
}

// Everything about one shape: memory and correctness, times, correctness again, rows. Whether one besides naive was
// measured.
static bool measure(options *o, const wb_case *c)
{
    bench_inputs in;
    bench_set sets[MAX_SETS];
    lane lanes[MAX_IMPLS];
    memset(lanes, 0, sizeof lanes);
    bench_inputs_make(&in, o->problem, c);
    const int set_count = sets_for(o, &in);
    for (int k = 0; k < set_count; k++) bench_set_make(&in, &sets[k]);
    bench_wanted *wanted = bench_wanted_make(&in);

    for (int k = 0; k < o->impls; k++) {
        lane *l = &lanes[k];
        l->impl = &o->impl[k];
        l->result = (bench_result){.io_bytes = in.io_bytes, .emulated = !o->timed, .runs = 1};
        if (l->impl->given_up || (l->impl->naive && !naive_fits(o, &in))) {
            l->out = true;
        } else if (o->problem->on_host) {
            if (runs_right(o, &in, wanted, &sets[0], l, "before timing"))
                l->result.peak_bytes = in.io_bytes + host_growth(&in, l);
        } else {
            workspace_make(&in, l);
            device_memory(o, &in, wanted, &sets[0], l);
        }
    }
    if (o->timed) {
        take_times(o, &in, sets, set_count, lanes);
        for (int k = 0; k < o->impls; k++)
            if (!lanes[k].out) runs_right(o, &in, wanted, &sets[set_count - 1], &lanes[k], "after timing");
    }

    bool measured = false;
    for (int k = 0; k < o->impls; k++) {
        const lane *l = &lanes[k];
        if (l->out) continue;
        measured |= !l->impl->naive;
        bench_tsv_row(o->out, o->problem, l->impl->label, &in.c, &l->result);
        if (o->timed)
            bench_say("  %s %.4g ms", l->impl->label, l->result.ms);
        else
            bench_say("  %s %.2f MiB", l->impl->label, (double)l->result.peak_bytes / (1 << 20));
    }

    bench_wanted_free(wanted);
    for (int k = 0; k < o->impls; k++) bench_must(wb_device_free(lanes[k].workspace.at));
    for (int k = 0; k < set_count; k++) bench_set_free(&in, &sets[k]);
    bench_inputs_free(&in);
    return measured || (o->impls == 1 && o->impl[0].naive);  // the naive baseline alone is what was asked for
}

// In that process: one call, and by how much it made the process grow.
static int growth(const options *o)
{
    bench_inputs in;
    size_t bytes;
    bench_inputs_make(&in, o->problem, &o->cases[0]);
    bench_guard_enter(o->impl[0].label);
    if (bench_host_growth(&in, o->impl[0].function, &bytes) != WB_OK) return 1;
    printf("%zu\n", bytes);
    return 0;
}

static void roofs(const options *o)
{
    double tflops, gbps;
    if (o->problem->on_host) {
        bench_tsv_roof(o->out, o->problem, "roof_sgemm", bench_roof_sgemm() * 1e-3, 0);
    } else if (o->timed) {
        bench_must(wb_roof_copy(&gbps));
        bench_tsv_roof(o->out, o->problem, "roof_copy", 0, gbps);
        bench_must(wb_roof_gemm(&tflops));
        bench_tsv_roof(o->out, o->problem, "roof_gemm", tflops, 0);
        bench_say("bench %02d: roofs of this device: copy %.0f GB/s, bf16 product %.0f TFLOP/s\n", o->problem->number,
                  gbps, tflops);
    }
}

// ------------------------ command line

static int usage(void)
{
    bench_say("usage: bench NN [--naive] [--impl LABEL=PATH.so]... [--out FILE]\n"
              "                [--sweep | --charts | --shape CASE...]\n"
              "  --naive            also the naive baseline\n"
              "  --impl key=X.so    an implementation with the problem's function\n"
              "  --sweep            the shapes of the charts and of the records\n"
              "  --charts           only the shapes of the charts; fewer runs on the host\n"
              "  --shape CASE       for example B=1,Hq=16,Nq=4096,D=64 or rows=4096,cols=1001\n");
    return 2;
}

// Ends the program with a sentence about its command line.
static void refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "bench: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(2);
}

static implementation *add_implementation(options *o, const char *label)
{
    if (o->impls == MAX_IMPLS) refuse("at most %d implementations at a time", MAX_IMPLS);
    implementation *impl = &o->impl[o->impls++];
    *impl = (implementation){.label = label, .message = wb_last_message};
    return impl;
}

static void load(options *o, const char *text)
{
    const char *path = strchr(text, '=');
    char file[4096], label[BENCH_LABEL];
    if (!path || path == text || path - text >= BENCH_LABEL) refuse("--impl %s: expected LABEL=PATH.so", text);
    snprintf(label, sizeof label, "%.*s", (int)(path - text), text);
    if (bench_guard_is_out(label)) return;
    // A bare name would be searched for elsewhere. Loading runs what it has before main.
    snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path + 1);
    bench_guard_enter(label);
    void *library = dlopen(file, RTLD_LOCAL | RTLD_NOW);
    bench_guard_leave();
    const wb_function function = library ? (wb_function)dlsym(library, o->problem->name) : NULL;
    if (!function) {
        snprintf(state->why, sizeof state->why, "%s is left out: %.200s", label, dlerror());
        return;
    }
    implementation *impl = add_implementation(o, strdup(label));
    char workspace[128];
    snprintf(workspace, sizeof workspace, "%s_workspace", o->problem->name);
    impl->given = text;
    impl->function = function;
    if (o->problem->signature == WB_DECODE) impl->workspace = (wb_workspace_function)dlsym(library, workspace);
    const wb_function message = (wb_function)dlsym(library, "wb_last_message");
    if (message) impl->message = (const char *(*)(void))message;
}

static void load_naive(options *o)
{
    if (bench_guard_is_out("naive")) return;
    implementation *impl = add_implementation(o, "naive");
    impl->naive = true;
    if (o->problem->on_host)
        impl->function = (wb_function)naive_cpu;
    else if (o->problem->signature == WB_ROW_SUM)
        impl->function = (wb_function)naive_gpu_row_sum;
    else if (o->problem->signature == WB_DECODE)
        impl->function = o->problem->int8_cache ? (wb_function)naive_gpu_decode_int8 : (wb_function)naive_gpu_decode;
    else if (o->problem->signature == WB_BACKWARD)
        impl->function = o->problem->sink_logits ? (wb_function)naive_gpu_sink_attention_backward
                                                 : (wb_function)naive_gpu_attention_backward;
    else if (o->problem->signature == WB_BLOCK_MASK)
        impl->function = (wb_function)naive_gpu_masked_attention;
    else if (o->problem->signature == WB_FP8)
        impl->function = (wb_function)naive_gpu_fp8;
    else
        impl->function =
            o->problem->sink_logits ? (wb_function)naive_gpu_sink_attention : (wb_function)naive_gpu_attention;
}

static void parse(options *o, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--naive") == 0)
            load_naive(o);
        else if (strcmp(option, "--sweep") == 0)
            o->sweep = true;
        else if (strcmp(option, "--charts") == 0)
            o->sweep = o->charts = true;
        else if (strcmp(option, "--growth") == 0)
            o->growth = true;
        else if (i + 1 == argc)
            refuse("unknown option %s; `bench` without arguments lists the options", option);
        else if (strcmp(option, "--impl") == 0)
            load(o, argv[++i]);
        else if (strcmp(option, "--shape") == 0) {
            if (o->count == BENCH_MAX_CASES) refuse("at most %d shapes", BENCH_MAX_CASES);
            wb_case *c = &o->cases[o->count++];
            if (wb_case_parse(o->problem, argv[++i], c) != WB_OK) refuse("%s", wb_last_message());
            if (!o->problem->window) c->shape.window = 0;  // the naive baseline reads all fields
            if (!o->problem->sinks) c->shape.sinks = 0;
        } else if (strcmp(option, "--out") == 0) {
            if (!(o->out = fopen(argv[++i], state->starts ? "a" : "w"))) refuse("%s cannot be written", argv[i]);
        } else
            refuse("unknown option %s; `bench` without arguments lists the options", option);
    }
    if (o->impls == 0 && *state->why) refuse("%s", state->why);
    if (o->impls == 0 && state->out_count == 0) refuse("nothing to time: give --impl LABEL=PATH.so or --naive");
}

int main(int argc, char **argv)
{
    static options o;
    if (argc < 3 || !(o.problem = wb_problem_number(atoi(argv[1])))) return usage();
    if (wb_has_ranks(o.problem)) {
        bench_say("bench: %s is called by several processes: make bench-%02d\n", o.problem->name, o.problem->number);
        return 2;
    }
    if (!(state = bench_guard_state())) return bench_guard(argv);
    o.out = stdout;
    parse(&o, argc, argv);
    if (o.growth) return growth(&o);
    *state->last = 0;  // nothing has run yet
    o.cuda = wb_timer_available();
    o.timed = o.cuda || o.problem->on_host;
    if (o.sweep) o.count = bench_sweep_shapes(o.problem, o.timed, o.charts, o.cases);
    if (o.count == 0) o.cases[o.count++] = bench_demo_shape(o.problem, o.timed);
    if (state->starts == 0) {
        bench_tsv_header(o.out, o.problem, argc, argv, o.cuda);
        roofs(&o);
    }
    if (*state->why) note(&o, "%s", state->why), state->well = false;
    for (int k = state->shapes; k < o.count && o.impls > 0; k++) {
        bench_shape_text(o.problem, &o.cases[k], state->where, sizeof state->where);
        bench_say("bench %02d: %d of %d, %s:", o.problem->number, k + 1, o.count, state->where);
        state->well = measure(&o, &o.cases[k]) && state->well;
        state->shapes = k + 1;
        bench_say("\n");
    }
    if (!o.problem->on_host) bench_must(naive_gpu_release());
    if (o.out != stdout && fclose(o.out) != 0) {
        bench_say("bench: the output could not be written completely\n");
        return 1;
    }
    fflush(stdout);
    const int status = state->well ? 0 : 1;
    state->done = true;
    return status;
}
