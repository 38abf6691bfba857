// watch.c - tests a problem again at every save of its source, until Ctrl-C. P says which problem; without, the one of
// make next. A save during a run ends that run, and what it has found is dropped.

#include "wb/wb.h"

#include <sha256.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t tests;  // the run, which leads a session; 0: there is none

static void stop(void)
{
    if (tests <= 0) return;
    kill(-tests, SIGTERM);
    waitpid(tests, NULL, 0);
    tests = 0;
}

static void end(int signal)
{
    (void)signal;
    stop();
    _exit(0);
}

static void start(char *backend, char *number)
{
    fflush(NULL);
    tests = fork();
    if (tests < 0) grades_give_up("a run");
    if (tests > 0) return;
    setsid();
    run.watched = true;
    exit(wb_test((char *[]){backend, "problems", number, NULL}));
}

static const wb_problem *asked(void)
{
    static const bool none[WB_PROBLEMS];
    const char *const wanted = setting("P", NULL);
    standing s;
    if (wanted) return score_problem(wanted);
    standing_read(OWN_RECORDS);
    return standing_next(none, &s) ? s.problem : NULL;
}

// A save is seen by the file's sum: what an editor outside of WSL or of a container writes is announced to nobody here.
int wb_watch_saves(char **given)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    char file[64], number[16], seen[SHA256_DIGEST_STRING_LENGTH] = "", sum[SHA256_DIGEST_STRING_LENGTH];
    const wb_problem *const p = asked();
    if (!p) return printf("watch: every problem has passed; name one: make watch P=03\n"), 0;
    snprintf(number, sizeof number, "%02d", p->number);
    if (!gaps_file(p, file)) {
        fprintf(stderr, "watch: there is no %s.cu or %s.c in problems/%s; make reset-%s restores it\n", p->name,
                p->name, number, number);
        return 1;
    }
    for (int i = 0; i < 3; i++) signal(signals[i], end);
    for (;; usleep(500000)) {
        // Of a file that is away for a moment, as some editors save, there is none.
        if (!SHA256File(file, sum) || strcmp(sum, seen) == 0) continue;
        stop();
        strcpy(seen, sum);
        if (isatty(1)) printf("\033[H\033[2J\033[3J");  // a clear screen
        start(given[0], number);
    }
}
