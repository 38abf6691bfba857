#include "session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool session_exact;

double session_timeout(void)
{
    const char *text = getenv("WB_TIMEOUT");
    const double seconds = text ? atof(text) : 0;
    return seconds > 0 ? seconds : 20;
}

int session_memory(size_t bytes)
{
    const int file = memfd_create("workbook", MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, (off_t)bytes) ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return -1;
    return file;
}

// What the worker has counted in so many cases, in a folder of its own in WB_COVERAGE, w-CASES-.
static void keep_coverage(const session *s)
{
    static wb_counted counted;
    char path[4096];
    if (!getenv("WB_COVERAGE") || !s->served) return;
    counted.bytes = 0;
    if (pread(s->coverage, &counted, sizeof counted, 0) < 0 || counted.bytes > sizeof counted.gcda) counted.bytes = 0;
    snprintf(path, sizeof path, "%s/w-%d-XXXXXX", getenv("WB_COVERAGE"), s->served);
    FILE *const to = mkdtemp(path) ? fopen(strcat(path, "/c.gcda"), "we") : NULL;
    if (to) fwrite(counted.gcda, 1, counted.bytes, to), fclose(to);
}

// On two of the processors, as wherever this is proved: what threads write side by side, gcc's counters above all,
// costs each of them seconds of its own. The key of 02 took 4 s of one processor for 102,199 rows, and 71 of 16.
static void give_two_processors(pid_t worker)
{
    cpu_set_t all, two;
    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) <= 2) return;
    int before = worker % (CPU_COUNT(&all) / 2) * 2;
    for (int i = 0; CPU_COUNT(&two) < 2; i++)
        if (CPU_ISSET(i, &all) && --before < 0) CPU_SET(i, &two);
    sched_setaffinity(worker, sizeof two, &two);
}

static void become_worker(const char *path, const char *serves, const int files[WORKER_FILES])
{
    setpgid(0, 0);                     // so that what it starts can be ended with it
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // an endless loop would outlive a test that was interrupted
    give_two_processors(getpid());
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(files[0], 1);
    for (int i = 0; i < WORKER_FILES; i++) dup2(files[i], OUTPUT_FILE + i);
    for (int i = OUTPUT_FILE + WORKER_FILES; i < 256; i++) close(i);
    setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0);  // or its threads turn round and round between products
    // CUDA makes eight queues for a process, a third of the time that it takes to start; what is not timed needs one.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
    setenv("CUDACPU_TIMEOUT", "0", 0);  // how long it may take is said here
    setenv("CUDACPU_THREADS", "2", 0);  // as many as it has processors
    if (session_exact) execl(path, path, "--guard", "0", "--exchange", "3", (char *)NULL);
    execl(path, path, serves, "3", (char *)NULL);
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

// The worker that is kept, and the way to it; -1: none is.
static pid_t kept;
static int door = -1;

// What it has cost, with all that it has started, is then this process's.
static void end_kept(void)
{
    close(door), door = -1;
    while (waitpid(kept, NULL, 0) < 0 && errno == EINTR) {}
}

// It says first of all its number, or something stands between it and this process; what it says before is of every
// worker. With a second thread it would not be forked as it is.
void session_keep(const char *path)
{
    int sockets[2], pipes[2];
    char number[32], said[32] = "", threads[64];
    struct stat tasks;
    if (door >= 0) end_kept();
    if (!path || access(path, X_OK) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) || pipe(pipes)) return;
    const int files[] = {pipes[1], sockets[1], pipes[1], pipes[1]};
    if ((kept = fork()) == 0) become_worker(path, "--tests", files);
    if (kept < 0) return;
    close(sockets[1]), close(pipes[1]);
    door = sockets[0];
    snprintf(number, sizeof number, "%d\n", (int)kept);
    snprintf(threads, sizeof threads, "/proc/%d/task", (int)kept);
    const bool alone = poll(&(struct pollfd){pipes[0], POLLIN, 0}, 1, 5000) == 1 &&
                       read(pipes[0], said, sizeof said - 1) > 0 && strcmp(said, number) == 0 &&
                       stat(threads, &tasks) == 0 && tasks.st_nlink == 3;
    close(pipes[0]);
    if (alone && atexit(end_kept) == 0) return;
    kill(-kept, SIGKILL), kill(kept, SIGKILL);
    end_kept();
}

// A worker that the one that is kept forks; 0: there is none.
static pid_t forked_worker(const int files[WORKER_FILES], int *life)
{
    int ends[2];
    pid_t pid = 0;
    const char text[WB_CASE_TEXT] = {session_exact};
    if (door < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) return 0;
    int all[MOST_FILES] = {[WORKER_FILES] = ends[1]};
    memcpy(all, files, WORKER_FILES * sizeof *files);
    const bool asked = wb_exchange_send(door, text, all, MOST_FILES);
    close(ends[1]);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 20}, sizeof(struct timeval));
    if (asked && recv(ends[0], &pid, sizeof pid, 0) == sizeof pid && pid > 1) return *life = ends[0], pid;
    close(ends[0]), close(door), door = -1;
    return 0;
}

bool session_start(session *s, const char *path)
{
    int sockets[2], pipes[2], life = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || pipe(pipes)) return false;
    const int files[] = {pipes[1], sockets[1], session_memory(COVERAGE_ROOM), session_memory(WB_FINDING)};
    pid_t pid = forked_worker(files, &life);
    if (!pid && (pid = fork()) == 0) become_worker(path, "--exchange", files);
    if (pid < 0) return false;
    if (life < 0)
        setpgid(pid, pid);  // whoever is first
    else
        give_two_processors(pid);
    close(sockets[1]);
    close(pipes[1]);
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    *s = (session){pid, life, sockets[0], pipes[0], .coverage = files[2], .finding = files[3]};
    s->own.looked = spent_now();
    return true;
}

// The time in which all sleep is the first one's. Only now and then: who is looked up in /proc costs more to end.
static bool look(const session_turn turns[], int count, bool asleep)
{
    if (spent_now() < turns[0].s->own.looked + 0.2) return false;
    for (int i = count - 1; i >= 0; i--) {
        spent_look(&turns[i].s->own, turns[i].s->pid, asleep && i == 0);
        asleep = asleep && !turns[i].s->own.awake;
    }
    return true;
}

// A case begins: what went on between two cases is looked at, and what slept then was not asked to do anything.
static void begin(const session_turn turns[], int count)
{
    look(turns, count, false);
    for (int i = 0; i < count; i++) {  // another call may be under way meanwhile (wb_case)
        const int calls = turns[i].c && turns[i].c->late == 2 ? 2 : 1;
        turns[i].s->before = turns[i].s->own.seconds, turns[i].s->since = turns[i].s->own.looked;
        turns[i].s->limit = calls * session_timeout();
    }
}

static session_outcome goes_on(const session_turn turns[], int count)
{
    const session *first = turns[0].s;
    double seconds = 0;
    if (!look(turns, count, true)) return SESSION_IN_TIME;
    for (int i = 0; i < count; i++) seconds += turns[i].s->own.seconds - turns[i].s->before;
    return seconds >= first->limit                                        ? SESSION_LATE
           : first->own.looked - first->since > SPENT_WALL * first->limit ? SESSION_STARVED
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

// What a report says that it is of, which nobody has to believe: with a tab, so that it is none of the judge's own.
static void take_finding(const session *s, session_said *said)
{
    if (pread(s->finding, said->finding, WB_FINDING - 1, 0) <= 0 || !strchr(said->finding, '\t')) *said->finding = 0;
    for (char *c = said->finding; *c; c++)
        if (*c != '\t' && ((unsigned char)*c < 32 || *c == 127)) *c = '?';
}

// Whether the process has ended. It is left to be waited for, so that its number stays its own.
static bool has_ended(const session *s)
{
    siginfo_t info = {.si_pid = 0};
    if (s->life >= 0) return poll(&(struct pollfd){s->life, POLLIN, 0}, 1, 0) != 0;
    return waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == s->pid;
}

// Waits for an answer, for something printed, or for as long as this.
static void wait_for(const session_turn turns[], int count, bool answer, double seconds)
{
    struct pollfd ready[2 * WB_MOST_RANKS];
    for (int i = 0; i < count; i++) {
        ready[2 * i] = (struct pollfd){turns[i].s->output, POLLIN, 0};
        ready[2 * i + 1] = (struct pollfd){answer ? turns[i].s->socket : -1, POLLIN, 0};
    }
    poll(ready, 2 * (nfds_t)count, seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
}

static bool give(const session_turn *turn, const wb_problem *problem, int board)
{
    char text[WB_CASE_TEXT] = "";
    const int files[] = {turn->file, board};
    wb_case_print(problem, turn->c, text);
    return wb_exchange_send(turn->s->socket, text, files, board < 0 ? 1 : 2);
}

// How far its worker says that it is.
static wb_stage stage_of(const session_turn *turn)
{
    wb_stage stage;
    return pread(turn->file, &stage, sizeof stage, offsetof(wb_exchange, stage)) == sizeof stage ? stage
                                                                                                 : WB_STAGE_STARTING;
}

// Whether the first of two without an answer is the more likely reason: it has not come as far, or worked harder.
static bool holds_up(const session_turn *a, const session_turn *b)
{
    const wb_stage of_a = stage_of(a), of_b = stage_of(b);
    return of_a != of_b ? of_a < of_b : a->s->own.cpu - a->s->before > b->s->own.cpu - b->s->before;
}

// Gives them the case and waits for their answers. WB_NO_ANSWER: one did not come in time, WB_ANSWER_NEVER: one ended.
static wb_answer ask(const session_turn turns[], int count, const wb_problem *problem, int board, session_outcome *how,
                     int *whose)
{
    bool answered[WB_MOST_RANKS] = {false};
    *how = SESSION_IN_TIME;
    for (*whose = 0; *whose < count; ++*whose) {
        const wb_answer answer = wb_exchange_answered(turns[*whose].s->socket, -1);
        if (answer != WB_NO_ANSWER) return answer == WB_ANSWER_NEVER ? answer : WB_ANSWER_DAMAGED;
    }
    for (*whose = 0; *whose < count; ++*whose)
        if (!give(&turns[*whose], problem, board)) return WB_ANSWER_NEVER;
    for (int left = count;;) {
        const session_outcome time = goes_on(turns, count);
        int slowest = -1;
        for (*whose = 0; *whose < count; ++*whose) {
            session *const s = turns[*whose].s;
            take_output(s, turns[*whose].said);
            if (answered[*whose] && has_ended(s)) return WB_ANSWER_NEVER;  // in a hurry: the others still need it
            if (answered[*whose]) continue;
            const bool ended = has_ended(s);  // a child of its own may keep the socket open
            const wb_answer answer = wb_exchange_answered(s->socket, s->served);
            if (answer == WB_NO_ANSWER && ended) return WB_ANSWER_NEVER;
            if (answer == WB_NO_ANSWER && time != SESSION_IN_TIME &&
                (slowest < 0 || holds_up(&turns[*whose], &turns[slowest])))
                slowest = *whose;
            if (answer == WB_NO_ANSWER) continue;
            if (answer != WB_ANSWERED) return answer;
            s->served++, left--, answered[*whose] = true;
            take_output(s, turns[*whose].said);
        }
        if (left == 0) return WB_ANSWERED;
        *how = time, *whose = slowest;
        if (time != SESSION_IN_TIME) return WB_NO_ANSWER;
        wait_for(turns, count, true, 0.02);
    }
}

// A kernel of the CPU layer that goes on and on says where it is, and ends (cpu/faults.cpp). All else ignores it.
static void ask_where(const session_turn *turn)
{
    enum { LOOKS = 500 };  // of 10 ms
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)turn->s->pid);
    DIR *const threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (atol(entry->d_name) > 0) syscall(SYS_tgkill, turn->s->pid, (pid_t)atol(entry->d_name), SIGURG);
    if (threads) closedir(threads);
    for (int n = 0; n < LOOKS && (n < LOOKS / 10 || turn->said->count) && !has_ended(turn->s); n++)
        take_output(turn->s, turn->said), usleep(10000);
}

// Ends it, if it has not ended, and all that it has started.
static struct rusage await_end(session *s, int *status)
{
    wb_ended ended = {.status = SIGKILL};  // what is known where nobody tells: who should was killed, and it with them
    if (s->life >= 0) {
        shutdown(s->life, SHUT_WR);
        recv(s->life, &ended, sizeof ended, 0);
        close(s->life);
    } else {
        kill(-s->pid, SIGKILL);
        kill(s->pid, SIGKILL);
        while (wait4(s->pid, &ended.status, 0, &ended.usage) < 0 && errno == EINTR) {}
    }
    *status = ended.status;
    return ended.usage;
}

session_outcome session_end(session *s, bool at_once, session_said *said, int *status)
{
    session_outcome how = SESSION_IN_TIME;
    const session_turn alone = {.s = s};
    close(s->socket);
    if (!at_once) begin(&alone, 1);
    while (!at_once && !has_ended(s) && (how = goes_on(&alone, 1)) == SESSION_IN_TIME) {
        take_output(s, said);
        if (s->output >= 0)
            wait_for(&alone, 1, false, 0.005);
        else
            usleep(500);
    }
    const struct rusage usage = await_end(s, status);
    spent_add(&s->own, (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
    s->peak = (size_t)usage.ru_maxrss * 1024;
    take_output(s, said), take_finding(s, said);
    if (s->output >= 0) close(s->output);
    close(s->finding);
    keep_coverage(s);
    close(s->coverage);
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
        snprintf(text, size, "no answer in %.0f s, in which the worker ran for %.1f s, %s: the machine is too busy",
                 s->own.looked - s->since, s->own.seconds - s->before, when);
    else if (how == SESSION_LATE)
        snprintf(text, size, "no answer in %g s, %s: an endless loop, or threads that wait for each other", s->limit,
                 when);
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

const char *session_serve(const session_turn turns[], int count, const wb_problem *problem, int board, char ending[256],
                          session_outcome *how, int *whose)
{
    begin(turns, count);
    const wb_answer answer = ask(turns, count, problem, board, how, whose);
    ending[0] = 0;
    if (answer == WB_ANSWERED) return ending;
    const session_turn *const turn = &turns[*whose];
    wb_stage stage = stage_of(turn);  // before a sleep in it is interrupted
    int status = 0, any;
    if (*how == SESSION_LATE) ask_where(turn);
    const session_outcome end = session_end(turn->s, answer != WB_ANSWER_NEVER, turn->said, &status);
    for (int i = 0; i < count; i++)
        if (i != *whose) session_end(turns[i].s, true, turns[i].said, &any);
    if (answer == WB_ANSWER_NEVER) *how = end, stage = stage_of(turn);
    if (*how == SESSION_LATE && !*turn->said->finding) strcpy(turn->said->finding, "no answer");
    if (answer != WB_ANSWER_DAMAGED) return session_ending(turn->s, ending, 256, stage, status, *how);
    *how = SESSION_IN_TIME;
    return strcpy(ending, "another process answered instead of the worker");
}
