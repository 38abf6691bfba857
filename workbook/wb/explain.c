// explain.c - after a failure: its cause. A wrong result often has one that can be named. The check build looks at
// every access of the first failing case, while diagnose looks at what the function does, step by step. A relation that
// explains what many rows show is told at once, as no race leaves one. Else one of the two is told: what a race or a
// stray access leaves is no matter of steps, unless it is a wrong address that they explain. Then a change is looked
// for that fixes it.
#include "wb/wb.h"

#include "layer_requests.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// What is known of a failure, and by whom.
typedef struct cause {
    attempt *a;
    const char *given;            // the case; "" if it has none
    const char *failure;          // of the first failure, what a report is of (layer_requests.h), and
    char found[WB_FINDING];       // of the check build; "" if there is none
    char *steps;                  // what diagnose says
    given_code code;              // how given code is not as it was
    bool told, reported, placed;  // steps, what the check build found, where a buffer is left
    bool restored, fails_too;     // with given code as it was the case is right; is not
    pid_t checking, searching;    // 0: is not asked
    int report, tried, said;      // what comes of them, and the lock of what the search is told
    bool asked, certain;          // the search has said of which gap it is certain, or that it is of none
    FILE *finding;                // where the check build says what it is of
} cause;

static bool by_layer(const cause *c) { return strchr(c->failure, '\t'); }

// ------------------------ the check build

static void begin_check(cause *c)
{
    if (!(c->finding = tmpfile())) grades_give_up("a report");
    char *const finding = text_of("%d", fileno(c->finding));
    char *const words[] = {(char *)run.impl, c->a->number, (char *)c->given, finding, NULL};
    c->checking = child_begin(&(child){.call = sanitize_after, .words = words, .error = CHILD_NULL}, &c->report);
}

static void read_finding(FILE *from, char finding[WB_FINDING])
{
    rewind(from);
    finding[fread(finding, 1, WB_FINDING - 1, from)] = 0;
}

// Lines of the source that a finding names: " 19 82".
static char *lines_of(const cause *c, const char *finding)
{
    const char *const base = strrchr(c->a->file, '/') + 1, *at = finding + strcspn(finding, "\t");
    char *all = "", file[WB_FINDING];
    for (int line, n; sscanf(at, " %[^: ]:%d%n", file, &line, &n) == 2; at += n)
        if (strcmp(file, base) == 0) all = text_of("%s %d", all, line);
    return all;
}

// What the search has found to hold the mistake: changed given code, or, if it has the reference solution to try, gaps.
static void ask_gap(cause *c)
{
    outcome *const o = c->a->outcome;
    char line[400], file[64];
    size_t length = 0;
    const bool solved = gaps_file_in("solutions", c->a->problem, file, sizeof file);
    if (c->searching <= 0 || c->asked || (!solved && !*c->code.says)) return;
    say_now("  now trying %s\n",
            solved ? "the reference solution's text in one gap at a time" : "the given code as it was");
    while (length + 1 < sizeof line && read(c->tried, &line[length], 1) == 1 && line[length] != '\n') length++;
    line[length] = 0, c->asked = true;
    c->certain = strncmp(line, "gap\t", 4) == 0 && line[4];
    c->restored = strcmp(line, "given") == 0, c->fails_too = strcmp(line, "neither") == 0;
    if (c->restored) o->gaps = "";
    if (c->certain) o->gaps = strdup(line + 4);
}

// Where to look: at most so many of the gaps to which a finding leads. If the case is right with the given code as it
// was, no gap is to blame.
static void say_gaps(cause *c, int most, const char *behind)
{
    outcome *const o = c->a->outcome;
    ask_gap(c);
    if (c->restored)
        say("  look at the changed given code: with the skeleton's lines in its place, the failed case is right\n");
    else if (!*o->gaps && *behind)
        say("  look at the given code, outside of the gaps%s\n", behind);
    if (!*o->gaps) return;
    say(c->fails_too                   ? "  with the given code as it was, the case fails, too; look at: "
        : *c->code.says && !c->certain ? "  look at the changed given code first, then at: "
                                       : "  look at: ");
    for (const char *at = o->gaps; *at && (most-- > 0 || c->certain); at += strcspn(at, "|"), at += *at == '|')
        say("%s%.*s", at > o->gaps ? ", " : "", (int)strcspn(at, "|"), at);
    say("%s%s\n", c->certain ? ": with the reference solution's text there, the failed case is right" : "", behind);
}

// The gaps to which the lines of a finding lead (origin.awk): where to look, and to search for a change.
static void say_origin(cause *c, const char *finding)
{
    outcome *const o = c->a->outcome;
    if (wb_finding_is(finding, "no such tile")) return;  // it names its gap
    char *const lines = text_of("lines=%s", lines_of(c, finding));
    const bool messages = strstr(finding, "\tMessages between GPUs") || strstr(c->found, "\tMessages between GPUs");
    const bool copies = wb_finding_is(finding, "asynchronous copy not waited for");
    char *const of = messages ? "of=messages" : copies ? "of=copies" : "of=";
    char *const words[] = {"awk", "-v", of, "-v", lines, "-f", "workbook/wb/origin.awk", c->a->file, NULL};
    char *const names = lines[strlen("lines=")] ? child_output(&(child){.words = words}, NULL) : strdup("");
    o->gaps = safe_text(strtok(names, "\n") ? names : "", LINE);  // the file may be a submission
    say_gaps(c, 3, "");
}

static void say_steps(cause *c)
{
    if (!c->told) say_plain("  ", c->steps);
    if (!c->told && *c->a->outcome->step)
        say_gaps(c, 2, text_of("; problems/%s/README.md, \"Common mistakes\"", c->a->number));
    c->told = true;
}

static void say_report(cause *c)
{
    // A message from another buffer is what nobody wrote: its step comes first. Else steps saw what a race left.
    if (wb_has_ranks(c->a->problem) && wb_finding_is(c->found, "uninitialised read") && *c->steps) say_steps(c);
    c->reported = true;
    say("  the check build reports for %s:\n", c->given);
    say_plain("", c->a->outcome->sanitize);
    if (!c->told && !c->placed) c->steps = "", say_origin(c, c->found);
}

// The ordinary worker shows, too, what is written outside of a buffer, while the check build compiles.
static void say_place(cause *c, const char *looker)
{
    FILE *const told = tmpfile();
    char finding[WB_FINDING];
    if (!told) grades_give_up("a report");
    char *const words[] = {(char *)looker, (char *)c->given, text_of("%d", fileno(told)), NULL};
    char *const places = child_output(&(child){.call = sanitize_ends, .words = words}, NULL);
    read_finding(told, finding), fclose(told);
    if (!*places) return;
    say("  the access outside of the buffer:\n");
    say_plain("", places);
    say_origin(c, finding);
    c->placed = true, c->steps = "";
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
    char *const environment[] = {text_of("WB_WORKER=%s", looker), "WB_TIMEOUT=5", "OMP_WAIT_POLICY=passive", NULL};
    if (access(program, X_OK) || access(looker, X_OK)) return;
    const child asked = {.words = words, .environment = environment, .error = CHILD_NULL, .before = limits};
    c->steps = child_output(&asked, NULL);
    outcome named;
    outcome_read(step, &named);
    a->outcome->step = named.step, a->outcome->gaps = named.gaps;
}

// A worker of the layer is asked, which a GPU machine builds for it, as the check build.
static char *find_looker(const attempt *a)
{
    if (strcmp(run.backend, "cpu") == 0) return (char *)a->tried;
    char *const looker = text_of("build/cpu/%s/%s_worker", run.impl, a->number);
    if (run.builder) return looker;
    if (access(looker, X_OK)) say_now("  now building for the CPU layer, which finds errors that a GPU hides\n");
    free(build_programs("cpu", (char *[]){looker, NULL}, true, NULL));
    return looker;
}

// ------------------------ a change

static void nicely(void)
{
    if (nice(10)) return;
}

// One change that makes what is wrong right: looked for when nothing is left to be written. It compiles beside the
// check build, and learns later what has been said.
static void begin_repair(cause *c)
{
    const char *const seconds = setting("REPAIR", "15"), *const made = "build/cpu/repaired";
    char *const program = text_of("%s/repair", run.out), *const said = text_of("%s/said", run.work);
    attempt *const a = c->a;
    if (!run.own || *a->unwritten || !*c->given || strcmp(seconds, "0") == 0 || access(program, X_OK)) return;
    mkdir(made, 0777);
    const int lock = open(text_of("%s/%s.lock", made, a->number), O_RDWR | O_CREAT, 0666);
    c->said = open(text_of("%s.lock", said), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->said < 0 || lock < 0) return;
    flock(c->said, LOCK_EX);
    if (flock(lock, LOCK_EX | LOCK_NB)) {
        c->tried = open("/dev/null", O_RDONLY | O_CLOEXEC), c->searching = -1;
        close(lock);
        return;
    }
    char *const worker = text_of("%s/%s_worker", made, a->number), *const to = text_of("%s/%s.cu", made, a->number);
    char *const how = text_of("%s --no-print-directory BACKEND=cpu %s build/cpu/tests/%s_test", setting("MAKE", "make"),
                              worker, a->number);
    char *const words[] = {program, "--seconds", (char *)seconds, "--said",         said, a->file,
                           to,      how,         a->number,       (char *)c->given, NULL};
    char *const environment[] = {text_of("WB_WORKER=%s", worker), "WB_BUILDING=yes", "OMP_WAIT_POLICY=passive", NULL};
    const child asked = {NULL, words, environment, NULL, .error = 2, .before = nicely};
    c->searching = child_begin(&asked, &c->tried);
    close(lock);
}

static void end_repair(cause *c)
{
    attempt *const a = c->a;
    if (!c->searching) return;
    if (!c->asked && (ask_gap(c), c->certain || c->restored)) say_gaps(c, 1, "");
    if (c->restored && child_wait(c->searching)) return;  // nothing else was looked for
    say_now("  now searching for an edit that fixes it: %s CPU seconds, after compiling (REPAIR=0 omits the search)\n",
            setting("REPAIR", "15"));
    a->outcome->lines = text_of("%s%s", lines_of(c, c->failure), lines_of(c, c->found));
    outcome_write(text_of("%s/said", run.work), a->outcome);
    flock(c->said, LOCK_UN);
    if (c->searching < 0) {
        say("  no search for an edit: another run is searching in %s\n", a->number);
    } else {
        char *const tried = child_read(c->tried, NULL);
        const bool found = child_wait(c->searching) == 0;
        say_plain("  tried: ", c->asked ? tried : next_line(tried));
        if (c->reported && found) say("  the check build has not tried this edit\n");
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
    read_finding(c->finding, c->found);
    // A gap that is not written gives no value: that is said already.
    if (*c->a->unwritten && wb_finding_is(c->found, "an uninitialised variable")) o->sanitize = "";
    // How much overlaps is judged in the ordinary build.
    if (wb_finding_is(c->found, "too few products overlap the softmax") && !by_layer(c)) o->sanitize = "";
    if (!*o->sanitize) *c->found = 0;
    return looked;
}

// Where nothing is found: a variable that has a value only where a condition is met.
static void say_conditional(const cause *c)
{
    char *const skeleton = text_of("skeleton=%s", gaps_skeleton(c->a->problem));
    char *const words[] = {"awk",      "-v", skeleton, "-v", "conditional=1", "-f", "workbook/sanitize/unset.awk",
                           c->a->file, NULL};
    char *const lines = child_output(&(child){.words = words}, NULL), *const first = strtok(lines, "\n");
    const char *const line = first ? safe_text(first, LINE) : "";
    const int number = (int)strcspn(line, " ");
    if (first)
        say("  line %.*s, `%s`: it is given a value only where a condition is met; which has it elsewhere?\n", number,
            line, line + number + (line[number] == ' '));
}

static void tell(cause *c, int looked)
{
    const outcome *const o = c->a->outcome;
    const char *const kind = text_of("%.*s", (int)strcspn(c->found, "\t"), c->found);
    // The failure may have shown it.
    const bool shown = *kind && by_layer(c) && !wb_finding_is(c->failure, "illegal address");
    const bool same = shown && wb_finding_is(c->failure, kind);
    if (same) {
        say("  the check build reports the same in %s: %.*s\n", c->given, (int)strcspn(kind, ","), kind);
        const char *const section = strrchr(c->found, '\t') + 1;
        if (*section) say("     read     problems/when-it-is-wrong-but-runs.md, \"%s\"\n", section);
        say_origin(c, c->failure);
    } else if (strcmp(kind, "out of bounds") == 0 && (shown || strcmp(o->step, "address") == 0)) {
        if (*c->steps)
            say_steps(c);
        else
            say_origin(c, c->failure);
        const char *const lines = lines_of(c, c->found);  // none where a word of the workbook's was called
        say("  the check build reports %s: %s%s%s\n", shown ? "beside it" : "a consequence of this", kind,
            *lines ? ", line" : "", lines);
    } else if (strcmp(kind, "timeout") == 0 && strcmp(c->failure, "no answer") != 0) {
        say_steps(c);
        looked = 3;
    } else if (*o->sanitize) {
        say_report(c);
    } else if (*c->steps)
        say_steps(c);
    else if (by_layer(c))
        say_origin(c, c->failure);
    if (c->checking && looked == 0)
        say("  the check build finds nothing in %s\n", c->given), say_conditional(c);
    else if (looked == 3)
        say("  the check build was stopped: no answer for %s after 10 s (make sanitize-%s waits longer)\n", c->given,
            c->a->number);
}

void explain(attempt *a)
{
    outcome *const o = a->outcome;
    const result *const given = suite_failure(&o->results, true), *const failed = suite_failure(&o->results, false);
    cause c = {.a = a, .given = "", .failure = "", .steps = "", .code = {"", ""}};
    if (given) c.given = given->given;
    if (failed) c.failure = failed->finding;
    if (run.own) c.code = gaps_given(a->problem, a->file), say("%s", c.code.says);
    if (wb_finding_is(c.failure, "timeout")) {  // it says where, and another look would take as long
        say_origin(&c, c.failure);
        return;
    }
    if (strcmp(c.failure, "no answer") == 0)
        say("  now a search for the cause, in smaller cases and in the check build: a minute or two\n");
    char *const programs[] = {text_of("%s/diagnose", run.out), text_of("%s/repair", run.out), NULL};
    if (!run.builder && (access(programs[0], F_OK) || access(programs[1], F_OK)))
        free(build_programs(run.backend, programs, false, NULL));
    char *const looker = find_looker(a);  // first: with it, what the search compiles without a lock is there
    if (*c.given && !run.builder && strcmp(setting("SANITIZE", "1"), "0") != 0) begin_check(&c);
    begin_repair(&c);
    diagnose(&c, looker);
    if (*o->step && strcmp(o->step, "step") != 0 && !by_layer(&c))
        say_steps(&c);
    else if (strcmp(c.failure, "overrun") == 0 && *c.given && !run.builder)
        say_place(&c, looker);
    tell(&c, end_check(&c));
    end_repair(&c);
    if (*c.code.says && !*o->step) o->step = "given";
}
