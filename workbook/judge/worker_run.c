#include "worker_run.h"

#include "expect.h"
#include "record.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The harness itself cannot work: no verdict about the student's code is possible, so the whole test program ends.
static void give_up(const char *what)
{
    fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
    _exit(RECORD_GAVE_UP);
}

const char *worker_path(void)
{
    const char *path = getenv("WB_WORKER");
    if (path && access(path, X_OK) == 0) return path;
    fprintf(stderr, "harness: %s%s. Run the tests with make, for example make test-03.\n",
            path ? "there is no worker program " : "WB_WORKER names no worker program", path ? path : "");
    _exit(RECORD_GAVE_UP);
}

// A suite gives up after a few cases without an answer, instead of waiting for each, and when its cases have used up WB_PROBLEM_SECONDS
// together: then no more are run. Where one got nothing of the machine, nothing is known, and nothing more is asked. All of that
// is noted in the file WB_SPENT.
enum { PATIENCE = 3 };

static void judge_nothing(const char *why)
{
    spent_note(getenv("WB_SPENT"), 0, "starved");
    fprintf(stderr, "harness: could not be judged: %s\n", why);
    _exit(RECORD_STARVED);
}

// Why the next case is not run, or null.
static const char *gave_up(void)
{
    static char why[128];
    const spent_notes notes = spent_read(getenv("WB_SPENT"));
    const double most = atof(getenv("WB_PROBLEM_SECONDS") ? getenv("WB_PROBLEM_SECONDS") : "0");
    if (notes.starved) _exit(RECORD_STARVED);
    if (notes.late >= PATIENCE)
        snprintf(why, sizeof why, "not run: %d cases before this one gave no answer", PATIENCE);
    else if (most > 0 && notes.seconds > most)
        snprintf(why, sizeof why, "not run: the cases before this one used up the %g s of this problem", most);
    else
        return NULL;
    return why;
}

// This program does not map it: it writes all of it, and reads all of it when the worker is done.
static void write_all(int file, const char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = pwrite(file, data + at, bytes - at, (off_t)at);
        if (n <= 0) give_up("room for the tensors");
        at += (size_t)n;
    }
}

static void read_all(int file, char *data, size_t bytes)
{
    ssize_t n = 1;
    for (size_t at = 0; at < bytes && n > 0; at += (size_t)n) n = pread(file, data + at, bytes - at, (off_t)at);
    if (n < 0) give_up("reading the tensors");
}

// O and L of a backward come from the oracle; for a shape that will be refused they stay what they are.
static void fill_forward_inputs(const worker_run *run)
{
    void *const some = (void *)256;
    const int O = wb_tensor_named(run->tensors, run->count, "O"), L = wb_tensor_named(run->tensors, run->count, "L");
    if (wb_check_backward(run->problem->name, some, some, some, some, some, some, some, some, some, some,
                          &run->c.shape) == WB_OK)
        expect_forward_inputs(run, (uint16_t *)original_tensor(run, O), (float *)original_tensor(run, L));
}

// The workers under way, and the cases that each has served.
static struct {
    session process;
    double noted;  // what it had cost, as it stands in WB_SPENT
    const wb_problem *problem;
    wb_case served[WORKER_REMEMBERED];  // the last ones; case n at n modulo their number
} workers[WORKER_KINDS];

static session *process_of(worker_kind kind) { return &workers[kind].process; }

// Notes what this worker has cost since the last note, and how its case ended.
static void note(worker_kind kind, session_outcome how, const char *ending)
{
    spent_note(getenv("WB_SPENT"), process_of(kind)->own.seconds - workers[kind].noted,
               how == SESSION_LATE ? "late" : "in_time");
    workers[kind].noted = process_of(kind)->own.seconds;
    if (how == SESSION_STARVED) judge_nothing(ending);
}

static void remember(worker_run *run, worker_kind kind)
{
    run->served = process_of(kind)->served;
    const int known = run->served < WORKER_REMEMBERED ? run->served : WORKER_REMEMBERED;
    for (int k = 0; k < known; k++)
        run->before[k] = workers[kind].served[(run->served - known + k) % WORKER_REMEMBERED];
    workers[kind].served[run->served % WORKER_REMEMBERED] = run->c;
    workers[kind].problem = run->problem;
}

// Tells the worker that there are no more cases. It should then end, with 0; otherwise says what happened in `run`.
static bool ended_well(worker_run *run, worker_kind kind)
{
    session *const s = process_of(kind);
    int status = 0;
    const session_outcome how = session_end(s, false, &run->said, &status);
    run->peak = s->peak;
    if (how != SESSION_IN_TIME || status != 0)
        session_ending(s, run->ending, sizeof run->ending, WB_STAGE_DONE, status, how);
    note(kind, how, run->ending);
    return !run->ending[0];
}

void worker_retire(worker_kind kind)
{
    session_said said = {.count = 0};
    int status;
    if (!process_of(kind)->pid) return;
    session_end(process_of(kind), true, &said, &status);
    note(kind, SESSION_IN_TIME, "");
}

bool worker_finish(worker_kind kind, worker_run *last)
{
    const session *s = process_of(kind);
    memset(last, 0, sizeof *last);
    if (!s->pid) return true;
    last->problem = workers[kind].problem;
    last->c = workers[kind].served[(s->served + WORKER_REMEMBERED - 1) % WORKER_REMEMBERED];
    return ended_well(last, kind);
}

// Has the worker run the case, and reads what it left in the file. Says in `run` what went wrong, if anything did.
static void serve(worker_run *run, worker_kind kind, int file)
{
    session *s = process_of(kind);
    if (!s->pid) {
        if (!session_start(s, worker_path())) give_up("starting a worker");
        workers[kind].noted = 0;
    }
    remember(run, kind);
    session_outcome how;
    const bool answered = !*session_serve(s, run->problem, &run->c, file, &run->said, run->ending, &how);
    note(kind, how, run->ending);
    read_all(file, run->shared, run->bytes);
    if (answered && kind == WORKER_ALONE) ended_well(run, kind);
}

void worker_start(worker_run *run, const wb_problem *problem, const wb_case *c, worker_kind kind)
{
    memset(run, 0, sizeof *run);
    run->problem = problem;
    run->c = *c;
    run->count = wb_case_tensors(problem, c, run->tensors);
    const size_t guard = getenv("WB_EXACT") ? 0 : WB_GUARD;
    run->bytes = wb_exchange_layout(run->tensors, run->count, c->offset, guard, run->zones);
    run->shared = malloc(run->bytes);
    run->original = malloc(run->bytes);
    if (!run->shared || !run->original) give_up("memory for the tensors");
    memset(run->original, WB_NAN_BYTE, run->bytes);
    memset(run->original, 0, sizeof(wb_exchange));
    for (int k = 0; k < run->count; k++)
        if (run->tensors[k].output)
            memset(original_tensor(run, k), WB_NAN_BYTE - c->prior, run->tensors[k].bytes);
        else
            wb_case_fill(problem, c, &run->tensors[k], original_tensor(run, k));
    if (problem->signature == WB_BACKWARD) fill_forward_inputs(run);
    memcpy(run->shared, run->original, run->bytes);
    const char *const why = gave_up();
    if (why) {
        snprintf(run->ending, sizeof run->ending, "%s", why);
        return;
    }
    const int file = session_memory(run->bytes);
    if (file < 0) give_up("memory to share");
    write_all(file, run->original, run->bytes);
    serve(run, kind, file);
    close(file);
}

void worker_end(worker_run *run)
{
    free(run->shared);
    free(run->original);
}
