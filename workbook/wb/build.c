// build.c - compiles what a test needs, alone in this folder, and says what a compiler says in brief.
#include "score/grades.h"
#include "wb/child.h"
#include "wb/wb.h"
#include "wb/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

// ------------------------ make

// One make builds here at a time (loop/alone.sh). The lock is an open file of this process and of what it starts.
static int lock_build(void)
{
    char holder[64] = "";
    const int lock = open("build/lock", O_RDWR | O_CREAT | O_APPEND, 0666);
    if (lock < 0) grades_give_up("build/lock");
    if (flock(lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        if (pread(lock, holder, sizeof holder - 1, 0) < 0) *holder = 0;
        say_now("waiting: another make is building here (process %.*s)\n", (int)strcspn(holder, "\n"), holder);
        while (flock(lock, LOCK_EX) && errno == EINTR) child_check();
    }
    if (ftruncate(lock, 0) == 0) dprintf(lock, "%ld\n", (long)getpid());
    return lock;
}

static char *make(const char *backend, char *const programs[], const char *option, int *status,
                  void (*seen)(const char *line))
{
    char *words[32] = {(char *)setting("MAKE", "make"), "--no-print-directory",
                       setting("V", NULL) ? "--no-print-directory" : "-s", text_of("-j%s", setting("JOBS", "2")),
                       text_of("BACKEND=%s", backend)};
    int count = 5;
    if (option) words[count++] = (char *)option;
    while (*programs && count < 31) words[count++] = *programs++;
    char *const environment[] = {"WB_BUILDING=yes", NULL};
    return child_output(&(child){.words = words, .environment = environment, .seen = seen}, status);
}

static struct {
    int all, done;  // files to compile
    time_t said;
} progress;

static bool is_step(const char *line)  // "  CC\tfile.c"
{
    const size_t word = strspn(line + strspn(line, " "), "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return strncmp(line, "  ", 2) == 0 && word > 0 && line[2 + word] == '\t';
}

static void count_step(const char *line) { progress.all += is_step(line); }

// A bar grows in a terminal; elsewhere a line comes every ten seconds.
static void show_step(const char *line)
{
    static const char full[] = "##############################";
    if (!is_step(line)) return;
    progress.done++;
    if (isatty(2))
        say_now("\r  compiling the test machinery, once: [%-30.*s] %d of %d files", 30 * progress.done / progress.all,
                full, progress.done, progress.all);
    else if (time(NULL) - progress.said >= 10) {
        progress.said = time(NULL);
        say_now("  compiled: %d of %d files\n", progress.done - 1, progress.all);
    }
}

char *build_programs(const char *backend, char *const programs[], bool quiet, int *status)
{
    bool there = true;
    const int lock = lock_build();
    for (char *const *p = programs; *p; p++) there = there && access(*p, F_OK) == 0;
    progress.all = progress.done = 0;
    if (!there && !quiet) free(make(backend, programs, "-n", status, count_step));
    const bool told = progress.all >= 4;
    if (told) {
        say_now("  compiling the test machinery, once: %d files%s", progress.all, isatty(2) ? "" : "\n");
        progress.said = time(NULL);
    }
    char *const said = make(backend, programs, NULL, status, told ? show_step : NULL);
    if (told && isatty(2)) say_now("\n");
    close(lock);
    return said;
}

int build(attempt *a)
{
    int status;
    if (run.builder) {
        char *const words[] = {(char *)run.builder, text_of("%s%s", a->number, run.counted), NULL};
        a->outcome->log = child_output(&(child){.words = words}, &status);
        strcpy(a->tried, a->worker);
        return status;
    }
    char *programs[] = {text_of("%s/tests/%s_test", run.out, a->number), a->worker, text_of("%s/diagnose", run.out),
                        text_of("%s/repair", run.out), NULL};
    if (access(programs[2], F_OK) || access(programs[3], F_OK)) programs[2] = NULL;  // built when they are wanted
    a->outcome->log = build_programs(run.backend, programs, false, &status);
    snprintf(a->tried, sizeof a->tried, "%s/%s_worker", run.work, a->number);
    if (status == 0 && link(a->worker, a->tried)) status = 1;
    return status;
}

char *build_brief(const char *log, bool failed)
{
    if (!failed && !strstr(log, "warning:")) return "";
    char *const words[] = {"awk", "-v", failed ? "of=errors" : "of=warnings", "-f", "workbook/loop/errors.awk", NULL};
    return child_output(&(child){.words = words, .environment = (char *[]){"LC_ALL=C", NULL}, .text = log}, NULL);
}
