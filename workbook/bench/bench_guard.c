// bench_guard.c - keeps an implementation that crashes, hangs or ends the program from ending the bench. The program
// that was called only watches; it starts itself again to do the work. When that dies, whoever was running is left out,
// and another goes on from the same shape. What must outlive such an end lies in a file that both have mapped.
#include "bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { LIMIT_S = 60 };       // of one call, unless WB_TIMEOUT says otherwise
enum { LAYER_STATUS = 66 };  // with which workbook/cpu ends a program after a report

static const char VARIABLE[] = "WB_BENCH_STATE";
static bench_state *state;

static bench_state *map(int file)
{
    void *p = mmap(NULL, sizeof(bench_state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p != MAP_FAILED) return p;
    fprintf(stderr, "bench: no memory to share\n");
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
    const char *limit = getenv("WB_TIMEOUT");
    snprintf(state->last, BENCH_LABEL, "%s", label);
    state->running = true;
    alarm(limit && atoi(limit) > 0 ? (unsigned)atoi(limit) : LIMIT_S);  // ends the program; the guard says why
}

void bench_guard_leave(void)
{
    alarm(0);
    state->running = false;
}

void bench_guard_restart(void)
{
    leave_out();
    state->said = true;
    exit(3);
}

// -------------------------------------------------------------------------------------------------------- the watching

static int work(char **argv)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        execv("/proc/self/exe", argv);
        execvp(argv[0], argv);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        fprintf(stderr, "bench: no process can be started\n");
        exit(1);
    }
    return status;
}

static void what_happened(int status, char *text, size_t size)
{
    const char *limit = getenv("WB_TIMEOUT");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(text, size, "it gave no answer in %d s (an endless loop, or threads that wait for each other)",
                 limit && atoi(limit) > 0 ? atoi(limit) : LIMIT_S);
    else if (WIFSIGNALED(status))
        snprintf(text, size, "it crashed: signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == LAYER_STATUS)
        snprintf(text, size, "the execution layer stopped it, with the report above");
    else
        snprintf(text, size, "it ended the program, with status %d", WEXITSTATUS(status));
}

// A file that has no name and stays open across exec.
static int nameless(void)
{
#ifdef __linux__
    return memfd_create("bench", 0);
#else
    FILE *file = tmpfile();
    return file ? fileno(file) : -1;
#endif
}

int bench_guard(char **argv)
{
    char number[16], what[160];
    const int file = nameless();
    if (file < 0 || ftruncate(file, sizeof(bench_state)) != 0) {
        fprintf(stderr, "bench: no temporary file can be made\n");
        return 1;
    }
    state = map(file);
    state->well = true;
    snprintf(number, sizeof number, "%d", file);
    setenv(VARIABLE, number, 1);
    for (int start = 0; start <= BENCH_MAX_IMPLS; start++) {
        const int before = state->out_count;
        state->said = state->running = false;
        const int status = work(argv);
        if (state->done) return WEXITSTATUS(status);
        state->starts++;
        *state->why = 0;
        if (!state->said) {
            // Between calls it is the machinery that died; an implementation may have spoiled its memory.
            if (!*state->last || (!state->running && WIFEXITED(status)))
                return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            what_happened(status, what, sizeof what);
            snprintf(state->why, sizeof state->why, "%s is left out from here on: at %s, %s%s", state->last,
                     state->where, state->running ? "" : "after it had run: ", what);
            leave_out();
        }
        if (state->out_count == before) return 1;
    }
    return 1;
}
