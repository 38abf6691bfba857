// worker.c - a program that holds one implementation of one problem, and calls it. It never judges: the test that
// starts it does, and gives it one case after the other (exchange.h). Run by hand it makes the inputs itself and prints
// what came out:
//
//   build/cpu/problems/03_worker --case B=1,Hq=2,Nq=256,D=64,seed=7    also under gdb, compute-sanitizer, a profiler
//   ... --case A:B              one after the other in one process: does a call leave anything that changes the next?
//   --guard 0 ...               buffers end with their tensors, outputs are left unwritten: for tools that see accesses
//   --count NAME ...            what the layer counts of this in each case (layer_requests.h), on descriptor 3
//   --report N ...              a report, or an error, says to descriptor N what it is of
//   --record FILE --block 0     what block 0 does with signals, copies and products (cpu/record.cpp), in one case
//   ... --cases list            prints a few small cases, ragged at the edges, one a line (random_case.c)
//   ... --cases drawn/7         prints random ones of a seed
//   ... --cases CASE            calls nothing: status 0, or says why: 1 the function has to refuse it, 2 it is no case
//
// Of problems 17 and 18 a worker is a rank. By hand it starts the others, and prints the whole of what they leave;
// --record FILE has what each of them queues.
#include "rank.h"
#include "worker/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--guard 0] --case NAME=VALUE,... [--case ...]   for example B=1,Hq=2,Nq=256,D=64,seed=7\n",
            program);
    return 2;
}

bool lay_out(wb_run *r, const wb_problem *problem, const wb_case *c, bool exact, int file)
{
    *r = (wb_run){.problem = problem, .c = *c, .exact = exact};
    const int count = wb_case_tensors(problem, c, r->tensors);
    r->count = count - (c->products > 0);
    r->shared_bytes = wb_exchange_layout(r->tensors, count, c, exact ? 0 : WB_GUARD, r->zones);
    // Shared by hand, too: a rank is a child of this process.
    const int flags = MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0);
    r->shared = mmap(NULL, r->shared_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (r->shared != MAP_FAILED) return true;
    fprintf(stderr, "no memory of %zu bytes for this case: %s\n", r->shared_bytes, strerror(errno));
    return false;
}

int try_run(wb_run *r, int board_file)
{
    struct stat board = {.st_size = 0};
    if (board_file >= 0) {
        if (fstat(board_file, &board) == 0)
            r->board = mmap(NULL, (size_t)board.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, board_file, 0);
        close(board_file);
        if (!r->board || r->board == MAP_FAILED)
            return fprintf(stderr, "worker: no shared memory: %s\n", strerror(errno)), 3;
    }
    r->board_bytes = (size_t)board.st_size;
    const wb_status status = wb_run_case(r);
    if (r->board) munmap(r->board, r->board_bytes);
    if (status == WB_OK) return 0;
    fprintf(stderr, "worker: %s: %s\n", wb_status_text(status),
            wb_last_message());  // the machinery failed, not the student
    return 3;
}

static const char *counter;  // --count
static int told = -1;        // --report

// What was asked for of it, on descriptor 3, so that nothing that the function prints comes in between.
static void print_count(const wb_asked *a)
{
    enum { COUNTS_FILE = 3 };
    const struct {
        const char *name;
        uint64_t count;
    } all[] = {{"blocks", a->blocks},
               {"multiplied", a->multiplied},
               {"products", a->products},
               {"sent", a->sent},
               {"fetches", a->fetches}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(counter, all[i].name) == 0) dprintf(COUNTS_FILE, "%llu\n", (unsigned long long)all[i].count);
}

// Runs a case: on the memory in this file, or by hand, without one. Returns the exit status that the worker deserves.
static int try_case(const wb_problem *problem, const char *text, int file, int board, bool exact)
{
    wb_case c;
    wb_run run;
    if (wb_case_parse(problem, text, &c) != WB_OK) {
        fprintf(stderr, "%s\n", wb_last_message());
        return 2;
    }
    const bool by_hand = file < 0;
    if (by_hand && wb_has_ranks(problem)) c.part = 0;
    const bool there = lay_out(&run, problem, &c, exact, file);
    if (!by_hand) close(file);
    if (!there) return 2;
    if (by_hand) by_hand_fill(&run);
    const int status = by_hand && wb_has_ranks(problem) ? by_hand_run_ranks(&run) : try_run(&run, board);
    if (status) return status;
    const wb_exchange *x = (wb_exchange *)run.shared;
    if (counter) print_count(&x->asked);
    if (by_hand) by_hand_print(&run, told);
    munmap(run.shared, run.shared_bytes);
    return 0;
}

// Of a worker that counts what runs coverage.c has another.
__attribute__((weak)) void coverage_write(void) {}

// For a test: case after case, until there are no more.
static int serve(const wb_problem *problem, int socket, bool exact)
{
    char text[WB_CASE_TEXT];
    int files[MOST_FILES];
    if (wb_report_to) wb_report_to(FINDING_FILE);
    for (int count, served = 0; (count = wb_exchange_receive(socket, text, files)) > 0; served++) {
        const int status = try_case(problem, text, files[0], count > 1 ? files[1] : -1, exact);
        if (status) return status;
        fflush(NULL);  // what was printed belongs to this case
        coverage_write();
        wb_exchange_answer(socket, served);
    }
    return 0;
}

static void wake(int signal) { (void)signal; }

// Forks a worker, and sees it end, by itself or when the test has had enough of it: the only one who waits for it.
static __attribute__((noreturn)) void keep(const wb_problem *problem, const int files[MOST_FILES], bool exact)
{
    const int life = files[WORKER_FILES];
    sigset_t none, ends;
    sigemptyset(&none), sigemptyset(&ends), sigaddset(&ends, SIGCHLD);
    signal(SIGCHLD, wake), sigprocmask(SIG_SETMASK, &ends, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const pid_t worker = fork();
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_DFL), sigprocmask(SIG_SETMASK, &none, NULL);
        dup2(files[0], 1);
        for (int i = 0; i < WORKER_FILES; i++) dup2(files[i], OUTPUT_FILE + i), close(files[i]);
        close(life);
        exit(serve(problem, SOCKET_FILE, exact));
    }
    if (worker < 0) _exit(3);
    setpgid(worker, worker);  // so that what it starts can be ended with it
    for (int i = 0; i < life; i++) close(i);
    wb_ended ended;
    send(life, &worker, sizeof worker, MSG_NOSIGNAL);
    ppoll(&(struct pollfd){life, POLLIN, 0}, 1, NULL, &none);
    kill(-worker, SIGKILL), kill(worker, SIGKILL);
    wait4(worker, &ended.status, 0, &ended.usage);
    send(life, &ended, sizeof ended, MSG_NOSIGNAL);
    _exit(0);
}

// For all tests of a program: what is in this process is as it was when it began, so it is in all that it forks.
static __attribute__((noreturn)) void serve_tests(const wb_problem *problem, int door)
{
    char text[WB_CASE_TEXT];
    int files[MOST_FILES];
    printf("%d\n", (int)getpid());
    fflush(stdout);
    while (wb_exchange_receive(door, text, files) == MOST_FILES) {
        if (fork() == 0) keep(problem, files, *text);
        for (int i = 0; i < MOST_FILES; i++) close(files[i]);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) {}  // what these have cost is then this one's
    _exit(0);
}

// Whether a case is one that can be asked of the function, without asking it.
static int tell_case(const wb_problem *problem, const char *text)
{
    wb_case c;
    const bool is_one = wb_case_parse(problem, text, &c) == WB_OK;
    if (is_one && wb_case_is_valid(problem, &c)) return 0;
    fprintf(stderr, "%s\n", wb_last_message());
    return is_one ? 1 : 2;
}

// Random cases of this seed, but for what they may ask for around a call.
static void print_drawn(const wb_problem *problem, uint64_t seed)
{
    for (int n = 0; n < 12; n++) {
        wb_case c = wb_random_case(problem, seed, n, 1 << 24);
        char text[WB_CASE_TEXT];
#define WB_CONDITION(name, ...) c.name = 0;
#include "case/conditions.inc"
        wb_case_print(problem, &c, text);
        puts(text);
    }
}

// All else is hidden from the function (build.mk, JUDGED).
__attribute__((visibility("default"))) int main(int argc, char **argv)
{
    const wb_problem *problem = wb_find_problem(wb_under_test.name);
    bool exact = false;
    const char *record = NULL;
    long block = 0;
    if (wb_play_strictly) wb_play_strictly();
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return usage(argv[0]);
        if (strcmp(argv[i], "--exchange") == 0) return serve(problem, atoi(argv[i + 1]), exact);
        if (strcmp(argv[i], "--tests") == 0) serve_tests(problem, atoi(argv[i + 1]));
        if (strcmp(argv[i], "--record") == 0)
            record = argv[i + 1];
        else if (strcmp(argv[i], "--block") == 0)
            block = atol(argv[i + 1]);
        else if (strcmp(argv[i], "--count") == 0)
            counter = argv[i + 1];
        else if (strcmp(argv[i], "--report") == 0) {
            told = atoi(argv[i + 1]);
            if (wb_report_to) wb_report_to(told);
        } else if (strcmp(argv[i], "--guard") == 0)
            exact = atol(argv[i + 1]) == 0;
        else if (strcmp(argv[i], "--cases") == 0) {
            if (strncmp(argv[i + 1], "drawn/", 6) == 0)
                return print_drawn(problem, strtoull(argv[i + 1] + 6, NULL, 10)), 0;
            if (strcmp(argv[i + 1], "list")) return tell_case(problem, argv[i + 1]);
            return wb_small_cases_print(problem), 0;
        } else if (strcmp(argv[i], "--case"))
            return usage(argv[0]);
    }
    int status = 0, cases = 0;
    if (record && !wb_record_begin) {
        fprintf(stderr, "%s: only the CPU execution layer records a block or a rank: use BACKEND=cpu\n", argv[0]);
        return 2;
    }
    if (record && !wb_record_begin(record, wb_has_ranks(problem) ? -1 : block)) return perror(record), 2;
    for (int i = 1; i < argc; i += 2) {
        char *rest = strcmp(argv[i], "--case") == 0 ? argv[i + 1] : NULL, *text;
        while (status == 0 && (text = strsep(&rest, ":"))) cases++, status = try_case(problem, text, -1, -1, exact);
    }
    if (cases == 0)
        status = try_case(problem,
                          problem->signature == WB_ROW_SUM  ? "rows=4,cols=100"
                          : problem->signature == WB_DECODE ? "B=2,Hq=2,Nq=1,Nk=100,D=64"
                          : wb_has_ranks(problem)           ? "B=1,Hq=2,Nq=100,D=64,causal=1,ranks=2"
                                                            : "B=1,Hq=2,Nq=100,D=64",
                          -1, -1, exact);
    return record && !wb_record_end() ? 2 : status;
}
