#include "run_suite.h"

#include "judge/spent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// What a run needs for itself, in a folder that does not outlive it: the record if nobody wants it, what the program
// says on stderr, the file in which cases note what they cost, and the socket at which it listens to its tests; the
// folder's name ends that of the memory that it shares with them (judge/criterion.c).
static char scratch[4096], record_path[4200], errors_path[4200], spent_path[4200];
static volatile pid_t running;

static void clean(void)
{
    char socket[4200];
    snprintf(socket, sizeof socket, "%s/criterion_%lld.sock", scratch, (long long)running);
    unlink(socket);
    unlink(record_path);
    unlink(errors_path);
    unlink(spent_path);
    rmdir(scratch);
}

static void on_signal(int signal)
{
    if (running > 0) kill(running, signal);
    clean();
    _exit(2);
}

static void make_scratch(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/suite-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(scratch)) {
        fprintf(stderr, "suite: %s: %s\n", scratch, strerror(errno));
        exit(2);
    }
    snprintf(record_path, sizeof record_path, "%s/record", scratch);
    snprintf(errors_path, sizeof errors_path, "%s/errors", scratch);
    snprintf(spent_path, sizeof spent_path, "%s/spent", scratch);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) signal(signals[i], on_signal);
}

static void become_program(const suite_run *run, const char *record, int output)
{
    char jobs[32];
    char *arguments[64] = {(char *)run->program, "--verbose=4", "--short-filename", jobs};  // of Criterion no word
    int count = 4;
    const char *wanted = getenv("WB_JOBS");
    if (wanted && *wanted)
        snprintf(jobs, sizeof jobs, "-j%d", atoi(wanted));
    else
        snprintf(jobs, sizeof jobs, "-j%ld", sysconf(_SC_NPROCESSORS_ONLN));
    if (run->first) strcpy(jobs, "-j1"), arguments[count++] = "--fail-fast";
    for (char **o = run->options; o && *o && count < 63; o++) arguments[count++] = *o;
    setenv("WB_WORKER", run->worker, 1);
    setenv("WB_BACKEND", run->backend, 1);
    setenv("WB_SPENT", spent_path, 1);
    setenv("WB_SOCKETS", scratch, 1);
    // Several tests run at once: what the oracle's threads spend waiting would be missing elsewhere.
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("WB_RESULTS", record, 1);
    if (run->given) setenv("WB_CASE", run->given, 1);
    dup2(output, 1);
    dup2(open(errors_path, O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
    close(output);
    execv(run->program, arguments);
    fprintf(stderr, "harness: %s: %s\n", run->program, strerror(errno));
    _exit(2);
}

// Many tests may say the same.
static void print_errors(int status)
{
    FILE *errors = fopen(errors_path, "r");
    char line[1024], last[1024] = "";
    for (int lines = 0; errors && lines < 20 && fgets(line, sizeof line, errors);) {
        if (strcmp(line, last) == 0) continue;
        printf("  %s", strcpy(last, line));
        lines++;
    }
    if (errors) fclose(errors);
    if (WIFSIGNALED(status))
        printf("  the test program died of signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

bool run_suite(const suite_run *run, results *r)
{
    make_scratch();
    const char *record = run->record && *run->record ? run->record : record_path;
    int ends[2], status = 0;
    unlink(record);
    fflush(stdout);
    if (pipe(ends) || (running = fork()) < 0) {
        fprintf(stderr, "suite: %s\n", strerror(errno));
        clean();
        exit(2);
    }
    if (running == 0) {
        close(ends[0]);
        become_program(run, record, ends[1]);
    }
    close(ends[1]);

    // The pipe is the program's output, which nobody reads: it ends when the program does.
    off_t known = 0;
    for (bool ended = false; !ended;) {
        struct pollfd output = {ends[0], POLLIN, 0};
        char chunk[4096];
        if (poll(&output, 1, 100) > 0 && read(ends[0], chunk, sizeof chunk) > 0) continue;
        ended = waitpid(running, &status, output.revents & POLLHUP ? 0 : WNOHANG) != 0;
        struct stat now;
        if (!run->seen || stat(record, &now) || now.st_size == known) continue;
        known = now.st_size;
        if (results_read(record, r)) run->seen(r, run->context);
        results_free(r);
    }
    close(ends[0]);
    spent_note(getenv("WB_SPENT"), spent_read(spent_path).seconds, "suite");
    const bool whole = results_read(record, r) && r->ended && !WIFSIGNALED(status);
    bool passed = whole;
    for (int i = 0; i < r->count; i++) passed &= r->rows[i].status != RESULT_FAIL;
    if (!passed) print_errors(status);
    clean();
    running = 0;
    return whole;
}
