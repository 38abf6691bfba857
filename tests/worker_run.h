// worker_run.h - starts a worker on a case and says how it ended.
#ifndef TESTS_WORKER_RUN_H
#define TESTS_WORKER_RUN_H

#include "exchange.h"

typedef struct worker_run {
    const wb_problem *problem;
    wb_case c;
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    int count;
    char *shared;       // the exchange, mapped
    size_t bytes;       // of it
    char *original;     // a copy of it from before the worker started, which the worker never saw
    char ending[256];   // "" if the worker finished, otherwise what happened instead, in one sentence
    char output[4096];  // what it printed, the beginning of it
    size_t printed;     // how much it printed in all
} worker_run;

const char *worker_path(void);

// Runs the worker to its end, or kills it after WB_TIMEOUT seconds. Ends the program with a sentence if there is no worker.
void worker_start(worker_run *run, const wb_problem *problem, const wb_case *c);
void worker_end(worker_run *run);  // gives the memory back

static inline wb_exchange *worker_exchange(const worker_run *run) { return (wb_exchange *)run->shared; }
static inline char *worker_tensor(const worker_run *run, int k)
{
    return run->shared + run->zones[k].start + run->zones[k].data;
}
static inline char *original_tensor(const worker_run *run, int k)
{
    return run->original + run->zones[k].start + run->zones[k].data;
}

#endif
