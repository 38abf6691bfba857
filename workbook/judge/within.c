// within.c - see spent.h.
#include "judge/spent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT = 125 };

static volatile pid_t command;

static void on_signal(int signal)
{
    if (command > 0) kill(-command, signal);
    _exit(128 + signal);
}

int spent_within(char **given)
{
    const double most = atof(given[0]), begun = spent_now();
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    spent_time own = {.looked = begun};
    siginfo_t ended = {.si_pid = 0};
    int status = 0, verdict = 0;
    if (most <= 0) return fprintf(stderr, "within: %s: not a number of seconds\n", given[0]), CANNOT;
    command = fork();
    if (command < 0) return perror("within"), CANNOT;
    if (command == 0) {
        setpgid(0, 0);  // so that what it starts can be ended with it
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(given[1], given + 1);
        fprintf(stderr, "within: %s: %s\n", given[1], strerror(errno));
        _exit(CANNOT);
    }
    setpgid(command, command);  // whoever is first
    for (int i = 0; i < 3; i++)
        if (signal(signals[i], on_signal) == SIG_IGN) signal(signals[i], SIG_IGN);
    while (!verdict && waitid(P_PID, (id_t)command, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid) {
        usleep(own.looked - begun < 1 ? 5000 : 50000);
        spent_look(&own, command, true);
        verdict = own.seconds >= most ? SPENT_LATE : own.looked - begun > SPENT_WALL * most ? SPENT_STARVED : 0;
    }
    if (ended.si_pid) spent_look(&own, command, false);
    kill(-command, SIGKILL);
    while (waitpid(command, &status, 0) < 0 && errno == EINTR) {}
    spent_note(getenv("WB_SPENT"), own.seconds, "command");
    if (verdict == SPENT_STARVED)
        fprintf(stderr, "in %.0f s it ran for %.1f s: the machine is too busy\n", spent_now() - begun, own.seconds);
    if (verdict) return verdict;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
