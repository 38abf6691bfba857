// run.h - one case of the function under test: buffers, the conditions that the case names, the call, and what came of
// it.
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

// A call beside the one that is judged, on a stream of its own: of tensors like those, at another scale. Nobody looks
// at its results.
typedef struct run_beside {
    wb_case c;
    void *buffers[WB_MAX_TENSORS], *pointers[WB_MAX_TENSORS + 1];
    run_scratch scratch;
    wb_stream stream;
} run_beside;

typedef struct wb_run {
    const wb_problem *problem;
    const wb_case *c;
    const wb_tensor *tensors;
    const wb_zone *zones;
    int count;
    char *shared;  // an exchange, and the zones
    // Tensors of a problem on the host move too, each to a buffer that ends with it, and outputs are not filled, but
    // for what an offset puts before them.
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

// Copies the tensors to the device, calls, waits, copies back. What it returns is the machinery's; what the function
// said is in the exchange.
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

// late_inputs.h, for the inputs, K and V last. again: they have arrived before; 2: now with the contents of these two
// swapped.
wb_status run_inputs_late(const wb_run *r, void *const buffers[], int again, wb_stream *stream);
