// ranks.c - see ranks.h: starts ranks, and ends them.
#include "ranks.h"

#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

struct ranks ranks = {0, 1};

// Waits for all of these, and ends with their exit status. The first that fails ends all, for the others would wait for
// it. Whoever it was that a signal ended cannot say so.
static void watch(pid_t pid[], int count)
{
    int worst = 0, status;
    for (int left = count; left > 0; left--) {
        const pid_t ended = wait(&status);
        int rank = 0;
        while (rank < count - 1 && pid[rank] != ended) rank++;
        pid[rank] = 0;
        const int is = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (worst > 1) continue;
        if (is > worst) worst = is;
        if (is > 128 && is != 128 + SIGALRM)
            fprintf(stderr, "train: rank %d died of signal %d; the other ranks end\n", rank, is - 128);
        for (int r = 0; r < count && is > 1; r++)
            if (pid[r] > 0) kill(pid[r], SIGKILL);
    }
    exit(worst);
}

static void start(int count)
{
    pid_t pid[MAX_RANKS], parent = getpid();
    ranks_prepare(count);
    fflush(NULL);
    for (int r = 0; r < count; r++) {
        pid[r] = fork();
        if (pid[r] < 0) FAIL("rank %d cannot be started", r);  // those that could end with this process
        if (pid[r] > 0) continue;
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        if (getppid() != parent) _exit(2);
        ranks = (struct ranks){r, count};
        return;
    }
    watch(pid, count);
}

void ranks_begin(int count)
{
    if (count == 1) return;
    start(count);
    ranks_connect();
    if (ranks.mine > 0 && !freopen("/dev/null", "w", stdout)) FAIL("there is no /dev/null");
}
