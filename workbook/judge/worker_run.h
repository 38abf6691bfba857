// worker_run.h - has a worker run cases, each with a verdict on how it ended. A worker is a process that is expensive
// to start, above all on a GPU, so it serves one case after the other until it is told to end (exchange.h has the
// protocol). Whoever finds fault with a case sends its worker away; the next case then starts another. A case of
// several ranks (problem 17) has a worker for each; a case of any other problem has one, the first of them.
#pragma once

#include "session.h"

// Which worker: WORKER_SHARED stays for the cases that follow; WORKER_SECOND is another such one, for what the first
// must not have seen. WORKER_ALONE is one of the case's own, which ends with it.
typedef enum worker_kind { WORKER_SHARED, WORKER_SECOND, WORKER_ALONE, WORKER_KINDS } worker_kind;

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
    // Of problem 17: what each rank was given and left. Then this is the whole: inputs and outputs cut and joined, and
    // in its exchange what went wrong on rank `whose`, if anything did, and the most that any of them needed.
    worker_run *parts;  // null elsewhere
    int whose;
};

const char *worker_path(void);

// Makes the tensors of a case and its inputs, but for O and L of a backward, which are the caller's (expect.h).
void worker_lay_out(worker_run *run);

// Runs it, or kills the worker when it has no answer after WB_TIMEOUT seconds of its own. Ends the program with a
// sentence if there is no worker, or if the machine was too busy to judge one (record.h).
void worker_start(worker_run *run, worker_kind kind);
void worker_end(worker_run *run);  // gives the memory back

// Kills the worker of this kind, if there is one.
void worker_retire(worker_kind kind);

// Tells the worker of this kind to end, and waits for it. False if it did not end well: then `last` has the case that
// it served last, the ending and what it printed, and no tensors.
bool worker_finish(worker_kind kind, worker_run *last);

// Whether the case was not run, or had no answer in time, which the layer may have reported.
static inline bool worker_not_run(const worker_run *run) { return strcmp(run->said.finding, "not run") == 0; }
static inline bool worker_late(const worker_run *run)
{
    return strcmp(run->said.finding, "no answer") == 0 || wb_finding_is(run->said.finding, "timeout");
}

// How many workers ran it, and what each left.
static inline int worker_count(const worker_run *run) { return run->parts ? run->c.ranks : 1; }
static inline worker_run *worker_part(worker_run *run, int rank) { return run->parts ? &run->parts[rank] : run; }
static inline const worker_run *worker_part_of(const worker_run *run, int rank)
{
    return run->parts ? &run->parts[rank] : run;
}

static inline wb_exchange *worker_exchange(const worker_run *run) { return (wb_exchange *)run->shared; }
static inline char *worker_tensor(const worker_run *run, int k)
{
    return run->shared + run->zones[k].start + run->zones[k].data;
}
static inline char *original_tensor(const worker_run *run, int k)
{
    return run->original + run->zones[k].start + run->zones[k].data;
}

// Input tensor `name` as numbers, which the caller frees; null if there is none.
static inline double *worker_numbers(const worker_run *run, const char *name)
{
    for (int k = 0; k < run->count; k++) {
        const wb_tensor *t = &run->tensors[k];
        if (t->output || strcmp(t->name, name)) continue;
        double *values = malloc(t->count * sizeof *values);
        if (!values) abort();
        wb_get_all(t->type, original_tensor(run, k), t->count, values);
        return values;
    }
    return NULL;
}
