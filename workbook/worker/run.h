// run.h - one case of the function under test: buffers, the case's conditions, the call, and what came of it.
#pragma once

#include "worker/exchange.h"

typedef struct wb_tested {
    const char *name;
    wb_function function;
    // How many bytes of workspace the function of a WB_DECODE, or of ranks, wants; null: it wants none.
    size_t (*workspace)(const void *shape, const wb_ring *ring);
} wb_tested;
extern const wb_tested wb_under_test;

// A workspace, `guard` bytes of WB_NAN_BYTE on both sides of it.
typedef struct run_scratch {
    char *buffer;
    size_t guard;
    wb_workspace given;
} run_scratch;

// A call beside the one that is judged, on a stream of its own, at another scale. Nobody looks at its results.
typedef struct run_beside {
    wb_case c;
    void *buffers[WB_MAX_TENSORS], *pointers[WB_MAX_TENSORS + 1];
    run_scratch scratch;
    wb_stream stream;
} run_beside;

typedef struct wb_run {
    const wb_problem *problem;
    wb_case c;
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    int count;     // but for a record behind these of the function (wb_case.products), which stays where it is
    char *shared;  // an exchange, and the zones, of so many bytes
    size_t shared_bytes;
    // Zones have no guards. Tensors of a problem on the host move, too, each to a buffer that ends with it, and outputs
    // are not filled.
    bool exact;
    void *board;  // of a rank
    size_t board_bytes;
    // From here on wb_run_case makes it.
    wb_exchange *x;
    bool is_rank, moved;
    void *buffers[WB_MAX_TENSORS], *pointers[WB_MAX_TENSORS + 2];
    size_t bytes[WB_MAX_TENSORS];  // of each tensor, but for what is cut off
    wb_ring ring, told;            // told: what the function is
    run_scratch scratch;
    wb_stream stream;
    run_beside beside;
} wb_run;

// Copies the tensors to the device, calls, waits, copies back. It returns the machinery's status, not the function's.
wb_status wb_run_case(wb_run *r);

// ------------------------ between run.c and conditions.c

// When a condition of a case acts: before anything is allocated; before memory is counted; right before the call; when
// the device is done; when all is counted. The last two go through them backwards.
typedef enum run_moment { RUN_SET, RUN_PREPARE, RUN_BEGIN, RUN_END, RUN_RELEASE, RUN_MOMENTS } run_moment;
wb_status run_conditions(wb_run *r, run_moment when);

bool run_has_beside(const wb_run *r);

// A buffer for tensor k between its guards, with its contents if `filled`; place: of layer_requests.h, or -1.
wb_status run_new_buffer(const wb_run *r, int k, bool filled, int place, void **buffer);

// A null pointer where the case asks for one, the tensor's address elsewhere.
void *run_address(const wb_case *c, const char *tensor, char *zone, size_t data);

wb_status run_scratch_begin(const wb_case *c, const wb_ring *ring, int place, run_scratch *s);

// Below, for the inputs, K and V last. again: they have arrived before; 2: now with these two swapped.
wb_status run_inputs_late(const wb_run *r, void *const buffers[], int again, wb_stream *stream);

// ------------------------ late_inputs.cu: a stream on which inputs arrive only some time after the call: work that the
// function queues elsewhere reads NaN

__BEGIN_DECLS

// Takes the contents of `count` buffers away, leaves NaN, and queues their return on a new, non-blocking stream.
wb_status wb_late_begin(void *const buffers[], const size_t bytes[], int count, wb_stream *stream);
wb_status wb_late_end(wb_stream stream);  // after everything

// Of ranks. Queues the return of all contents once more; swapped: of the last two each other's, which are as large.
wb_status wb_late_again(void *const buffers[], const size_t bytes[], int count, int swapped, wb_stream stream);

__END_DECLS

// ------------------------ by_hand.c: what a worker does itself where no test started it

// A case in memory. file: a test's, or -1: by hand. False, with a line on stderr, if there is none.
bool lay_out(wb_run *r, const wb_problem *problem, const wb_case *c, bool exact, int file);

// Runs it once, as one worker or rank does. Returns the exit status that the worker deserves. board: a file, or -1.
int try_run(wb_run *r, int board);

// Makes the inputs; starts a process for each rank, of which the first that ends badly ends all; prints what came out.
// `told`, unless -1: a descriptor that is told of an error, as of a report (layer_requests.h).
void by_hand_fill(const wb_run *run);
int by_hand_run_ranks(const wb_run *whole);
void by_hand_print(const wb_run *run, int told);
