// spent.c - seconds of a process's own: those in which it computed or slept, also by what it started. That those in
// which it waited for a processor are none, tests/class/run.sh proves.
#include "judge/spent.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void burn(double seconds)
{
    for (const clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;) {}
}

// What a process spends that does this, until it ends or has spent `enough`; it is ended then.
static spent_time watched(void (*what)(void), double enough)
{
    spent_time s = {.looked = spent_now()};
    const pid_t process = fork();
    if (process == 0) {
        what();
        _exit(0);
    }
    siginfo_t ended = {.si_pid = 0};
    while (!ended.si_pid && s.seconds < enough) {
        usleep(20000);
        waitid(P_PID, (id_t)process, &ended, WEXITED | WNOHANG | WNOWAIT);
        spent_look(&s, process, !ended.si_pid);
    }
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
    return s;
}

static void burns_in_a_grandchild(void)
{
    for (int depth = 0; depth < 2; depth++)
        if (fork() != 0) {
            wait(NULL);
            _exit(0);
        }
    burn(0.4);
}
static void sleeps(void) { pause(); }

Test(spent, of_all_that_it_has_started)
{
    const spent_time s = watched(burns_in_a_grandchild, INFINITY);
    cr_assert(s.cpu > 0.3 && s.cpu < 0.6, "%g s, of which %g CPU seconds", s.seconds, s.cpu);
}

Test(spent, sleep)
{
    const spent_time s = watched(sleeps, 0.5);
    cr_assert(s.cpu < 0.2, "%g s, of which %g CPU seconds", s.seconds, s.cpu);
}
