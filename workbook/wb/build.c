// build.c - compiles what a test needs, alone in this folder, and says what a compiler says in brief.
#include "wb/child.h"
#include "wb/say.h"
#include "wb/test.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

// ------------------------ make

// One make builds here at a time, and says whose turn it is (loop/alone.sh). The lock is an open file of this process
// and of what it starts.
static int lock_build(void)
{
    char holder[64] = "";
    const int lock = open("build/lock", O_RDWR | O_CREAT | O_APPEND, 0666);
    if (lock < 0) child_give_up("build/lock");
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
    char *words[32] = {(char *)setting("MAKE", "make"), "--no-print-directory", "-s",
                       text_of("-j%s", setting("WB_JOBS", "2")), text_of("BACKEND=%s", backend)};
    int count = 5;
    if (option) words[count++] = (char *)option;
    while (*programs && count < 31) words[count++] = *programs++;
    return child_output(&(child){.words = words, .environment = (char *[]){"WB_BUILDING=yes", NULL}}, status, seen);
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
        char *const words[] = {(char *)run.builder, a->number, NULL};
        a->outcome->log = child_output(&(child){.words = words}, &status, NULL);
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

// ------------------------ what a compiler says

enum { AN_ERROR, A_STEP_TO_IT, BEHIND_IT, EXPRESSIONS };

static bool matches(const char *line, int which)
{
    static const char *const expressions[EXPRESSIONS] = {
        "(^|[^a-z])error: ", "required (from|by)|: In (instantiation|substitution) of|^make",
        "^[^ ].*: (In|At) |required from|^In file included|^ +from "};
    static regex_t compiled[EXPRESSIONS];
    static bool ready[EXPRESSIONS];
    if (!ready[which] && regcomp(&compiled[which], expressions[which], REG_EXTENDED | REG_NOSUB)) abort();
    ready[which] = true;
    return regexec(&compiled[which], line, 0, NULL, 0) == 0;
}

// Whether this list of lines has this one.
static bool has_line(const char *lines, const char *line)
{
    const size_t length = strlen(line);
    for (const char *at = lines; (at = strstr(at, line)); at++)
        if ((at == lines || at[-1] == '\n') && at[length] == '\n') return true;
    return false;
}

typedef struct compiler_said {
    FILE *to;
    char *seen;  // lines with an error, each once
    int errors, lines;
    bool inside;  // the first error
} compiler_said;

// Most errors come from the first. What has no line "error:", a linker's words for example, is cut off after 40 lines.
static void shorten(compiler_said *c, const char *line)
{
    enum { MOST = 40 };
    if (matches(line, AN_ERROR)) {
        if (!has_line(c->seen, line)) {
            char *const more = text_of("%s%s\n", c->seen, line);
            c->seen = more;
            c->errors++;
        }
        c->inside = c->errors == 1;
        if (c->errors > 1) return;
    }
    if (matches(line, A_STEP_TO_IT) && !strstr(line, "required from here")) return;
    if (c->errors && matches(line, BEHIND_IT)) c->inside = false;
    if ((!c->errors || c->inside) && ++c->lines <= MOST) fprintf(c->to, "%s\n", line);
}

// Calls this with each line of a text.
static void each_line(const char *text, void (*visit)(compiler_said *, const char *), compiler_said *c)
{
    char *const copy = strdup(text);
    if (!copy) abort();
    for (char *line = copy, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        visit(c, line);
    }
    free(copy);
}

char *build_errors(const char *log)
{
    enum { OTHERS = 6 };
    char *text = NULL;
    size_t size;
    compiler_said c = {.to = open_memstream(&text, &size), .seen = ""};
    if (!c.to) abort();
    each_line(log, shorten, &c);
    const char *other = c.seen + strcspn(c.seen, "\n");  // behind the first
    for (int i = 0; i < OTHERS && *other && other[1]; i++, other += 1 + strcspn(other + 1, "\n"))
        fprintf(c.to, "%.*s\n", (int)strcspn(other + 1, "\n"), other + 1);
    if (c.errors > OTHERS + 1) fprintf(c.to, "and %d more errors\n", c.errors - 1 - OTHERS);
    fclose(c.to);
    return text;
}

static void warn(compiler_said *c, const char *line)
{
    if (!strstr(line, "warning:") || has_line(c->seen, line)) return;
    c->seen = text_of("%s%s\n", c->seen, line);
    fprintf(c->to, "%s\n", line);
}

char *build_warnings(const char *log)
{
    char *text = NULL;
    size_t size;
    compiler_said c = {.to = open_memstream(&text, &size), .seen = ""};
    if (!c.to) abort();
    each_line(log, warn, &c);
    fclose(c.to);
    return text;
}
