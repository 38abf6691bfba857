// bench.c - times implementations of one problem side by side, in one process, and measures their memory. For all
// problems; usage() has the options. Without any of shapes it takes that of make demo.
//
// On the cuda backend and for a problem on the host, times are measured; problems of the device on the cpu backend are
// run once, for memory and correctness, and their times are the emulator's and not written down. Ends with 0 if no
// implementation was left out for good, and at each shape one was measured beside the naive baseline; with 1 if not,
// with 2 if the command line is wrong.
//
// The program that was called only watches: it starts a process that measures. When that dies, whoever was running is
// left out, and another goes on from the same shape.
#include "bench.h"

#include "reference/naive.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

bench_state *bench;

void bench_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

void bench_must(wb_status status)
{
    if (status == WB_OK) return;
    bench_say("\nbench: %s: %s\n", wb_status_text(status), wb_last_message());
    exit(1);
}

// ------------------------ in the process that measures

void bench_enter(const char *label)
{
    snprintf(bench->last, BENCH_LABEL, "%s", label);
    bench->calls++;
    bench->running = true;
}

void bench_leave(void) { bench->running = false; }

bool bench_is_out(const char *label)
{
    for (int n = 0; n < bench->out_count; n++)
        if (strcmp(bench->out[n], label) == 0) return true;
    return false;
}

void bench_leave_out(const char label[BENCH_LABEL])
{
    if (!bench_is_out(label) && bench->out_count < BENCH_MAX_IMPLS)
        memcpy(bench->out[bench->out_count++], label, BENCH_LABEL);
}

static wb_function naive_of(const wb_problem *p)
{
    switch (p->signature) {
    case WB_ROW_SUM: return (wb_function)naive_gpu_row_sum;
    case WB_DECODE: return p->int8_cache ? (wb_function)naive_gpu_decode_int8 : (wb_function)naive_gpu_decode;
    case WB_BLOCK_MASK: return (wb_function)naive_gpu_masked_attention;
    case WB_FP8: return (wb_function)naive_gpu_fp8;
    case WB_BACKWARD:
        return p->sink_logits ? (wb_function)naive_gpu_sink_attention_backward
                              : (wb_function)naive_gpu_attention_backward;
    default:
        return p->on_host       ? (wb_function)naive_cpu
               : p->sink_logits ? (wb_function)naive_gpu_sink_attention
                                : (wb_function)naive_gpu_attention;
    }
}

static void load(const wb_problem *problem, bench_impl *impl)
{
    char file[4096], name[128];
    impl->message = wb_last_message;
    if (!impl->path) {
        impl->function = naive_of(problem);
        return;
    }
    // A bare name would be searched for elsewhere. Loading runs what it has before main.
    snprintf(file, sizeof file, "%s%s", strchr(impl->path, '/') ? "" : "./", impl->path);
    bench_enter(impl->label);
    void *library = dlopen(file, RTLD_LOCAL | RTLD_NOW);
    bench_leave();
    impl->function = library ? (wb_function)dlsym(library, problem->name) : NULL;
    if (!impl->function) {
        snprintf(bench->why, sizeof bench->why, "%s is left out: %.200s", impl->label, dlerror());
        bench_leave_out(impl->label);
        return;
    }
    snprintf(name, sizeof name, "%s_workspace", problem->name);
    if (problem->signature == WB_DECODE) impl->workspace = (size_t(*)(const decode_shape *))dlsym(library, name);
    const wb_function message = (wb_function)dlsym(library, "wb_last_message");
    if (message) impl->message = (const char *(*)(void))message;
}

// Loads what is not left out for good, and drops the others.
static void load_all(bench_options *o)
{
    int kept = 0;
    for (int k = 0; k < o->impls; k++) {
        bench_impl *impl = &o->impl[k];
        if (!bench_is_out(impl->label)) load(o->problem, impl);
        if (impl->function) o->impl[kept++] = *impl;
    }
    o->impls = kept;
    *bench->last = 0;  // nothing has run yet
}

// ------------------------ the table, before its rows

// What the device can do at most, and how that is known. Nothing if it does not say so.
static void write_peaks(FILE *out, const wb_problem *problem)
{
    roofline_device d;
    char shape[80];
    if (wb_timer_device(&d) != WB_OK) return;
    const roofline_peaks p = roofline_peaks_of(&d);
    const wb_case main_shape = bench_main_shape(problem);
    bench_shape_text(problem, &main_shape, shape, sizeof shape);
    fprintf(out, "# compute capability: %d.%d\n# multiprocessors: %d\n", d.major, d.minor, d.multiprocessors);
    if (p.tflops > 0)
        fprintf(out, "# peak_tflops: %.5g in bf16 products = %d SMs x %.0f FLOPs per clock x %.3f GHz\n", p.tflops,
                d.multiprocessors, roofline_flops_a_clock(&d), d.clock_khz * 1e-6);
    if (p.mma_tflops > 0)
        fprintf(out, "# peak_mma_sync_tflops: %.5g = %.0f %% of it\n", p.mma_tflops, 100 * p.mma_tflops / p.tflops);
    fprintf(out, "# peak_gbps: %.5g = %d bits x 2 x %.3f GHz / 8\n", p.gbps, d.bus_bits, d.memory_khz * 1e-6);
    if (p.gexps > 0)
        fprintf(out, "# peak_gexps: %.5g = %d SMs x %d exponentials per clock x %.3f GHz\n", p.gexps, d.multiprocessors,
                ROOFLINE_EXPS_A_CLOCK, d.clock_khz * 1e-6);
    if (problem->on_host) return;
    bench->peaks = p;
    fprintf(out, "# main shape: %s\n", shape);
}

static void write_header(const bench_options *o, int argc, char **argv)
{
    const wb_problem *const p = o->problem;
    char command[4096] = "", line[512];
    size_t n = 0;
    for (int i = 0; i < argc && n < sizeof command; i++)
        n += (size_t)snprintf(command + n, sizeof command - n, "%s%s", i ? " " : "", argv[i]);
    setenv("COMMAND", command, 1);
    fprintf(o->out, "# problem: %02d %s\n", p->number, p->name);
    snprintf(line, sizeof line, ". workbook/loop/source.sh; head_lines %s \"$COMMAND\"", o->cuda ? "cuda" : "cpu");
    FILE *head = popen(line, "r");
    while (head && fgets(line, sizeof line, head)) fputs(line, o->out);
    if (head) pclose(head);
    fprintf(o->out, "# naive: %s\n",
            p->on_host                   ? "OpenBLAS, one head's score matrix in memory"
            : p->signature == WB_ROW_SUM ? "one thread a row"
            : p->signature == WB_DECODE  ? "one block per query head"
                                         : naive_gpu_products());
    if (o->cuda) write_peaks(o->out, p);
    fprintf(o->out, "# columns: see plots/README.md; - means that a column does not apply\n");
    fprintf(o->out,
            "problem\timpl\tB\tHq\tHkv\tNq\tNk\tD\tW\tS\trows\tcols\tcausal\tms\tms_p10\tms_p90\ttflops\tgbps\t"
            "peak_bytes\tio_bytes\tmax_error\truns%s\tshape" ROOFLINE_COLUMNS "\n",
            p->signature == WB_DECODE       ? "\tpage\tlens"
            : p->signature == WB_BLOCK_MASK ? "\tmask\tq_tile"
                                            : "");
    fflush(o->out);  // whatever crashes later
}

static void write_roof(const bench_options *o, const char *label, double tflops, double gbps)
{
    const wb_signature signature = o->problem->signature;
    fprintf(o->out, "%02d\t%s\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t", o->problem->number, label);
    fprintf(o->out, tflops > 0 ? "%.5g\t" : "-\t", tflops);
    fprintf(o->out, gbps > 0 ? "%.5g\t" : "-\t", gbps);
    fprintf(o->out, "-\t-\t-\t-%s\t-\t-\t-\t-\t-\n",
            signature == WB_DECODE || signature == WB_BLOCK_MASK ? "\t-\t-" : "");
    fflush(o->out);
}

static void roofs(const bench_options *o)
{
    double tflops, gbps;
    if (o->problem->on_host) {
        write_roof(o, "roof_sgemm", bench_roof_sgemm() * 1e-3, 0);
    } else if (o->timed) {
        bench_must(wb_roof_copy(&gbps));
        write_roof(o, "roof_copy", 0, gbps);
        bench_must(wb_roof_gemm(&tflops));
        write_roof(o, "roof_gemm", tflops, 0);
        bench_say("bench %02d: roofs of this device: copy %.0f GB/s, bf16 product %.0f TFLOP/s\n", o->problem->number,
                  gbps, tflops);
    }
}

// From the first shape on that is not done. Exit status.
static int work(bench_options *o, int argc, char **argv)
{
    load_all(o);
    if (o->impls == 0 && !bench->begun) {
        bench_say("bench: %s\n", bench->why);
        bench->end = BENCH_DONE;
        return 2;
    }
    o->cuda = wb_timer_available();
    o->timed = o->cuda || o->problem->on_host;
    if (o->sweep) o->count = bench_sweep_shapes(o->problem, o->timed, o->charts, o->cases);
    if (o->count == 0) o->cases[o->count++] = bench_demo_shape(o->problem, o->timed);
    if (!bench->begun) {
        write_header(o, argc, argv);
        roofs(o);
        bench->begun = true;
    }
    if (*bench->why) bench_note(o, "%s", bench->why), bench->well = false;
    for (int k = bench->shapes; k < o->count && o->impls > 0; k++) {
        bench_shape_text(o->problem, &o->cases[k], bench->where, sizeof bench->where);
        bench_say("bench %02d: %d of %d, %s:", o->problem->number, k + 1, o->count, bench->where);
        bench->well = bench_measure(o, &o->cases[k]) && bench->well;
        bench->shapes = k + 1;
        bench_say("\n");
    }
    if (!o->problem->on_host) bench_must(naive_gpu_release());
    bench->end = BENCH_DONE;
    if (fflush(o->out) == 0 && !ferror(o->out)) return bench->well ? 0 : 1;
    bench_say("bench: the output could not be written completely\n");
    return 1;
}

// ------------------------ the watching

// Seconds that one call may take, of the program's own (judge/spent.h).
static int limit(void)
{
    const char *given = getenv("WB_TIMEOUT");
    return given && atoi(given) > 0 ? atoi(given) : 60;
}

// Whether the call that runs has used up its seconds; asked every SPENT_LOOK. However many threads a call has, a second
// of them all together is one. Calls that are short are not looked at, which would cost them time.
static bool late(pid_t child)
{
    static spent_time own;
    static int call;
    static double spent;
    const double seconds = own.seconds, looked = own.looked;
    if (!bench->running || bench->calls != call) {
        call = bench->calls, spent = -1;
        return false;
    }
    spent_look(&own, child, true);
    spent = spent < 0 ? 0 : spent + fmin(own.seconds - seconds, own.looked - looked);
    return spent >= limit();
}

static void tick(int signal) { (void)signal; }

// Notes who ended the process, and how.
static void blame(int status, bool ended)
{
    char what[160];
    if (ended)
        snprintf(what, sizeof what, "it gave no answer in %d s (an endless loop or a deadlock)", limit());
    else if (WIFSIGNALED(status))
        snprintf(what, sizeof what, "it crashed: signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == WB_REPORT_STATUS)
        snprintf(what, sizeof what, "the execution layer stopped it, with the report above");
    else
        snprintf(what, sizeof what, "it ended the program with status %d", WEXITSTATUS(status));
    snprintf(bench->why, sizeof bench->why, "%s is left out from here on: at %s, %s%s", bench->last, bench->where,
             bench->running ? "" : "after it had run: ", what);
    bench_leave_out(bench->last);
}

// Exit status.
static int run(bench_options *o, int argc, char **argv)
{
    const struct timeval often = {.tv_usec = (suseconds_t)(SPENT_LOOK * 1e6)};
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = tick}, NULL);  // interrupts waitpid
    setitimer(ITIMER_REAL, &(struct itimerval){often, often}, NULL);
    for (;;) {
        const int out = bench->out_count;
        bool ended = false;
        int status = 0;
        bench->end = BENCH_DIED;
        bench->running = false;
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(work(o, argc, argv));
        }
        if (child < 0) return perror("bench: no process can be started"), 1;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            if (late(child)) ended = kill(child, SIGKILL) == 0;
        if (bench->end == BENCH_DONE) return WEXITSTATUS(status);
        *bench->why = 0;
        if (bench->end == BENCH_DIED) {
            // Between calls it is the machinery that died; an implementation may have spoiled its memory.
            if (!*bench->last || (!bench->running && WIFEXITED(status)))
                return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            blame(status, ended);
        }
        if (bench->out_count == out) return 1;
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
#define refuse(...) (bench_say("bench: " __VA_ARGS__), bench_say("\n"), exit(2))

static void add_implementation(bench_options *o, const char *label, size_t length, const char *path)
{
    if (!length || length >= BENCH_LABEL) refuse("--impl %s: expected LABEL=PATH.so", label);
    if (o->impls == BENCH_MAX_IMPLS) refuse("at most %d implementations at a time", BENCH_MAX_IMPLS);
    bench_impl *impl = &o->impl[o->impls++];
    snprintf(impl->label, sizeof impl->label, "%.*s", (int)length, label);
    impl->path = path;
}

static void parse(bench_options *o, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "--naive") == 0)
            add_implementation(o, "naive", 5, NULL);
        else if (strcmp(option, "--sweep") == 0)
            o->sweep = true;
        else if (strcmp(option, "--charts") == 0)
            o->sweep = o->charts = true;
        else if (i + 1 == argc)
            refuse("unknown option %s; `bench` without arguments lists the options", option);
        else if (strcmp(option, "--impl") == 0) {
            const char *text = argv[++i], *path = strchr(text, '=');
            add_implementation(o, text, path ? (size_t)(path - text) : 0, path + 1);
        } else if (strcmp(option, "--shape") == 0) {
            if (o->count == BENCH_MAX_CASES) refuse("at most %d shapes", BENCH_MAX_CASES);
            wb_case *c = &o->cases[o->count++];
            if (wb_case_parse(o->problem, argv[++i], c) != WB_OK) refuse("%s", wb_last_message());
            if (!o->problem->window) c->shape.window = 0;  // the naive baseline reads all fields
            if (!o->problem->sinks) c->shape.sinks = 0;
        } else if (strcmp(option, "--out") == 0) {
            if (!(o->out = fopen(argv[++i], "w"))) refuse("%s cannot be written", argv[i]);
        } else
            refuse("unknown option %s; `bench` without arguments lists the options", option);
    }
    if (o->impls == 0) refuse("nothing to time: give --impl LABEL=PATH.so or --naive");
}

int main(int argc, char **argv)
{
    static bench_options o;
    if (argc < 3 || !(o.problem = wb_problem_number(atoi(argv[1])))) return usage();
    if (wb_has_ranks(o.problem)) {
        bench_say("bench: %s is called by several processes: make bench-%02d\n", o.problem->name, o.problem->number);
        return 2;
    }
    o.out = stdout;
    parse(&o, argc, argv);
    bench = mmap(NULL, sizeof *bench, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench == MAP_FAILED) return perror("bench: no shared memory"), 1;
    bench->well = true;
    return run(&o, argc, argv);
}
