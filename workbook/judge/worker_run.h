// worker_run.h - has a worker run cases, and says how each ended. A worker is expensive to start, above all on a GPU,
// so it serves one case after the other (exchange.h). Whoever finds fault with a case sends its worker away; the next
// case starts another. A case of several ranks has a worker for each.
#pragma once

#include "session.h"

// WORKER_SHARED stays for the cases that follow; WORKER_ALONE ends with its case.
typedef enum worker_kind { WORKER_SHARED, WORKER_ALONE, WORKER_KINDS } worker_kind;

enum { WORKER_REMEMBERED = 8 };

typedef struct worker_run worker_run;
struct worker_run {
    const wb_problem *problem;
    wb_case c;
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    int count;
    char *shared;      // what the worker left in the exchange: a copy, which it can no longer change
    size_t bytes;      // of it
    size_t given;      // of these, what the worker is given: all but the room for a record (c.products), which is zeros
    char *original;    // a copy of it from before the worker was given the case
    char ending[256];  // "" if the worker finished the case, otherwise what happened instead, in one sentence
    session_said said;  // what it printed meanwhile
    size_t peak;        // of a worker alone: the most memory it had resident, as the kernel counted (session.h)
    int served;         // how many cases the same process had served before this one
    wb_case before[WORKER_REMEMBERED];  // the last of them, newest last
    // Of ranks: what each was given and left. Then this is the whole, cut and joined, and its exchange says what went
    // wrong on rank `whose`, if anything did, and the most that any needed.
    worker_run *parts;  // null elsewhere
    int whose;
};

const char *worker_path(void);

// Makes the tensors of a case and its inputs, but for O and L of a backward, which are the caller's (expect.h).
void worker_lay_out(worker_run *run);

// From now on the cases of this process and of its forks are counted together, and no more are run after too many
// without an answer. When it exits, what they have cost is noted (spent.h).
void worker_count_together(void);

// Runs it, or kills the worker after WB_TIMEOUT seconds of its own. Ends the program with a sentence if there is no
// worker, or if the machine was too busy to judge one (record.h).
void worker_start(worker_run *run, worker_kind kind);
void worker_end(worker_run *run);  // gives the memory back

// Kills the shared worker, if there is one.
void worker_retire(void);

// Tells it to end. False if it did not end well: `last` has its case, ending and what it printed.
bool worker_finish(worker_run *last);

// Whether the case was not run, or had no answer in time, which the layer may have reported.
static inline bool worker_not_run(const worker_run *run) { return strcmp(run->said.finding, "not run") == 0; }
static inline bool worker_late(const worker_run *run)
{
    return strcmp(run->said.finding, "no answer") == 0 || wb_finding_is(run->said.finding, "timeout");
}

// How many workers ran it, and what each left.
static inline int worker_count(const worker_run *run) { return run->parts ? run->c.ranks : 1; }
static inline worker_run *worker_part(const worker_run *run, int rank)
{
    return run->parts ? &run->parts[rank] : (worker_run *)run;
}

static inline wb_exchange *worker_exchange(const worker_run *run) { return (wb_exchange *)run->shared; }
static inline char *worker_tensor(const worker_run *run, int k) { return zone_data(run->shared, &run->zones[k]); }
static inline char *original_tensor(const worker_run *run, int k) { return zone_data(run->original, &run->zones[k]); }

// The number of tensor `name`; -1: there is none.
static inline int worker_named(const worker_run *run, const char *name)
{
    return wb_tensor_named(run->tensors, run->count, name);
}

// Input tensor `name` as numbers, which the caller frees; null if there is none.
static inline double *worker_numbers(const worker_run *run, const char *name)
{
    const int k = worker_named(run, name);
    if (k < 0 || run->tensors[k].output) return NULL;
    double *values = malloc(run->tensors[k].count * sizeof *values);
    if (!values) abort();
    wb_get_all(run->tensors[k].type, original_tensor(run, k), run->tensors[k].count, values);
    return values;
}
