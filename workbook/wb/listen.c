#include "wb/suite.h"

#include "judge/spent.h"
#include "wb/child.h"
#include "wb/say.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static char spent_path[4096];  // the file in which the cases of a run note what they cost; it does not outlive the run

void listen_clean(void)
{
    if (*spent_path) unlink(spent_path);
    *spent_path = 0;
}

static void make_scratch(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(spent_path, sizeof spent_path, "%s/suite-XXXXXX", folder && *folder ? folder : "/tmp");
    const int file = mkstemp(spent_path);
    if (file < 0) child_give_up(spent_path);
    close(file);
}

enum { TOLD = 3 };  // the descriptor on which the program says what its tests come to (judge/record.c)

static void set_environment(const suite_run *run)
{
    setenv("WB_TOLD", run->names ? "3 names" : "3", 1);
    setenv("WB_WORKER", run->worker, 1);
    setenv("WB_BACKEND", run->backend, 1);
    setenv("WB_SPENT", spent_path, 1);
    // Several tests run at once: what the oracle's threads spend waiting would be missing elsewhere.
    setenv("OMP_WAIT_POLICY", "passive", 0);
    if (run->coverage) setenv("WB_COVERAGE", run->coverage, 1);
    if (run->tried) setenv("WB_TRIED", run->tried, 1);
    if (run->given) setenv("CASE", run->given, 1);
}

static const suite_run *started;  // for become_program, and where it tells
static int telling;
static void become_program(void)
{
    set_environment(started);
    if (telling == TOLD)
        fcntl(TOLD, F_SETFD, 0);
    else
        dup2(telling, TOLD);
}

static pid_t start(const suite_run *run, int told, int errors)
{
    char jobs[32], *words[64] = {(char *)run->program, jobs};
    int count = 2;
    const char *wanted = getenv("JOBS");
    snprintf(jobs, sizeof jobs, "-j%ld", wanted && *wanted ? atol(wanted) : sysconf(_SC_NPROCESSORS_ONLN));
    if (run->first) strcpy(jobs, "-j1"), words[count++] = "--fail-fast";
    for (char **o = run->options; o && *o && count < 63; o++) words[count++] = *o;
    started = run, telling = told;
    return child_start(&(child){.words = words, .error = errors, .before = become_program});
}

// Many tests may say the same.
static void say_errors(FILE *errors, int status)
{
    char line[1024], last[1024] = "";
    rewind(errors);
    for (int lines = 0; lines < 20 && fgets(line, sizeof line, errors);) {
        if (strcmp(line, last) == 0) continue;
        say("  %s", strcpy(last, line));
        lines++;
    }
    if (status > 128) say("  the test program died of signal %d (%s)\n", status - 128, strsignal(status - 128));
}

bool listen_to(const suite_run *run, results *r)
{
    int ends[2];
    char *line = NULL;
    size_t room = 0;
    FILE *const errors = tmpfile();
    *r = (results){0};
    make_scratch();
    child_pipe(ends);
    FILE *const from = fdopen(ends[0], "r");
    if (!errors || !from) child_give_up("a suite");
    fcntl(fileno(errors), F_SETFL, O_APPEND);
    fcntl(fileno(errors), F_SETFD, FD_CLOEXEC);
    const pid_t running = start(run, ends[1], fileno(errors));
    close(ends[1]);
    while (getline(&line, &room, from) > 0 || (ferror(from) && errno == EINTR)) {
        cJSON *const said = ferror(from) ? NULL : cJSON_Parse(line);
        clearerr(from);
        if (results_take(r, said) && run->seen) run->seen(r, run->context);
        cJSON_Delete(said);
    }
    free(line);
    fclose(from);
    const int status = child_wait(running);
    spent_note(getenv("WB_SPENT"), spent_read(spent_path).seconds, "suite");
    listen_clean();
    const bool whole = r->ended && status <= 128;
    bool passed = whole;
    for (int i = 0; i < r->count; i++) passed &= r->rows[i].status != RESULT_FAIL;
    if (!passed) say_errors(errors, status);
    fclose(errors);
    return whole;
}
