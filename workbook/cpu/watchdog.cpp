// watchdog.cpp - ends a launch of which a host thread has computed for more than CUDACPU_TIMEOUT seconds (120; 0:
// never). A thread that spins until another one does something would spin for ever here, because nothing preempts it.
// Time in which others have the processor does not count.
#include "report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace cudacpu
{
// A host thread that runs blocks now, so that it can be asked where it is.
struct runner {
    pthread_t thread;
    double since;  // its processor time as it began
};

struct watchdog {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
    bool launched = false, asleep = false;
    timespec deadline = {};  // before it nobody can have computed for so long
    runner runners[256];
    int runner_count = 0;
};

static watchdog *dog;  // of this process; null: none is needed yet
static pid_t owner;

static bool passed(const timespec &deadline)
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > deadline.tv_sec || (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec);
}

static double computed(pthread_t thread)
{
    clockid_t clock;
    timespec t = {};
    if (pthread_getcpuclockid(thread, &clock) == 0) clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Asks who has computed for too long where it is, and returns in how many seconds to look again: whoever was asked
// reports and ends the process, unless it was between two blocks.
static long look(watchdog &w)
{
    double most = 0;
    for (int i = 0; i < w.runner_count; i++) {
        const double seconds = computed(w.runners[i].thread) - w.runners[i].since;
        if (seconds >= static_cast<double>(launch_seconds())) pthread_kill(w.runners[i].thread, SIGXCPU);
        if (seconds > most) most = seconds;
    }
    const long left = launch_seconds() - static_cast<long>(most);
    return left > 1 ? left : 1;
}

static void *watch(void *data)
{
    watchdog &w = *static_cast<watchdog *>(data);
    pthread_mutex_lock(&w.mutex);
    for (;;) {
        if (!w.launched) {
            w.asleep = true;
            pthread_cond_wait(&w.wake, &w.mutex);
            w.asleep = false;
        } else if (!passed(w.deadline)) {
            const timespec deadline = w.deadline;
            pthread_cond_timedwait(&w.wake, &w.mutex, &deadline);
        } else {
            w.deadline.tv_sec += look(w);
        }
    }
    return nullptr;
}

static long asked_for = -1;
extern "C" void wb_launch_seconds(long seconds) { asked_for = seconds; }  // for a test of this

long launch_seconds()
{
    static const long given = environment("CUDACPU_TIMEOUT", 120);
    return asked_for >= 0 ? asked_for : given;
}

// The watchdog sleeps through launches that come one after the other: it looks up only when a deadline has passed.
void watchdog_begin()
{
    if (launch_seconds() <= 0) return;
    if (!dog || owner != getpid()) {
        pthread_t id;
        dog = new watchdog;
        owner = getpid();
        if (pthread_create(&id, nullptr, watch, dog) != 0) return;
        pthread_detach(id);
    }
    pthread_mutex_lock(&dog->mutex);
    clock_gettime(CLOCK_REALTIME, &dog->deadline);
    dog->deadline.tv_sec += launch_seconds();
    dog->launched = true;
    if (dog->asleep) pthread_cond_signal(&dog->wake);
    pthread_mutex_unlock(&dog->mutex);
}

void watchdog_end()
{
    if (!dog) return;
    pthread_mutex_lock(&dog->mutex);
    dog->launched = false;
    pthread_mutex_unlock(&dog->mutex);
}

void watchdog_enter()
{
    if (!dog) return;
    pthread_mutex_lock(&dog->mutex);
    if (dog->runner_count < 256) dog->runners[dog->runner_count++] = {pthread_self(), computed(pthread_self())};
    pthread_mutex_unlock(&dog->mutex);
}

void watchdog_leave()
{
    if (!dog) return;
    pthread_mutex_lock(&dog->mutex);
    for (int i = 0; i < dog->runner_count; i++)
        if (pthread_equal(dog->runners[i].thread, pthread_self())) {
            dog->runners[i] = dog->runners[--dog->runner_count];
            break;
        }
    pthread_mutex_unlock(&dog->mutex);
}
}
