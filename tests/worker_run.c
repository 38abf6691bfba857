#include "worker_run.h"

#include "expect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The harness itself cannot work: no verdict about the student's code is possible, so the whole test program ends.
static void give_up(const char *what)
{
    fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
    _exit(99);
}

const char *worker_path(void)
{
    const char *path = getenv("WB_WORKER");
    if (path && access(path, X_OK) == 0) return path;
    fprintf(stderr, "harness: %s%s. Run the tests with make, for example make test-03.\n",
            path ? "there is no worker program " : "WB_WORKER names no worker program", path ? path : "");
    _exit(99);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double timeout_seconds(void)
{
    const char *text = getenv("WB_TIMEOUT");
    const double seconds = text ? atof(text) : 0;
    return seconds > 0 ? seconds : 20;
}

// A suite gives up after a few cases without an answer, instead of waiting for each. WB_HUNG is a file that grows by a byte at
// each; tests run in processes of their own and share it.
enum { PATIENCE = 3 };

static bool gave_up(void)
{
    const char *path = getenv("WB_HUNG");
    struct stat file;
    return path && stat(path, &file) == 0 && file.st_size >= PATIENCE;
}

static void count_hung(void)
{
    const char *path = getenv("WB_HUNG");
    const int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (file < 0) return;
    if (write(file, "x", 1) != 1) give_up("a temporary file");
    close(file);
}

// An anonymous file that the worker can map too. On Linux its size is sealed: a worker that cut it off would end this program.
static int anonymous_file(size_t bytes)
{
#ifdef __linux__
    const int file = memfd_create("workbook", MFD_ALLOW_SEALING);
    if (file < 0) give_up("memory to share");
#else
    char name[] = "/tmp/workbook-XXXXXX";
    const int file = mkstemp(name);
    if (file < 0) give_up("a temporary file");
    unlink(name);
#endif
    if (ftruncate(file, (off_t)bytes)) give_up("room for the tensors");
#ifdef __linux__
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) give_up("memory to share");
#endif
    return file;
}

static void become_worker(const char *path, const char *text, int file, int output)
{
    setpgid(0, 0);  // so that what it starts can be ended with it
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(output, 1);
    dup2(output, 2);
    dup2(file, 3);
    for (int i = 4; i < 256; i++) close(i);
    execl(path, path, "--case", text, "--exchange", "3", (char *)NULL);
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

// Reads what the worker prints until it closes the pipe or time is up.
static void read_output(worker_run *run, int pipe, double deadline)
{
    char chunk[4096];
    for (;;) {
        const double left = deadline - now();
        struct pollfd ready = {pipe, POLLIN, 0};
        if (left <= 0 || poll(&ready, 1, (int)(left * 1000) + 1) <= 0) return;
        const ssize_t n = read(pipe, chunk, sizeof chunk);
        if (n <= 0) return;
        for (ssize_t i = 0; i < n; i++, run->printed++)
            if (run->printed + 1 < sizeof run->output) run->output[run->printed] = chunk[i];
    }
}

static void describe_ending(worker_run *run, int status, bool timed_out)
{
    static const char *const doing[] = {"before it called the function", "in the function", "while its kernels ran",
                                        "after it had finished"};
    const wb_stage stage = worker_exchange(run)->stage;
    const char *when = doing[stage < WB_STAGE_DONE ? stage : WB_STAGE_DONE];
    char *ending = run->ending;
    const size_t size = sizeof run->ending;
    // A sandbox between this test and its worker says by 128 + n that the worker died of signal n.
    const int told = WIFEXITED(status) && WEXITSTATUS(status) > 128 ? WEXITSTATUS(status) - 128 : 0;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : told < NSIG && stage != WB_STAGE_DONE ? told : 0;
    if (timed_out) count_hung();
    if (timed_out)
        snprintf(ending, size, "no answer in %g s, %s: an endless loop, or threads that wait for each other",
                 timeout_seconds(), when);
    else if (signal)
        snprintf(ending, size, "the worker died of signal %d (%s) %s", signal, strsignal(signal), when);
    else if (WEXITSTATUS(status) == WB_REPORT_STATUS)
        snprintf(ending, size, "the worker stopped %s, with a report", when);
    else if (stage != WB_STAGE_DONE || WEXITSTATUS(status) != 0)
        snprintf(ending, size, "the worker exited with %d before it finished, %s", WEXITSTATUS(status), when);
}

// O and L of a backward come from the oracle; for a shape that will be refused they stay what they are.
static void fill_forward_inputs(const worker_run *run)
{
    void *const some = (void *)256;
    if (wb_check_backward(run->problem->name, some, some, some, some, some, some, some, some, some, some,
                          &run->c.shape) == WB_OK)
        expect_forward_inputs(run, (uint16_t *)original_tensor(run, 7), (float *)original_tensor(run, 8));
}

void worker_start(worker_run *run, const wb_problem *problem, const wb_case *c)
{
    memset(run, 0, sizeof *run);
    run->problem = problem;
    run->c = *c;
    run->count = wb_case_tensors(problem, c, run->tensors);
    run->bytes = wb_exchange_layout(run->tensors, run->count, c->offset, run->zones);
    const int file = anonymous_file(run->bytes);
    run->shared = mmap(NULL, run->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    run->original = malloc(run->bytes);
    if (run->shared == MAP_FAILED || !run->original) give_up("memory for the tensors");
    memset(run->original, WB_NAN_BYTE, run->bytes);
    memset(run->original, 0, sizeof(wb_exchange));
    for (int k = 0; k < run->count; k++)
        if (!run->tensors[k].output) wb_case_fill(problem, c, &run->tensors[k], original_tensor(run, k));
    if (problem->signature == WB_BACKWARD) fill_forward_inputs(run);
    memcpy(run->shared, run->original, run->bytes);
    if (gave_up()) {
        snprintf(run->ending, sizeof run->ending, "not run: %d cases before this one gave no answer", PATIENCE);
        close(file);
        return;
    }

    char text[WB_CASE_TEXT];
    wb_case_print(problem, c, text);
    const char *path = worker_path();
    int ends[2];
    if (pipe(ends)) give_up("a pipe");
    const double deadline = now() + timeout_seconds();
    const pid_t worker = fork();
    if (worker < 0) give_up("fork");
    if (worker == 0) become_worker(path, text, file, ends[1]);
    close(file);
    close(ends[1]);

    read_output(run, ends[0], deadline);
    int status = 0;
    bool timed_out = false;
    while (waitpid(worker, &status, WNOHANG) == 0 && !timed_out) {
        usleep(500);
        timed_out = now() > deadline;
    }
    kill(-worker, SIGKILL);
    if (timed_out) waitpid(worker, &status, 0);
    close(ends[0]);
    run->output[run->printed < sizeof run->output ? run->printed : sizeof run->output - 1] = 0;
    describe_ending(run, status, timed_out);
}

void worker_end(worker_run *run)
{
    munmap(run->shared, run->bytes);
    free(run->original);
}
