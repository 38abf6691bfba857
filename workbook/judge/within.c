// within.c - runs a command that may cost so many seconds of its own (judge/spent.h), with all that it starts: time
// that a busy machine gives to others does not count.
//
//   within SECONDS COMMAND [ARGUMENT...]
//
// Ends with the command's exit status (128 + n after signal n); with 124 when it was stopped since it had used up its
// seconds; with 75 when it was stopped since the machine gave it too few of them, and a sentence says how many. What
// it cost is noted in the file WB_SPENT, if there is one.
#include "judge/spent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LATE = 124, STARVED = 75, CANNOT = 125 };

static volatile pid_t command;

static void on_signal(int signal)
{
    if (command > 0) kill(-command, signal);
    _exit(128 + signal);
}

int main(int argc, char **argv)
{
    const double most = argc > 2 ? atof(argv[1]) : 0, begun = spent_now();
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    spent_time own = {.looked = begun};
    siginfo_t ended = {.si_pid = 0};
    int status = 0, verdict = 0;
    if (most <= 0) return fprintf(stderr, "usage: within SECONDS COMMAND [ARGUMENT...]\n"), CANNOT;
    command = fork();
    if (command < 0) return perror("within"), CANNOT;
    if (command == 0) {
        setpgid(0, 0);  // so that what it starts can be ended with it
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[2], argv + 2);
        fprintf(stderr, "within: %s: %s\n", argv[2], strerror(errno));
        _exit(CANNOT);
    }
    setpgid(command, command);  // whoever is first
    for (int i = 0; i < 3; i++)
        if (signal(signals[i], on_signal) == SIG_IGN) signal(signals[i], SIG_IGN);
    while (!verdict && waitid(P_PID, (id_t)command, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid) {
        usleep(own.looked - begun < 1 ? 5000 : 50000);
        spent_look(&own, command, true);
        verdict = own.seconds >= most ? LATE : own.looked - begun > SPENT_WALL * most ? STARVED : 0;
    }
    if (ended.si_pid) spent_look(&own, command, false);
    kill(-command, SIGKILL);
    while (waitpid(command, &status, 0) < 0 && errno == EINTR) {}
    spent_note(getenv("WB_SPENT"), own.seconds, "command");
    if (verdict == STARVED)
        fprintf(stderr, "in %.0f s it ran for %.1f s: the machine is too busy\n", spent_now() - begun, own.seconds);
    if (verdict) return verdict;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
