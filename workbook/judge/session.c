#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

double session_timeout(void)
{
    const char *text = getenv("WB_TIMEOUT");
    const double seconds = text ? atof(text) : 0;
    return seconds > 0 ? seconds : 20;
}

int session_memory(size_t bytes)
{
#ifdef __linux__
    const int file = memfd_create("workbook", MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, (off_t)bytes) ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return -1;
#else
    char name[] = "/tmp/workbook-XXXXXX";
    const int file = mkstemp(name);
    if (file < 0) return -1;
    unlink(name);
    if (ftruncate(file, (off_t)bytes)) return -1;
#endif
    return file;
}

static void become_worker(const char *path, int socket, int output)
{
    setpgid(0, 0);  // so that what it starts can be ended with it
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // an endless loop would outlive a test that was interrupted
#endif
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(output, 1);
    dup2(output, 2);
    dup2(socket, 3);
    for (int i = 4; i < 256; i++) close(i);
    // CUDA makes eight queues for a process, a third of the time that it takes to start; what is not timed needs one.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
    setenv("CUDACPU_TIMEOUT", "0", 0);  // the layer's clock does not know whether the machine is busy
    if (getenv("WB_EXACT")) execl(path, path, "--guard", "0", "--exchange", "3", (char *)NULL);
    execl(path, path, "--exchange", "3", (char *)NULL);
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

bool session_start(session *s, const char *path)
{
    int sockets[2], pipes[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || pipe(pipes)) return false;
    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) become_worker(path, sockets[1], pipes[1]);
    setpgid(pid, pid);  // whoever is first
    close(sockets[1]);
    close(pipes[1]);
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    *s = (session){.pid = pid, .socket = sockets[0], .output = pipes[0]};
    return true;
}

// A case begins: what went on between two cases is looked at, and what slept then was not asked to do anything.
static void begin(session *s)
{
    spent_look(&s->own, s->pid, false);
    s->before = s->own.seconds;
    s->since = s->own.looked;
    s->most = s->before + session_timeout();
}

// Looks now and then: most cases have ended before.
static session_outcome goes_on(session *s)
{
    enum { LOOKS = 20 };  // a second
    if (spent_now() < s->own.looked + 1.0 / LOOKS) return SESSION_IN_TIME;
    spent_look(&s->own, s->pid, true);
    return s->own.seconds >= s->most                                   ? SESSION_LATE
           : s->own.looked - s->since > SPENT_WALL * session_timeout() ? SESSION_STARVED
                                                                       : SESSION_IN_TIME;
}

// Takes what has been printed, but no more than a few pipes full at a time: something may print without end.
static void take_output(session *s, session_said *said)
{
    char chunk[4096];
    for (int turn = 0; turn < 64 && s->output >= 0; turn++) {
        const ssize_t n = read(s->output, chunk, sizeof chunk);
        if (n < 0) return;
        if (n == 0) close(s->output), s->output = -1;
        for (ssize_t i = 0; i < n; i++, said->count++)
            if (said->count + 1 < sizeof said->text) said->text[said->count] = chunk[i];
    }
}

// Whether the process has ended. It is left to be waited for, so that its number stays its own until its group is killed.
static bool has_ended(const session *s)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == s->pid;
}

// Waits for an answer, for something printed, or for as long as this.
static void wait_for(session *s, bool answer, double seconds)
{
    struct pollfd ready[2] = {{s->output, POLLIN, 0}, {answer ? s->socket : -1, POLLIN, 0}};
    poll(ready, 2, seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
}

// Gives it the case and waits for its answer: WB_NO_ANSWER if none came in time, WB_ANSWER_NEVER if it ended instead.
static wb_answer ask(session *s, const wb_problem *problem, const wb_case *c, int file, session_said *said,
                     session_outcome *how)
{
    char text[WB_CASE_TEXT] = "";
    wb_case_print(problem, c, text);
    *how = SESSION_IN_TIME;
    wb_answer answer = wb_exchange_answered(s->socket, -1);
    if (answer != WB_NO_ANSWER) return answer == WB_ANSWER_NEVER ? answer : WB_ANSWER_DAMAGED;
    if (!wb_exchange_send(s->socket, text, file)) return WB_ANSWER_NEVER;
    for (;;) {
        take_output(s, said);
        *how = goes_on(s);
        const bool ended = has_ended(s);  // a child of its own may keep the socket open
        answer = wb_exchange_answered(s->socket, s->served);
        if (answer == WB_ANSWERED) s->served++;
        if (answer != WB_NO_ANSWER) break;
        if (*how != SESSION_IN_TIME) return WB_NO_ANSWER;
        if (ended) return WB_ANSWER_NEVER;
        wait_for(s, true, 0.02);
    }
    *how = SESSION_IN_TIME;
    take_output(s, said);
    return answer;
}

session_outcome session_end(session *s, bool at_once, session_said *said, int *status)
{
    session_outcome how = SESSION_IN_TIME;
    close(s->socket);
    if (!at_once) begin(s);
    while (!at_once && !has_ended(s) && (how = goes_on(s)) == SESSION_IN_TIME) {
        take_output(s, said);
        if (s->output >= 0)
            wait_for(s, false, 0.005);
        else
            usleep(500);
    }
    spent_look(&s->own, s->pid, false);
    kill(-s->pid, SIGKILL);
    kill(s->pid, SIGKILL);
    struct rusage usage = {.ru_maxrss = 0};
    while (wait4(s->pid, status, 0, &usage) < 0 && errno == EINTR) {}
#ifdef __APPLE__
    s->peak = (size_t)usage.ru_maxrss;
#else
    s->peak = (size_t)usage.ru_maxrss * 1024;
#endif
    take_output(s, said);
    if (s->output >= 0) close(s->output);
    s->pid = 0;
    return how;
}

const char *session_ending(const session *s, char *text, size_t size, wb_stage stage, int status, session_outcome how)
{
    static const char *const doing[] = {"before it called the function", "in the function", "while its kernels ran",
                                        "after it had finished"};
    const char *when = doing[stage < WB_STAGE_DONE ? stage : WB_STAGE_DONE];
    // A sandbox between a test and its worker says by 128 + n that the worker died of signal n.
    const int told = WIFEXITED(status) && WEXITSTATUS(status) > 128 ? WEXITSTATUS(status) - 128 : 0;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : told < NSIG && stage != WB_STAGE_DONE ? told : 0;
    if (how == SESSION_STARVED)
        snprintf(text, size, "no answer in %.0f s, in which it had %.1f s of the machine, %s: the machine is too busy",
                 s->own.looked - s->since, s->own.seconds - s->before, when);
    else if (how == SESSION_LATE)
        snprintf(text, size, "no answer in %g s, %s: an endless loop, or threads that wait for each other",
                 session_timeout(), when);
    else if (signal)
        snprintf(text, size, "the worker died of signal %d (%s) %s", signal, strsignal(signal), when);
    else if (WEXITSTATUS(status) == WB_REPORT_STATUS)
        snprintf(text, size, "the worker stopped %s, with a report", when);
    else if (stage < WB_STAGE_DONE)
        snprintf(text, size, "the worker exited with %d before it finished, %s", WEXITSTATUS(status), when);
    else
        snprintf(text, size, "the worker exited with %d %s", WEXITSTATUS(status), when);
    return text;
}

const char *session_serve(session *s, const wb_problem *problem, const wb_case *c, int file, session_said *said,
                          char ending[256], session_outcome *how)
{
    begin(s);
    const wb_answer answer = ask(s, problem, c, file, said, how);
    ending[0] = 0;
    if (answer == WB_ANSWERED) return ending;
    int status = 0;
    wb_stage stage = WB_STAGE_STARTING;
    const session_outcome end = session_end(s, answer != WB_ANSWER_NEVER, said, &status);
    if (answer == WB_ANSWER_NEVER) *how = end;
    if (pread(file, &stage, sizeof stage, offsetof(wb_exchange, stage)) != sizeof stage) stage = WB_STAGE_STARTING;
    if (answer != WB_ANSWER_DAMAGED) return session_ending(s, ending, 256, stage, status, *how);
    *how = SESSION_IN_TIME;
    return strcpy(ending, "something answered in the place of the worker");
}
