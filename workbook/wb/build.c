// build.c - compiles what a test needs, alone in this folder, and says what a compiler says in brief.

#include "wb/wb.h"

#include <unistd.h>

// ------------------------ make

static struct {
    int all, done;  // files to compile
    bool many;      // they are shown as they are done
    time_t said;
} progress;

static bool is_step(const char *line)  // "  CC\tfile.c"
{
    const size_t word = strspn(line + strspn(line, " "), "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return strncmp(line, "  ", 2) == 0 && word > 0 && line[2 + word] == '\t';
}

// Counts them; where they are many, a bar grows in a terminal, and elsewhere a line comes every ten seconds.
static void show_step(const char *line)
{
    static const char full[] = "##############################";
    if (strncmp(line, "waiting: ", 9) == 0) say_now("%s", line);
    if (!is_step(line)) return;
    if (!progress.many) {
        progress.all++;
        return;
    }
    progress.done++;
    if (isatty(2))
        say_now("\r  compiling the test machinery, once: [%-30.*s] %d of %d files", 30 * progress.done / progress.all,
                full, progress.done, progress.all);
    else if (time(NULL) - progress.said >= 10) {
        progress.said = time(NULL);
        say_now("  compiled: %d of %d files\n", progress.done - 1, progress.all);
    }
}

// One make builds here at a time.
static char *make(const char *backend, char *const programs[], const char *option, int *status)
{
    char *words[32] = {"workbook/loop/alone.sh",
                       (char *)setting("MAKE", "make"),
                       "--no-print-directory",
                       setting("V", NULL) ? "--no-print-directory" : "-s",
                       text_of("-j%s", setting("JOBS", "2")),
                       text_of("BACKEND=%s", backend)};
    int count = 6;
    if (option) words[count++] = (char *)option;
    while (*programs && count < 31) words[count++] = *programs++;
    return child_output(&(child){.words = words, .seen = show_step}, status);
}

char *build_programs(const char *backend, char *const programs[], bool quiet, int *status)
{
    bool there = true;
    for (char *const *p = programs; *p; p++) there = there && access(*p, F_OK) == 0;
    progress.all = progress.done = progress.many = 0;
    if (!there && !quiet) free(make(backend, programs, "-n", NULL));
    progress.many = progress.all >= 4;
    if (progress.many) {
        say_now("  compiling the test machinery, once: %d files%s", progress.all, isatty(2) ? "" : "\n");
        progress.said = time(NULL);
    }
    char *const said = make(backend, programs, NULL, status);
    if (progress.many && isatty(2)) say_now("\n");
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
