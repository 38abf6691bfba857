// bench.h - what the parts of the bench program share: bench.c (what runs, in which process; the head of the table),
// bench_measure.c (one shape: inputs, memory, correctness, times, rows), bench_shapes.c (which shapes).
#pragma once

#include "judge/worker_run.h"
#include "timer.h"

enum { BENCH_MAX_IMPLS = 8, BENCH_MAX_CASES = 64, BENCH_MAX_SETS = 3, BENCH_MAX_RUNS = 25, BENCH_LABEL = 32 };

typedef struct bench_result {
    double ms, ms_p10, ms_p90;
    bool emulated;      // the times are the emulator's and mean nothing
    size_t peak_bytes;  // the most memory held during a call, inputs and outputs included
    size_t io_bytes;
    double max_error;  // over the sampled rows, absolute
    int runs;
} bench_result;

typedef struct bench_impl {
    char label[BENCH_LABEL];
    const char *path;                                // of the library; null: the naive baseline
    wb_function function;                            // null: it is not loaded
    size_t (*workspace)(const decode_shape *shape);  // of a function of 13 or 14, its companion; null: it wants none
    const char *(*message)(void);                    // its own wb_last_message
    // Its part in the measurement of one shape.
    bool out;  // wrong, failed, or too large to run
    bench_result result;
    double ms[BENCH_MAX_RUNS];
    wb_workspace room;
} bench_impl;

typedef struct bench_options {
    const wb_problem *problem;
    bench_impl impl[BENCH_MAX_IMPLS];
    int impls;
    wb_case cases[BENCH_MAX_CASES];
    int count;
    bool sweep, charts;
    FILE *out;
    bool cuda;   // the cuda backend
    bool timed;  // times mean something
} bench_options;

// ------------------------ bench.c

// What outlives the end of the process that measures, by an implementation.
typedef struct bench_state {
    char last[BENCH_LABEL];                  // the implementation that was called last
    char where[80];                          // the shape
    char why[320];                           // a sentence about the one that ended the process, if it was not said yet
    char out[BENCH_MAX_IMPLS][BENCH_LABEL];  // those that are left out for good
    int out_count, shapes, calls;            // shapes that are done; calls begun
    bool running, begun, well;               // begun: the table has its header
    enum { BENCH_DIED, BENCH_SAID, BENCH_DONE } end;  // of the process: as it was last announced
    roofline_peaks peaks;                             // of the device; 0 where none is timed
} bench_state;
extern bench_state *bench;

// From here on this implementation runs, and must answer within WB_TIMEOUT or 60 seconds of the program's own.
void bench_enter(const char *label);
void bench_leave(void);
// Whether an implementation is left out for good; that from here on it is, in the processes that follow, too.
bool bench_is_out(const char *label);
void bench_leave_out(const char label[BENCH_LABEL]);

void bench_say(const char *format, ...) __attribute__((format(printf, 1, 2)));  // progress and messages, on stderr
// The same, and in the TSV as a comment.
#define bench_note(o, ...) \
    (bench_say("\n  " __VA_ARGS__), bench_say("\n "), fprintf((o)->out, "# " __VA_ARGS__), fprintf((o)->out, "\n"), \
     fflush((o)->out))
// Ends the program, with wb_last_message(), when the machinery fails; an implementation that fails is only left out.
void bench_must(wb_status status);

// ------------------------ bench_measure.c

// Everything about one shape, with a row for each implementation. Whether one besides naive was measured.
bool bench_measure(bench_options *o, const wb_case *c);

// GFLOP/s of OpenBLAS on one thread for the first product of a tile, S [128, 128] = Q [128, 64] K^T, times the threads
// it uses.
double bench_roof_sgemm(void);

// ------------------------ bench_shapes.c

// The shapes of the charts, and others that are recorded unless `drawn`; returns how many. The one of the demo table.
// The one among those of the charts that says most about a kernel on a GPU: large enough that nothing else counts.
// timed: on something whose time means anything, so that large ones are worth it.
int bench_sweep_shapes(const wb_problem *problem, bool timed, bool drawn, wb_case cases[BENCH_MAX_CASES]);
wb_case bench_demo_shape(const wb_problem *problem, bool timed);
wb_case bench_main_shape(const wb_problem *problem);

// The shape in a few words: "B1 H16 N4096 D16 causal".
void bench_shape_text(const wb_problem *problem, const wb_case *c, char *text, size_t size);
