

#include "wb/wb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8 };
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static volatile pid_t running[MOST];
static volatile sig_atomic_t interrupt;
static void (*end_of_all)(void);

static void on_signal(int signal)
{
    interrupt = signal;
    for (int i = 0; i < MOST; i++)
        if (running[i] > 0) kill(running[i], signal);
}

void child_interrupted(void (*end)(void))
{
    end_of_all = end;
    for (int i = 0; i < 3; i++) sigaction(signals[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
}

void child_check(void)
{
    if (!interrupt) return;
    void (*const end)(void) = end_of_all;
    interrupt = 0;
    for (int i = 0; i < MOST; i++)
        if (running[i] > 0) waitpid(running[i], NULL, 0), running[i] = 0;
    if (end) end();
    exit(2);
}

void child_pipe(int ends[2])
{
    if (pipe(ends)) grades_give_up("a pipe");
    for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
}

static void give(int from, int to)
{
    if (from == to)
        fcntl(to, F_SETFD, 0);
    else
        dup2(from == CHILD_NULL ? open("/dev/null", O_RDWR | O_CLOEXEC) : from, to);
}

static void quit(void) { _exit(2); }

pid_t child_start(const child *c, int out)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) grades_give_up(c->words[0]);
    if (pid == 0) {
        for (int i = 0; i < 3 && !c->call; i++) signal(signals[i], SIG_DFL);
        memset((void *)running, 0, sizeof running), end_of_all = quit;
        for (char *const *e = c->environment; e && *e; e++) putenv(*e);
        FILE *const text = c->text ? tmpfile() : NULL;
        if (c->text && (!text || fputs(c->text, text) < 0 || fseek(text, 0, SEEK_SET))) _exit(127);
        give(text ? fileno(text) : CHILD_NULL, 0);
        give(out, 1);
        give(c->error ? c->error : 1, 2);
        if (c->before) c->before();
        if (c->call) {
            const int status = c->call((char **)c->words);
            fflush(NULL);
            _exit(status);
        }
        execvp(c->words[0], c->words);
        dprintf(2, "wb: %s: %s\n", c->words[0], strerror(errno));
        _exit(127);
    }
    for (int i = 0; i < MOST; i++)
        if (!running[i]) {
            running[i] = pid;
            break;
        }
    if (interrupt) kill(pid, SIGTERM);
    return pid;
}

int child_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) status = 127 << 8, errno = 0;
    for (int i = 0; i < MOST; i++)
        if (running[i] == pid) running[i] = 0;
    child_check();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

char *child_read(int from, void (*seen)(const char *line))
{
    FILE *const in = fdopen(from, "r");
    char *line = NULL, *text = NULL;
    size_t room = 0;
    FILE *const to = text_in_memory(&text);
    if (!in) grades_give_up("memory");
    for (ssize_t n; (n = getline(&line, &room, in)) > 0 || (ferror(in) && errno == EINTR);) {
        clearerr(in);
        for (ssize_t i = 0; i < n; i++)
            if (!line[i]) line[i] = '?';
        if (n > 0 && seen) seen(line);
        if (n > 0) fputs(line, to);
    }
    free(line);
    fclose(in);
    fclose(to);
    return text;
}

pid_t child_begin(const child *c, int *from)
{
    int ends[2];
    child_pipe(ends);
    const pid_t pid = child_start(c, ends[1]);
    close(ends[1]);
    *from = ends[0];
    return pid;
}

char *child_output(const child *c, int *status)
{
    int from;
    const pid_t pid = child_begin(c, &from);
    char *const text = child_read(from, c->seen);
    const int ended = child_wait(pid);
    if (status) *status = ended;
    return text;
}
