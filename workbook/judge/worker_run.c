#include "worker_run.h"

#include "record.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
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

// A suite gives up after a few cases without an answer, and when its cases have used up WB_PROBLEM_SECONDS together; or
// when one got nothing of the machine. Its tests, which are forks of it, count together; null: nobody counts.
enum { PATIENCE = 3 };
static struct {
    atomic_long microseconds;
    atomic_int late;      // who used up the time
    atomic_bool starved;  // somebody got nothing of the machine
} * spent;

static void note_spent(void) { spent_note(1e-6 * (double)spent->microseconds); }

void worker_count_together(void)
{
    spent = mmap(NULL, sizeof *spent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (spent == MAP_FAILED || atexit(note_spent)) give_up("memory to share");
}

// Why the next case is not run, or null.
static const char *gave_up(void)
{
    static char why[128];
    const double most = atof(getenv("WB_PROBLEM_SECONDS") ? getenv("WB_PROBLEM_SECONDS") : "0");
    if (!spent) return NULL;
    if (spent->starved) _exit(RECORD_STARVED);
    if (spent->late >= PATIENCE)
        snprintf(why, sizeof why, "not run: %d earlier cases gave no answer", PATIENCE);
    else if (most > 0 && 1e-6 * (double)spent->microseconds > most)
        snprintf(why, sizeof why, "not run: earlier cases used up the %g s of this problem", most);
    else
        return NULL;
    return why;
}

// This program does not map the file: it writes the tensors, and reads them and the rest when the worker is done.
static void write_tensors(int file, const worker_run *run)
{
    for (int k = 0; k < run->count && run->zones[k].start < run->given; k++)
        for (size_t at = 0; at < run->tensors[k].bytes;) {
            const size_t from = run->zones[k].start + run->zones[k].data + at;
            const ssize_t n = pwrite(file, run->original + from, run->tensors[k].bytes - at, (off_t)from);
            if (n <= 0) give_up("room for the tensors");
            at += (size_t)n;
        }
}

static void read_part(int file, char *shared, size_t at, size_t end)
{
    while (at < end) {
        const ssize_t n = pread(file, shared + at, end - at, (off_t)at);
        if (n < 0) give_up("reading the tensors");
        if (n == 0) memset(shared + at, WB_NAN_BYTE, end - at);  // cut off, where no seal forbids that
        at += n ? (size_t)n : end - at;
    }
}

// Of the room for a record, which was zeros and takes no memory as long as nobody writes there, what has been written.
static void read_all(int file, const worker_run *run)
{
    read_part(file, run->shared, 0, sizeof(wb_exchange));
    for (int k = 0; k < run->count && run->zones[k].start < run->given; k++) {
        const size_t begin = run->zones[k].start + run->zones[k].data;
        read_part(file, run->shared, begin, begin + run->tensors[k].bytes);
    }
    off_t at = (off_t)run->given, end = 0;
    while ((size_t)at < run->bytes && (at = lseek(file, at, SEEK_DATA)) >= 0 && (end = lseek(file, at, SEEK_HOLE)) >= 0)
        read_part(file, run->shared, (size_t)at, (size_t)end < run->bytes ? (size_t)end : run->bytes), at = end;
}

// The workers under way, and the cases that the first of each kind has served, who is in all of them.
static struct {
    session of_rank[WB_MOST_RANKS];
    double noted[WB_MOST_RANKS];  // what each had cost, as it was counted
    const wb_problem *problem;
    wb_case served[WORKER_REMEMBERED];  // the last ones; case n at n modulo their number
} workers[WORKER_KINDS];

// Counts what these workers have cost since the last time, and how what they did ended.
static void count_spent(worker_kind kind, session_outcome how, const char *ending)
{
    double seconds = 0;
    for (int r = 0; r < WB_MOST_RANKS; r++) {
        seconds += workers[kind].of_rank[r].own.seconds - workers[kind].noted[r];
        workers[kind].noted[r] = workers[kind].of_rank[r].own.seconds;
    }
    if (spent) spent->microseconds += (long)(1e6 * seconds);
    if (spent && how == SESSION_LATE) spent->late++;
    if (how != SESSION_STARVED) return;
    if (spent) spent->starved = true;
    fprintf(stderr, "harness: could not be judged: %s\n", ending);
    _exit(RECORD_STARVED);
}

static void remember(worker_run *run, worker_kind kind)
{
    run->served = workers[kind].of_rank[0].served;
    const int known = run->served < WORKER_REMEMBERED ? run->served : WORKER_REMEMBERED;
    for (int k = 0; k < known; k++)
        run->before[k] = workers[kind].served[(run->served - known + k) % WORKER_REMEMBERED];
    workers[kind].served[run->served % WORKER_REMEMBERED] = run->c;
    workers[kind].problem = run->problem;
}

// Tells a worker that there are no more cases. It should then end, with 0; otherwise says what happened in `run`.
static bool ended_well(worker_run *run, worker_kind kind, int rank)
{
    session *const s = &workers[kind].of_rank[rank];
    int status = 0;
    const session_outcome how = session_end(s, false, &run->said, &status);
    run->peak = s->peak;
    if (how != SESSION_IN_TIME || status != 0)
        session_ending(s, run->ending, sizeof run->ending, WB_STAGE_DONE, status, how);
    count_spent(kind, how, run->ending);
    return !run->ending[0];
}

void worker_retire(void)
{
    session *const s = workers[WORKER_SHARED].of_rank;
    session_said said = {.count = 0};
    int status, ended = 0;
    for (int r = 0; r < WB_MOST_RANKS; r++)
        if (s[r].pid) session_end(&s[r], true, &said, &status), ended++;
    if (ended) count_spent(WORKER_SHARED, SESSION_IN_TIME, "");
}

bool worker_finish(worker_run *last)
{
    const session *s = workers[WORKER_SHARED].of_rank;
    memset(last, 0, sizeof *last);
    for (int r = 0; r < WB_MOST_RANKS; r++) {
        if (!s[r].pid) continue;
        last->problem = workers[WORKER_SHARED].problem;
        last->c = workers[WORKER_SHARED].served[(s->served + WORKER_REMEMBERED - 1) % WORKER_REMEMBERED];
        if (!ended_well(last, WORKER_SHARED, r)) return false;
    }
    return true;
}

// Of all ranks, as if it were one: what the first with whom something went wrong says, and the most that any needed.
static void join(worker_run *run)
{
    wb_exchange *x = worker_exchange(run);
    bool wrong = run->ending[0];
    for (int r = 0; r < worker_count(run); r++) {
        const worker_run *part = &run->parts[r];
        const wb_exchange *y = worker_exchange(part);
        if (!wrong && (part->ending[0] || y->status != WB_OK || y->device_status != WB_OK)) {
            wrong = true, run->whose = r;
            memcpy(run->ending, part->ending, sizeof run->ending);
        }
        for (int k = 0; k < run->count; k++)
            if (run->tensors[k].output)
                wb_shard_copy(&run->c, &run->tensors[k], worker_tensor(run, k), r, worker_tensor(part, k), true);
    }
    *x = *worker_exchange(&run->parts[run->whose]);
    run->said = run->parts[run->whose].said;
    for (int r = 0; r < worker_count(run); r++) {
        const wb_exchange *y = worker_exchange(&run->parts[r]);
        x->asked.waited |= y->asked.waited, x->asked.astray |= y->asked.astray;
        if (y->device_bytes > x->device_bytes) x->device_bytes = y->device_bytes;
        if (y->device_kept > x->device_kept) x->device_kept = y->device_kept;
        if (y->host_bytes > x->host_bytes) x->host_bytes = y->host_bytes;
        if (y->workspace_bytes > x->workspace_bytes) x->workspace_bytes = y->workspace_bytes;
        if (run->said.count == 0) run->said = run->parts[r].said;
    }
}

// Has the workers run the case, and reads what they left in their files.
static void serve(worker_run *run, worker_kind kind, const int files[], int board)
{
    session_turn turns[WB_MOST_RANKS] = {{0}};
    const int count = worker_count(run);
    for (int r = 0; r < count; r++) {
        session *s = &workers[kind].of_rank[r];
        worker_run *part = worker_part(run, r);
        if (!s->pid) {
            if (!session_start(s, worker_path())) give_up("starting a worker");
            workers[kind].noted[r] = 0;
        }
        turns[r] = (session_turn){s, &part->c, files[r], &part->said};
    }
    remember(run, kind);
    session_outcome how;
    int whose;
    char ending[256];
    const bool answered = !*session_serve(turns, count, run->problem, board, ending, &how, &whose);
    count_spent(kind, how, ending);
    for (int r = 0; r < count; r++) read_all(files[r], worker_part(run, r));
    if (!answered) {
        run->whose = run->parts ? whose : 0;
        snprintf(run->ending, sizeof run->ending, "%s", ending);
    }
    for (int r = 0; answered && kind == WORKER_ALONE && r < count; r++) ended_well(worker_part(run, r), kind, r);
    if (run->parts) join(run);
}

// Memory for the tensors, kept for the next case since new pages cost more than to fill them; and its first contents.
void worker_lay_out(worker_run *run)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20), mallopt(M_TRIM_THRESHOLD, 256 << 20);
    const size_t guard = session_exact ? 0 : WB_GUARD;
    run->count = wb_case_tensors(run->problem, &run->c, run->tensors);
    run->bytes = wb_exchange_layout(run->tensors, run->count, &run->c, guard, run->zones);
    const bool none_runs = run->c.dry;  // what is in its tensors means nothing, and takes no memory
    run->given = none_runs ? run->zones[0].start : run->c.products ? run->zones[run->count - 1].start : run->bytes;
    run->shared = run->given < run->bytes ? calloc(run->bytes, 1) : malloc(run->bytes);
    run->original = run->given < run->bytes ? calloc(run->bytes, 1) : malloc(run->bytes);
    if (!run->shared || !run->original) give_up("memory for the tensors");
    memset(run->shared, 0, sizeof(wb_exchange));
    for (int k = 0; k < run->count && run->zones[k].start < run->given; k++) {
        const wb_tensor *t = &run->tensors[k];
        memset(original_tensor(run, k), WB_NAN_BYTE - (t->output ? run->c.prior : 0), t->bytes);
        if (!t->output && !run->c.part) wb_case_fill(run->problem, &run->c, t, original_tensor(run, k));
    }
}

// What each rank is given of it.
static void cut(worker_run *run)
{
    run->parts = calloc((size_t)run->c.ranks, sizeof *run->parts);
    if (!run->parts) give_up("memory for ranks");
    for (int k = 0; k < run->count && run->zones[k].start < run->given; k++)
        memcpy(worker_tensor(run, k), original_tensor(run, k), run->tensors[k].bytes);
    for (int r = 0; r < run->c.ranks; r++) {
        worker_run *part = &run->parts[r];
        part->problem = run->problem, part->c = run->c, part->c.part = r + 1;
        worker_lay_out(part);
        for (int k = 0; k < run->count; k++)
            if (!run->tensors[k].output)
                wb_shard_copy(&run->c, &run->tensors[k], original_tensor(run, k), r, original_tensor(part, k), false);
    }
}

void worker_start(worker_run *run, worker_kind kind)
{
    if (wb_has_ranks(run->problem)) cut(run);
    const char *const why = gave_up();
    if (why) {
        snprintf(run->ending, sizeof run->ending, "%s", why), strcpy(run->said.finding, "not run");
        return;
    }
    int files[WB_MOST_RANKS], board = -1;
    for (int r = 0; r < worker_count(run); r++) {
        files[r] = session_memory(worker_part(run, r)->bytes);
        if (files[r] < 0) give_up("memory to share");
        write_tensors(files[r], worker_part(run, r));
    }
    if (run->parts && (board = session_memory(wb_board_room(run->problem, &run->c, run->tensors))) < 0)
        give_up("memory to share");
    serve(run, kind, files, board);
    for (int r = 0; r < worker_count(run); r++) close(files[r]);
    if (board >= 0) close(board);
}

void worker_end(worker_run *run)
{
    for (int r = 0; run->parts && r < worker_count(run); r++) worker_end(&run->parts[r]);
    free(run->parts);
    free(run->shared);
    free(run->original);
}
