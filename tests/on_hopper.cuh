// on_hopper.cuh - what the tests of hopper.cuh's and e4m3.cuh's words share. Include it after these: it includes Criterion, which includes <csignal>,
// and from there on the word signal is `struct signal`.
#pragma once

#include "hopper.cuh"
#include "apart.h"
#include "case/case.h"
#include "on_device.cuh"

#include <math.h>

// Every test starts from the same numbers.
static uint64_t state;
static inline uint64_t dice(void) { return state = state * 6364136223846793005u + 1442695040888963407u; }

static inline void start(void)
{
    state = 1;
    if (check_hopper("this word") != WB_OK) cr_skip_test("sm_90 or the CPU execution layer is needed");
}

static inline void expect(double got, double want, double tolerance, const char *what, int row, int col)
{
    cr_assert(isfinite(got) && fabs(got - want) <= tolerance, "%s [%d][%d] is %.9g, should be %.9g", what, row, col,
              got, want);
}

static inline void must(wb_status status)
{
    if (status == WB_OK) return;
    fprintf(stderr, "on_hopper: %s\n", wb_last_message());
    exit(1);
}

template <class Kernel> static void allow(Kernel kernel, size_t bytes)
{
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "shared memory");
}

// All threads: this many loads will end in the signal.
TILE_FN void begin(struct signal &full, int loads)
{
    if (threadIdx.x == 0) {
        full.init(loads);
        signals_ready();
    }
    __syncthreads();
}
