// bench.h - what the parts of the bench program share: bench.c (what to run, and when), bench_shapes.c (which shapes),
// bench_inputs.c (on which data), bench_check.c (is it right),
// bench_host.c (this machine), bench_guard.c (what if one crashes), bench_report.c (what is written).
#pragma once

#include "case/case.h"
#include "worker/exchange.h"
#include "roofline.h"
#include "timer.h"

#include <stdio.h>
#include <sys/types.h>

// How many bytes of workspace a function of 13 or 14 wants: its companion, NAME_workspace.
typedef size_t (*wb_workspace_function)(const decode_shape *shape);

// The inputs of a case in host memory, and how large all of its tensors are.
typedef struct bench_inputs {
    const wb_problem *problem;
    wb_case c;
    int count;
    wb_tensor tensor[WB_MAX_TENSORS];
    wb_zone zone[WB_MAX_TENSORS];
    char *block;                 // where all lie, as in a worker's exchange
    void *host[WB_MAX_TENSORS];  // in the block; null for outputs
    size_t io_bytes;             // inputs and outputs together
} bench_inputs;

// One set of all tensors, in the memory where the functions want them.
typedef struct bench_set {
    void *at[WB_MAX_TENSORS];
} bench_set;

typedef struct bench_result {
    double ms, ms_p10, ms_p90;
    bool emulated;      // the times are the emulator's and mean nothing
    size_t peak_bytes;  // the most memory held during a call, inputs and outputs included
    size_t io_bytes;
    double max_error;  // over the sampled rows, absolute
    int runs;
} bench_result;

// ------------------------ bench_shapes.c

enum { BENCH_MAX_CASES = 64, BENCH_SEED = 7 };

// The shapes of the charts, and others that are recorded unless `drawn`; returns how many. The one of the demo table.
// The one among those of the charts that says most about a kernel on a GPU: large enough that nothing else counts.
int bench_sweep_shapes(const wb_problem *problem, bool timed, bool drawn, wb_case cases[BENCH_MAX_CASES]);
wb_case bench_demo_shape(const wb_problem *problem, bool timed);
wb_case bench_main_shape(const wb_problem *problem);

// The shape in a few words: "B1 H16 N4096 D16 causal".
void bench_shape_text(const wb_problem *problem, const wb_case *c, char *text, size_t size);

// ------------------------ bench_inputs.c

void bench_inputs_make(bench_inputs *inputs, const wb_problem *problem, const wb_case *c);
void bench_inputs_free(bench_inputs *inputs);

// The sets of a problem on the host share the inputs' memory.
void bench_set_make(const bench_inputs *inputs, bench_set *set);
void bench_set_free(const bench_inputs *inputs, bench_set *set);

// Fills the outputs with NaN, so that what a function leaves out shows.
void bench_set_spoil(const bench_inputs *inputs, const bench_set *set);

// ------------------------ bench_check.c

// What the suites' judge wants of the outputs, of some rows in all heads.
typedef struct bench_wanted bench_wanted;
bench_wanted *bench_wanted_make(const bench_inputs *inputs);
void bench_wanted_free(bench_wanted *wanted);

// Compares the outputs at `pointers` with it. WB_OK if all is right; else a sentence in wb_last_message().
wb_status bench_wanted_compare(const bench_wanted *wanted, const bench_inputs *inputs, void *const pointers[],
                               double *max_error);

// ------------------------ bench_guard.c

enum { BENCH_MAX_IMPLS = 8, BENCH_LABEL = 32 };

// What outlives the end of the program by an implementation.
typedef struct bench_state {
    char last[BENCH_LABEL];                  // the implementation that was called last
    char where[80];                          // the shape
    char why[320];                           // a sentence about the one that ended the program, if it was not said yet
    char out[BENCH_MAX_IMPLS][BENCH_LABEL];  // those that are left out for good
    int out_count, starts, shapes, calls;    // starts before this one; shapes that are done; calls begun
    bool running, said, well, done;
    roofline_peaks peaks;  // of the device; 0 where none is timed
} bench_state;

// The program as it was called: does the work in a process of its own, once more after each end by an implementation.
// Exit status.
int bench_guard(char **argv);

// In that process; null in the one that watches.
bench_state *bench_guard_state(void);
bool bench_guard_is_out(const char *label);
// From here on this implementation runs, and must answer within WB_TIMEOUT or 60 seconds of the program's own.
void bench_guard_enter(const char *label);
void bench_guard_leave(void);
// Without the implementation that ran last, of which was said already why.
void bench_guard_restart(void) __attribute__((noreturn));

// This program once more, in a process that ends with this one; what it prints goes to `output`.
pid_t bench_start(char **argv, int output);

// ------------------------ bench_host.c

// Progress and messages, on stderr.
void bench_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Ends the program, with wb_last_message(), when the machinery fails; an implementation that fails is only left out.
void bench_must(wb_status status);

double bench_now_ms(void);
void *bench_alloc(size_t bytes);  // aligned for any vector; ends the program if there is no memory
size_t bench_free_host_bytes(void);
void bench_machine(char *text, size_t size);  // "2 x AMD EPYC 9654"
int bench_threads(void);

// GFLOP/s of OpenBLAS on one thread for the first product of a tile, S [128, 128] = Q [128, 64] K^T, times the threads
// it uses.
double bench_roof_sgemm(void);

// The child's half of a measurement of host memory: calls `function` once in this process, which must have called
// nothing before, and returns by how much the resident memory grew at most.
wb_status bench_host_growth(const bench_inputs *inputs, wb_function function, size_t *bytes);

// ------------------------ bench_report.c

void bench_tsv_header(FILE *out, const wb_problem *problem, int argc, char **argv, bool cuda);
void bench_tsv_row(FILE *out, const wb_problem *problem, const char *label, const wb_case *c,
                   const bench_result *result);
void bench_tsv_roof(FILE *out, const wb_problem *problem, const char *label, double tflops, double gbps);
