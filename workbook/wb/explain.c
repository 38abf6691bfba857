// explain.c - after a failure: its cause. A wrong result often has one that can be named. The check build looks at
// every access of the first failing case, while diagnose looks at what the function does, step by step. A relation that
// explains what many rows show is told at once, as no race leaves one. Else one of the two is told: what a race or a
// stray access leaves is no matter of steps, unless it is a wrong address that they explain. Then a change is looked
// for that fixes it.
#include "score/gaps.h"
#include "score/safe_text.h"
#include "wb/child.h"
#include "wb/say.h"
#include "wb/suite.h"
#include "wb/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// What is known of a failure, and by whom.
typedef struct cause {
    attempt *a;
    const char *given;          // the case; "" if it has none
    const char *failure;        // what the first failure says
    char *steps, *changed;      // what diagnose says, and what of given code is not as it was
    bool told;                  // it has been said
    char *kind;                 // of a report of the check build; "" if there is none
    pid_t checking, searching;  // 0: is not asked
    int report, tried, said;    // what comes of them, and where the search is told what has been said
} cause;

static bool says(const cause *c, const char *words) { return strstr(c->failure, words); }

// ------------------------ the check build

static void begin_check(cause *c)
{
    char *const words[] = {(char *)run.backend, (char *)run.impl, c->a->number, (char *)c->given, NULL};
    c->checking = child_begin(&(child){.call = sanitize_after, .words = words}, &c->report);
}

// The kind of a report: "sanitize: race in kernel f, ..."
static char *kind_of(const char *report)
{
    static const char word[] = "sanitize: ";
    const char *const at = report + strspn(report, " "), *end = NULL;
    if (strncmp(at, word, strlen(word)) != 0) return "";
    const char *const line_end = at + strcspn(at, "\n");
    for (const char *in = at; (in = strstr(in, " in ")) && in < line_end; in++) end = in;
    return end ? text_of("%.*s", (int)(end - at) - (int)strlen(word), at + strlen(word)) : "";
}

// Lines of the source that these texts name: " 19 82".
static char *places(const cause *c, const char *texts)
{
    enum { MOST = 200 };
    const char *const base = strrchr(c->a->file, '/') + 1;
    int line[MOST], count = 0;
    for (const char *at = texts; (at = strstr(at, base)); at++) {
        char *end;
        const char *const number = at + strlen(base) + 1;
        if (at == texts || !strchr("/ ", at[-1]) || number[-1] != ':') continue;
        const long n = strtol(number, &end, 10);
        int place = 0;
        while (place < count && line[place] < n) place++;
        if (end == number || count == MOST || (place < count && line[place] == n)) continue;
        memmove(line + place + 1, line + place, (size_t)(count++ - place) * sizeof *line);
        line[place] = (int)n;
    }
    char *all = "";
    for (int i = 0; i < count; i++) all = text_of("%s %d", all, line[i]);
    return all;
}

static void say_steps(cause *c)
{
    if (!c->told) say_plain("  ", c->steps);
    fflush(stdout);
    c->told = true;
}

static void say_report(cause *c)
{
    if (!c->told) c->steps = "", c->a->outcome->gaps = "";  // steps that saw what a race left
    say("  the check build reports for %s:\n", c->given);
    say_plain("", c->a->outcome->sanitize);
}

// ------------------------ steps

static void limits(void)  // a submission's, whatever its case costs
{
    const rlim_t seconds = 1 + (rlim_t)atoi(setting("WB_TIMEOUT", "20")), bytes = (rlim_t)4 << 30;
    if (!run.builder) return;
    setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
    setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
}

static void diagnose(cause *c, const char *looker)
{
    attempt *const a = c->a;
    char *const program = text_of("%s/diagnose", run.out), *const step = text_of("%s/step", run.work);
    char *const words[] = {
        program, "--record", step, "--source", a->file, a->number, *c->given ? (char *)c->given : NULL, NULL};
    char *const environment[] = {text_of("WB_WORKER=%s", looker), text_of("WB_SPENT=%s/spent", run.work),
                                 "WB_TIMEOUT=5", "OMP_WAIT_POLICY=passive", NULL};
    if (access(program, X_OK) || access(looker, X_OK)) return;
    int said;
    const pid_t pid = child_begin(&(child){.words = words, .environment = environment, .before = limits}, &said);
    c->steps = child_read(said, NULL);
    child_wait(pid);
    FILE *const from = fopen(step, "r");
    char kind[16], gaps[512];
    const int read = from ? fscanf(from, "%15s %511[^\n]", kind, gaps) : 0;
    if (read > 0) a->outcome->step = text_of("%s", kind);
    if (read > 1) a->outcome->gaps = text_of("%s", gaps);
    if (from) fclose(from);
}

// A worker of the layer is asked, which a GPU machine builds for it, as the check build.
static char *find_looker(const attempt *a)
{
    int status;
    if (strcmp(run.backend, "cpu") == 0) return (char *)a->tried;
    char *const looker = text_of("build/cpu/%s/%s_worker", run.impl, a->number);
    if (run.builder) return looker;
    if (access(looker, X_OK)) say_now("  now building for the CPU layer, which finds errors that a GPU hides\n");
    free(build_programs("cpu", (char *[]){looker, NULL}, true, &status));
    return looker;
}

// ------------------------ a change

static void nicely(void)
{
    if (nice(10)) return;
}

// One change that makes what is wrong right: looked for when nothing is left to be written, since what is found has
// been tried. It compiles beside the check build, with which it shares nothing, and learns later what has
// been said.
static void begin_repair(cause *c)
{
    const char *const seconds = setting("REPAIR", "15"), *const made = "build/cpu/repaired";
    char *const program = text_of("%s/repair", run.out), *const said = text_of("%s/said", run.work);
    attempt *const a = c->a;
    if (!run.own || *a->unwritten || !*c->given || strcmp(seconds, "0") == 0 || access(program, X_OK)) return;
    mkdir(made, 0777);
    const int lock = open(text_of("%s/%s.lock", made, a->number), O_RDWR | O_CREAT, 0666);
    if (mkfifo(said, 0600) || (c->said = open(said, O_RDWR | O_CLOEXEC)) < 0 || lock < 0) return;
    if (flock(lock, LOCK_EX | LOCK_NB)) {
        c->tried = open("/dev/null", O_RDONLY | O_CLOEXEC), c->searching = -1;
        close(lock);
        return;
    }
    char *const worker = text_of("%s/%s_worker", made, a->number);
    char *const words[] = {program,
                           "--seconds",
                           (char *)seconds,
                           "--said",
                           said,
                           a->file,
                           text_of("%s/%s.cu", made, a->number),
                           text_of("%s --no-print-directory BACKEND=cpu %s build/cpu/wb build/cpu/tests/%s_test",
                                   setting("MAKE", "make"), worker, a->number),
                           a->number,
                           (char *)c->given,
                           NULL};
    char *const environment[] = {text_of("WB_WORKER=%s", worker), "WB_BUILDING=yes", "OMP_WAIT_POLICY=passive", NULL};
    c->searching =
        child_begin(&(child){.words = words, .environment = environment, .error = 2, .before = nicely}, &c->tried);
    close(lock);
}

static void end_repair(cause *c)
{
    attempt *const a = c->a;
    if (!c->searching) return;
    say_now("  now searching for an edit that fixes it: %s CPU seconds, after compiling (REPAIR=0 omits the search)\n",
            setting("REPAIR", "15"));
    for (char *at = c->changed; *at; at++) *at = (char)(strchr("0123456789\n", *at) ? *at : ' ');  // its lines
    c->changed[strcspn(c->changed, "\n")] = 0;
    dprintf(c->said, "%s\n%s%s\n", a->outcome->gaps, places(c, text_of("%s\n%s", c->failure, a->outcome->sanitize)),
            c->changed);
    if (c->searching < 0) {
        say("  no search for an edit: another run is searching in %s\n", a->number);
    } else {
        char *const tried = child_read(c->tried, NULL);
        const bool found = child_wait(c->searching) == 0;
        say_plain("  tried: ", tried);
        if (*a->outcome->sanitize && found)
            say("  the check build has not tried this edit: fix what it reports first\n");
        free(tried);
    }
    close(c->said);
}

// ------------------------ which of them is told

// What the check build came to: 0 nothing, 3 it was stopped.
static int end_check(cause *c)
{
    outcome *const o = c->a->outcome;
    if (!c->checking) return 1;
    o->sanitize = child_read(c->report, NULL);
    const int looked = child_wait(c->checking);
    c->kind = kind_of(o->sanitize);
    // A gap that is not written gives no value: that is said already.
    if (*c->a->unwritten && strcmp(c->kind, "an uninitialised variable") == 0) c->kind = o->sanitize = "";
    return looked;
}

static void tell(cause *c, int looked)
{
    const outcome *const o = c->a->outcome;
    const bool reported = *c->kind && says(c, "cudacpu: ");  // the failure may have shown it
    const bool other = says(c, "cudacpu: illegal address") || says(c, "cudacpu: launch ");
    const bool same = !other && says(c, text_of("cudacpu: %s in kernel ", c->kind)), shown = reported && !other;
    const size_t length = strlen(c->kind);
    if (same) {
        say("  the check build reports the same for %s: %s\n", c->given, c->kind);
        for (const char *line = o->sanitize; *line; line += strcspn(line, "\n"), line += *line == '\n')
            if (strncmp(line + strspn(line, " "), "read ", 5) == 0)
                say_plain("", text_of("%.*s", (int)strcspn(line, "\n"), line));
    } else if (strcmp(c->kind, "out of bounds") == 0 && (shown || strcmp(o->step, "address") == 0)) {
        say_steps(c);
        say("  the check build reports %s: %s, line%s\n", shown ? "beside it" : "a consequence of this", c->kind,
            places(c, o->sanitize));
    } else if (length >= 7 && strcmp(c->kind + length - 7, "timeout") == 0 && !says(c, "no answer in ")) {
        say_steps(c);
        looked = 3;
    } else if (*o->sanitize) {
        say_report(c);
    } else
        say_steps(c);
    if (c->checking && looked == 0)
        say("  the check build finds nothing in %s\n", c->given);
    else if (looked == 3)
        say("  the check build was stopped: no answer for %s after 10 s (make sanitize-%s waits longer)\n", c->given,
            c->a->number);
}

void explain(attempt *a)
{
    int status;
    outcome *const o = a->outcome;
    const result *const given = suite_failure(&o->results, true), *const failed = suite_failure(&o->results, false);
    cause c = {.a = a,
               .given = given ? given->given : "",
               .failure = failed ? safe_text(failed->message, PLAIN) : "",
               .steps = "",
               .kind = ""};
    if (says(&c, "cudacpu: timeout in kernel ")) return;  // it says where, and another look would take as long
    if (says(&c, "no answer in "))
        say("  now a search for the cause, in smaller cases and in the check build: a minute or two\n");
    char *const programs[] = {text_of("%s/diagnose", run.out), text_of("%s/repair", run.out), NULL};
    if (!run.builder && (access(programs[0], F_OK) || access(programs[1], F_OK)))
        free(build_programs(run.backend, programs, false, &status));
    char *const looker = find_looker(a);  // first: with it, what the search compiles without a lock is there
    if (*c.given && !run.builder && strcmp(setting("SANITIZE", "1"), "0") != 0) begin_check(&c);
    begin_repair(&c);
    c.changed = run.own ? gaps_given(a->problem, a->file) : text_of("%s", "");
    say("%s", c.changed);
    diagnose(&c, looker);
    if (*o->step && strcmp(o->step, "step") != 0 && !says(&c, "cudacpu: ")) say_steps(&c);
    tell(&c, end_check(&c));
    end_repair(&c);
}
