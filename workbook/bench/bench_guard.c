// bench_guard.c - keeps an implementation that crashes, hangs or ends the program from ending the bench. The program
// that was called only watches; it starts itself again to do the work. When that dies, whoever was running is left out,
// and another goes on from the same shape. What must outlive such an end lies in a file that both have mapped.
#include "bench.h"

#include "judge/spent.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYER_STATUS = 66 };  // with which workbook/cpu ends a program after a report

static const char VARIABLE[] = "WB_BENCH_STATE";
static bench_state *state;

static bench_state *map(int file)
{
    void *p = mmap(NULL, sizeof(bench_state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p != MAP_FAILED) return p;
    fprintf(stderr, "bench: no shared memory\n");
    exit(1);
}

bench_state *bench_guard_state(void)
{
    const char *file = getenv(VARIABLE);
    if (!state && file) state = map(atoi(file));
    return state;
}

bool bench_guard_is_out(const char *label)
{
    for (int k = 0; k < state->out_count; k++)
        if (strcmp(state->out[k], label) == 0) return true;
    return false;
}

// The one that was called last.
static void leave_out(void)
{
    if (state->out_count < BENCH_MAX_IMPLS) memcpy(state->out[state->out_count++], state->last, BENCH_LABEL);
}

void bench_guard_enter(const char *label)
{
    snprintf(state->last, BENCH_LABEL, "%s", label);
    state->calls++;
    state->running = true;
}

void bench_guard_leave(void) { state->running = false; }

void bench_guard_restart(void)
{
    leave_out();
    state->said = true;
    exit(3);
}

// ------------------------ the watching

pid_t bench_start(char **argv, int output)
{
    const pid_t child = fork();
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

// Seconds that one call may take, of the program's own (judge/spent.h).
static int limit(void)
{
    const char *given = getenv("WB_TIMEOUT");
    return given && atoi(given) > 0 ? atoi(given) : 60;
}

// Whether the call that runs has used up its seconds; asked every SPENT_LOOK. However many threads a call has, a second
// of them all together is one. Calls that are short are not looked at, which would cost them time.
static bool late(pid_t child)
{
    static spent_time own;
    static int call;
    static double spent;
    const double seconds = own.seconds, looked = own.looked;
    if (!state->running || state->calls != call) {
        call = state->calls, spent = -1;
        return false;
    }
    spent_look(&own, child, true);
    spent = spent < 0 ? 0 : spent + fmin(own.seconds - seconds, own.looked - looked);
    return spent >= limit();
}

static void tick(int signal) { (void)signal; }

// Does the work in a process of its own. How that ended, and whether it had to be ended.
static int work(char **argv, bool *ended)
{
    const pid_t child = bench_start(argv, STDOUT_FILENO);
    const struct timeval often = {.tv_usec = (suseconds_t)(SPENT_LOOK * 1e6)};
    int status = 0;
    *ended = false;
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = tick}, NULL);  // interrupts waitpid
    setitimer(ITIMER_REAL, &(struct itimerval){often, often}, NULL);
    while (child > 0 && waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) break;
        if (late(child)) *ended = kill(child, SIGKILL) == 0;
    }
    if (child < 0) {
        fprintf(stderr, "bench: no process can be started\n");
        exit(1);
    }
    return status;
}

static void what_happened(int status, bool ended, char *text, size_t size)
{
    if (ended)
        snprintf(text, size, "it gave no answer in %d s (an endless loop or a deadlock)", limit());
    else if (WIFSIGNALED(status))
        snprintf(text, size, "it crashed: signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == LAYER_STATUS)
        snprintf(text, size, "the execution layer stopped it, with the report above");
    else
        snprintf(text, size, "it ended the program with status %d", WEXITSTATUS(status));
}

int bench_guard(char **argv)
{
    char number[16], what[160];
    const int file = memfd_create("bench", 0);  // which stays open across exec
    if (file < 0 || ftruncate(file, sizeof(bench_state)) != 0) {
        perror("bench: shared memory");
        return 1;
    }
    state = map(file);
    state->well = true;
    snprintf(number, sizeof number, "%d", file);
    setenv(VARIABLE, number, 1);
    for (int start = 0; start <= BENCH_MAX_IMPLS; start++) {
        const int before = state->out_count;
        state->said = state->running = false;
        bool ended;
        const int status = work(argv, &ended);
        if (state->done) return WEXITSTATUS(status);
        state->starts++;
        *state->why = 0;
        if (!state->said) {
            // Between calls it is the machinery that died; an implementation may have spoiled its memory.
            if (!*state->last || (!state->running && WIFEXITED(status)))
                return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            what_happened(status, ended, what, sizeof what);
            snprintf(state->why, sizeof state->why, "%s is left out from here on: at %s, %s%s", state->last,
                     state->where, state->running ? "" : "after it had run: ", what);
            leave_out();
        }
        if (state->out_count == before) return 1;
    }
    return 1;
}
