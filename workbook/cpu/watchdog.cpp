// watchdog.cpp - ends a launch of which a host thread has computed for more than CUDACPU_TIMEOUT seconds (120; 0:
// never). A thread that spins until another one does something would spin for ever here, because nothing preempts it.
// Time in which others have the processor does not count: a timer of the thread's own processor time asks it where it
// is, by a signal that is ignored where no kernel runs (faults.cpp). Who waits for a worker's answer sends it too.
#include "report.h"

#include <signal.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace cudacpu
{
static long asked_for = -1;
extern "C" void wb_launch_seconds(long seconds) { asked_for = seconds; }  // for a test of this

long launch_seconds()
{
    static const long given = environment("CUDACPU_TIMEOUT", 120);
    return asked_for >= 0 ? asked_for : given;
}

// Asks this host thread when it has computed for so many seconds more, and then each second, for it is not heard
// between two blocks. 0: no longer.
static void ask_after(long seconds)
{
    static __thread timer_t timer;
    static __thread pid_t owner;  // a child of fork() has none of its parent's timers
    if (owner != getpid()) {
        sigevent to_me = {};
        to_me.sigev_notify = SIGEV_THREAD_ID;
        to_me.sigev_notify_thread_id = gettid();
        to_me.sigev_signo = SIGURG;
        if (timer_create(CLOCK_THREAD_CPUTIME_ID, &to_me, &timer) != 0) return;
        owner = getpid();
    }
    itimerspec when = {};
    when.it_value.tv_sec = seconds;
    when.it_interval.tv_sec = seconds > 0;
    timer_settime(timer, 0, &when, nullptr);
}

void watchdog_enter()
{
    if (launch_seconds() > 0) ask_after(launch_seconds());
}

void watchdog_leave()
{
    if (launch_seconds() > 0) ask_after(0);
}
}
