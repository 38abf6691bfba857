// supervise.c - see supervise.h.
#include "supervise.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int beats[2] = {-1, -1};

void still_alive(void)
{
    if (beats[1] >= 0 && write(beats[1], "", 1) != 1) exit(2);  // the parent has gone
}

void supervise(void)
{
    if (pipe(beats)) perror("train: a pipe"), exit(2);
    const pid_t child = fork();
    if (child < 0) perror("train: a process"), exit(2);
    if (child == 0) {
        close(beats[0]);
        return;
    }
    close(beats[1]);
    const char *const text = getenv("WB_TIMEOUT");
    const double given = text ? atof(text) : 0, timeout = given > 0 ? given : 20;
    double patience = timeout > 120 ? timeout : 120;
    char some[256];
    int hung = 0, status = 0;
    for (;; patience = timeout) {
        struct pollfd ready = {beats[0], POLLIN, 0};
        hung = poll(&ready, 1, (int)(1000 * patience)) == 0;
        if (hung || read(beats[0], some, sizeof some) <= 0) break;
    }
    if (hung) kill(child, SIGKILL);
    waitpid(child, &status, 0);
    if (hung)
        printf("The training ends here: no step in %g s, so a kernel is in an endless loop, or its threads wait for "
               "each other.\n",
               patience);
    else if (WIFSIGNALED(status))
        printf("The training ends here: its process died of signal %d (%s).\n", WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    exit(!hung && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
