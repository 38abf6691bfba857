// watchdog.cpp - ends a launch that takes longer than CUDACPU_TIMEOUT seconds (120; 0: never). A thread that spins
// until another one does something would spin for ever here, because nothing preempts it.
#include "report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace cudacpu
{
// The host threads that run blocks now, so that they can be asked where they are.
struct watchdog {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
    bool launched = false, asleep = false;
    timespec deadline = {};
    pthread_t runners[256];
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
            for (int i = 0; i < w.runner_count; i++) pthread_kill(w.runners[i], SIGXCPU);  // see faults.cpp
            w.deadline.tv_sec++;  // one of them reports and ends the process, unless it was between two blocks
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
    if (dog->runner_count < 256) dog->runners[dog->runner_count++] = pthread_self();
    pthread_mutex_unlock(&dog->mutex);
}

void watchdog_leave()
{
    if (!dog) return;
    pthread_mutex_lock(&dog->mutex);
    for (int i = 0; i < dog->runner_count; i++)
        if (pthread_equal(dog->runners[i], pthread_self())) {
            dog->runners[i] = dog->runners[--dog->runner_count];
            break;
        }
    pthread_mutex_unlock(&dog->mutex);
}
}
