// test.c - wb test: builds and tests problems, says of each where it stands (not started, compile error, failed,
// passed), and counts points by problems/NN/checkpoints.txt. Exit status: 0 if all that was started passes, 1 if
// something fails or does not compile, 2 if the machinery could not run, 3 if something could not be judged, since the
// machine was too busy.
//
// build/grade (build/BACKEND/IMPL/grade for another IMPL) keeps NN.json of each problem (score/outcome.h), and of all
// report.txt and results.json (Gradescope), written whatever happens, an interrupt too.
//
//   SANITIZE=1       a problem passes only if the check build (sanitize.c) finds nothing either, and promises are won
//                    only then; 0: not asked, even after a failure
//   SEED=n           other inputs
//   COVERAGE=1       the worker counts what runs of its source, and lines that no case ran are told (coverage.sh)
//   REPAIR=n         after a failure the search for a change has n seconds of a processor (15); 0: there is none
//   CASES=FILE       private cases as well (wb.h); a checkpoint is won only if its own pass too
//
// For a grader: --grade FOLDER BUILDER keeps outcomes in FOLDER, where one that is there already stays; and what comes
// from a submission is built and run by BUILDER (class/grade_build.sh):
//   BUILDER NN        builds build/cpu/problems/NN_worker, of NN_counted that which counts; its output is shown if it
//                     fails. 3: the machine was too busy, its last line says so
//   BUILDER look NN   for SANITIZE=1: looks at it with the check build, prints what it finds, and fails if that is
//                     anything; 3: as above
//   BUILDER gcov      for coverage.sh
//   WB_UNTIL=TIME     in seconds since 1970: no problem is begun later, and no seed is shown, since a report is read
//                     before the deadline

#include "wb/wb.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sha256.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

wb_run run;
static attempt *now;   // the problem that is being judged; null: none is
static char **scored;  // of this run: the folder of outcomes, and the numbers of the problems
static int status;

char *text_of(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) abort();
    va_end(arguments);
    return text;
}

static bool is(const char *name) { return strcmp(setting(name, "0"), "0") != 0; }
static void worse(int than) { status = than > status ? than : status; }

static const char *last_line(const char *text)
{
    const char *last = text;
    for (; *text; text = next_line(text))
        if (*text != '\n') last = text;
    return text_of("%.*s", (int)strcspn(last, "\n"), last);
}

// ------------------------ what is kept

static int remove_one(const char *path, const struct stat *is, int type, struct FTW *at)
{
    (void)is, (void)type, (void)at;
    return remove(path), 0;
}

static void clean(void)
{
    if (*run.work) nftw(run.work, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *run.work = 0;
}

// Of two runs at once one writes at a time.
static int lock_record(void)
{
    const int lock = open(text_of("%s/lock", run.record), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (lock >= 0 && flock(lock, LOCK_EX) && errno == EINTR) {}
    return lock;
}

static void publish(const outcome *o)
{
    char *const path = text_of("%s/%s.json", run.record, now->number);
    const int lock = lock_record();
    if (!outcome_write(path, o)) grades_give_up(path);
    close(lock);
}

static void copy_file(const char *from, const char *to)
{
    char chunk[65536];
    FILE *const in = fopen(from, "r"), *const out = in ? fopen(to, "w") : NULL;
    for (size_t n; out && (n = fread(chunk, 1, sizeof chunk, in)) > 0;) fwrite(chunk, 1, n, out);
    if (in) fclose(in);
    if (out) fclose(out);
}

static const char *sum_of(const char *file)
{
    char sum[SHA256_DIGEST_STRING_LENGTH];
    return SHA256File(file, sum) ? text_of("%s", sum) : "";
}

// A student's file that passes is kept, for who spoils it later and wants its points back.
static void keep(const attempt *a)
{
    if (!run.own || !*a->file) return;
    const char *const sum = sum_of(a->file), *const folder = text_of("%s/passed", run.record),
                      *const kept = text_of("%s/%s%s", folder, a->number, strrchr(a->file, '.'));
    if (strcmp(a->outcome->state, "passed") == 0) {
        mkdir(folder, 0777);
        if (strcmp(sum, a->outcome->sum) == 0) copy_file(a->file, kept);
    } else if (access(kept, F_OK) == 0 && strcmp(sum, sum_of(kept)) != 0)
        printf("  an earlier version of your file passed; cp %s %s restores it and its points\n", kept, a->file);
}

static void note(const char *line)  // of a submission as a whole
{
    FILE *const to = fopen(text_of("%s/00.note", run.record), "a");
    if (to) fprintf(to, "%s\n", line), fclose(to);
}

// The table, and the files that others read.
static void finish(void)
{
    child_interrupted(NULL);
    if (now) {
        outcome none = *now->outcome;
        none.state = "interrupted", none.report = say_end();
        publish(&none);
    }
    clean();
    if (run.one) exit(status);
    const int lock = lock_record();
    if (score_points(scored)) worse(2);
    close(lock);
    if (run.own) score_after(scored);
    exit(status);
}

static void interrupted(void)
{
    status = 2;
    if (run.watched) exit(status);
    finish();
}

// ------------------------ one problem

static const char *too_busy(const char *why)  // "": the suite has said so
{
    if (*why) say("  harness: could not be judged: %s\n", why);
    say("  this costs no points: try again when the machine is less busy\n");
    return "could not be judged";
}

// As editors of Windows write it.
static bool has_zero(const char *path)
{
    FILE *const file = fopen(path, "r");
    int c = 1;
    while (file && (c = getc(file)) > 0) {}
    if (file) fclose(file);
    return c == 0;
}

static const char *compile(attempt *a)
{
    outcome *const o = a->outcome;
    if (run.watched) say("  compiling %s\n", a->file);
    const int built = build(a);
    if (built == 3 && run.builder) return too_busy(text_of("compiling it: %s", last_line(o->log)));
    if (built) {
        say_plain("", build_brief(o->log, true));
        say("  %s does not compile\n", a->file);
        return "compile error";
    }
    say_plain("", build_brief(o->log, false));
    return NULL;
}

// What does not come so far as to be tested: its state, else null.
static const char *prepare(attempt *a)
{
    const char *const test = setting("TEST", NULL);
    if (!*a->file) {
        say("  there is no %s.cu or %s.c in %s/%s\n", a->problem->name, a->problem->name, run.impl, a->number);
        return "not started";
    }
    if (run.mine && gaps_are_shipped(a->file)) {
        say("  not started: open %s, and read problems/%s/README.md\n", a->file, a->number);
        return "not started";
    }
    if (run.mine && !run.builder) a->outcome->sum = (char *)sum_of(a->file);
    if (has_zero(a->file)) {
        say("  %s is not UTF-8 but UTF-16, as some editors of Windows write it: save it as UTF-8\n", a->file);
        return "compile error";
    }
    const char *const state = compile(a);
    if (state) return state;
    if (run.mine) a->unwritten = gaps_sentence(a->problem, a->file);
    say("%s", a->unwritten);
    if (!test) return NULL;
    results names;
    char *const program = text_of("%s/tests/%s_test", run.out, a->number), *all = "";
    suite_names(program, &names);
    for (int i = 0; i < names.count; i++) {
        if (strcmp(names.rows[i].test, test) == 0) return NULL;
        all = text_of("%s %s", all, names.rows[i].test);
    }
    status = 2;
    say("  TEST: %s has no test %s, only%s\n", a->number, test, all);
    return "could not run";
}

// What a pass does not say, until make sanitize-NN has found nothing in the same source.
static void praise(const attempt *a)
{
    if (!run.own || is("SANITIZE")) return;
    if (strcmp(a->outcome->clean, a->outcome->sum) != 0)
        say("  the results are correct; races were not checked (make sanitize-%s checks every access)\n", a->number);
}

// What ran in no case: no points hang on it. It is told when all tests pass, and of a submission in any case.
static void tell_coverage(const attempt *a, const char *state)
{
    if (!*run.counted || run.one || (strcmp(state, "failed") == 0 && !run.builder)) return;
    const char *const shipped = run.mine ? gaps_skeleton(a->problem) : "";
    char *const counted = text_of("%s/counted", run.work), *const name = (char *)a->problem->name;
    char *const file = (char *)a->file, *const skeleton = (char *)(*shipped ? shipped : "/dev/null");
    char *const words[] = {"workbook/loop/coverage.sh", counted, file, name, skeleton,
                           (char *)run.builder,         "gcov",  NULL};
    a->outcome->coverage = child_output(&(child){.words = words}, NULL);
    say_plain("  ", a->outcome->coverage);
}

static void fail_check(attempt *a)
{
    results_add(&a->outcome->results,
                &(result){.status = RESULT_FAIL, .test = "check build", .checkpoint = "promises"});
}

// Also of what has failed: who gives up a point or two must not save the promises by it.
static const char *look_closer(attempt *a, const char *state)
{
    if (*a->outcome->sanitize) return fail_check(a), state;  // explain has found something
    char *const ours[] = {(char *)run.impl, a->number, NULL};
    char *const theirs[] = {(char *)run.builder, "look", a->number, NULL};
    int looked;
    char *const said = child_output(
        run.builder ? &(child){.words = theirs} : &(child){.call = sanitize_one, .words = ours, .error = 2}, &looked);
    if (looked == 0) {
        say("  the check build finds nothing\n");
    } else if (looked == 3) {
        return too_busy(text_of("the check build: %s", last_line(said)));
    } else {
        if (strcmp(state, "failed") != 0) say("  the results are correct, but\n");
        say("  the check build found errors:\n");
        state = "failed";
        fail_check(a);
    }
    say_plain("", said);
    a->outcome->sanitize = said;
    return state;
}

// Builds one problem and runs its suite. Says all that there is to say of it, and returns its state.
static const char *judge(attempt *a)
{
    const char *state = prepare(a), *const test = setting("TEST", NULL),
               *const counted = text_of("%s/counted", run.work);
    if (state) return state;
    suite s = {.program = text_of("%s/tests/%s_test", run.out, a->number),
               .worker = a->tried,
               .backend = run.backend,
               .cases = run.one ? NULL : setting("CASES", NULL),
               .shown = a->worker};
    char *only[] = {"--filter", text_of("*/%s", test ? test : ""), NULL};
    if (test) s.options = only;
    nftw(counted, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (*run.counted) {
        mkdir(counted, 0777);
        copy_file(text_of("%.*s.gcno", (int)(strlen(a->worker) - strlen("_worker")), a->worker),
                  text_of("%s/c.gcno", counted));
        s.coverage = counted;
    }
    switch (suite_run_all(&s, &a->outcome->results)) {
    case 0: state = "passed", praise(a); break;
    case 1: state = "failed", explain(a); break;
    case 3: return too_busy("");
    default: return "could not run";
    }
    tell_coverage(a, state);
    return is("SANITIZE") ? look_closer(a, state) : state;
}

static char *first_line(const char *path, const char *begins)  // behind this, of a file
{
    char line[512], *found = "";
    FILE *const file = fopen(path, "r");
    while (file && !*found && fgets(line, sizeof line, file))
        if (strncmp(line, begins, strlen(begins)) == 0) {
            const char *const at = line + strlen(begins) + strspn(line + strlen(begins), " \t:=");
            found = text_of("%.*s", (int)strcspn(at, "\n"), at);
        }
    if (file) fclose(file);
    return found;
}

// Where and when: for reports.
static void describe(outcome *o)
{
    static char date[64], *machine;
    int ended;
    if (!machine) {
        const time_t at = time(NULL);
        struct utsname system;
        uname(&system);
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&at));
        const char *const model = first_line("/proc/cpuinfo", "model name");
        machine = text_of("%ld x %s", sysconf(_SC_NPROCESSORS_ONLN), *model ? model : system.machine);
        if (strcmp(run.backend, "cpu") != 0) {
            char *const words[] = {"nvidia-smi", "--query-gpu=name", "--format=csv,noheader", NULL};
            char *const gpu = child_output(&(child){.words = words}, &ended);
            if (ended == 0) machine = text_of("%s, %.*s", machine, (int)strcspn(gpu, "\n"), gpu);
        }
    }
    o->date = date, o->backend = (char *)run.backend, o->seed = (char *)setting("SEED", "1"), o->machine = machine;
}

static void test_one(const wb_problem *p)
{
    outcome o, before;
    outcome_read("", &o);
    o.began = seconds_now(CLOCK_REALTIME);
    attempt a = {.problem = p, .unwritten = "", .outcome = &o};
    snprintf(a.number, sizeof a.number, "%02d", p->number % 100);
    if (run.own && outcome_read(text_of("%s/%s.json", run.record, a.number), &before)) o.clean = before.clean;
    snprintf(a.worker, sizeof a.worker, "%s/%s/%s%s_worker", run.out, run.impl, a.number, run.counted);
    gaps_file_in(run.impl, p, a.file, sizeof a.file);
    describe(&o);
    printf("\n== %s %s\n", a.number, p->name);
    now = &a;
    say_begin();
    o.state = judge(&a);
    o.report = say_end();
    fflush(stdout);
    child_check();
    publish(&o);
    now = NULL;
    keep(&a);
    if (strcmp(o.state, "compile error") == 0 || strcmp(o.state, "failed") == 0) worse(1);
    if (strcmp(o.state, "could not run") == 0) worse(2);
    if (strcmp(o.state, "could not be judged") == 0) {
        static const char said[] = "  harness: could not be judged: ";
        const char *why = NULL;
        for (const char *at = o.report; (at = strstr(at, said)); at++) why = at + strlen(said);
        worse(3);
        if (run.builder && why)
            note(text_of("Could not be judged: problem %s: %.*s", a.number, (int)strcspn(why, "\n"), why));
    }
    results_free(&o.results);
}

// ------------------------ all of them

static void begin(char **given)
{
    const char *const test = setting("TEST", NULL), *const given_case = setting("CASE", NULL);
    run.backend = given[0], run.impl = given[1];
    if (given_case) unsetenv("TEST");
    run.one = given_case ? given_case : test;
    run.mine = strcmp(run.impl, "problems") == 0;
    run.own = run.mine && !run.builder && !run.one;
    snprintf(run.out, sizeof run.out, "build/%s", run.backend);
    if (run.one)
        snprintf(run.record, sizeof run.record, "%s/%s/one_case", run.out, run.impl);
    else if (!*run.record)
        snprintf(run.record, sizeof run.record, run.mine ? "build/grade" : "%s/%s/grade", run.out, run.impl);
    run.counted = "";
    if (is("COVERAGE")) {
        const char *const kit = setting("GRADE_SCRATCH", NULL);  // a grader's tools are the kit's
        const char *const tools = kit ? text_of("%s/kit/build/tools.mk", kit) : "build/tools.mk";
        if (strcmp(run.backend, "cpu") == 0 && *first_line(tools, "GCOV"))
            run.counted = "_counted";
        else
            say_now("test: COVERAGE=1 needs BACKEND=cpu, gcc and its gcov; without them no coverage is measured\n");
    }
}

static void make_folders(void)
{
    for (char *at = run.record + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(run.record, 0777);
        *at = '/';
    }
    mkdir(run.record, 0777);
    snprintf(run.work, sizeof run.work, "%s/.run.XXXXXX", run.record);
    if (!mkdtemp(run.work)) grades_give_up(run.record);
    atexit(clean);
}

int wb_test(char **given)
{
    char *list[WB_PROBLEMS + 2] = {run.record}, *late = "";
    if (strcmp(given[0], "--grade") == 0 && given[1] && given[2]) {
        snprintf(run.record, sizeof run.record, "%s", given[1]);
        run.builder = given[2];
        given += 3;
    }
    if (!given[0] || !given[1])
        return fprintf(stderr, "usage: wb test [--grade FOLDER BUILDER] BACKEND IMPL NN...\n"), 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin(given);
    for (int i = 0; i < WB_PROBLEMS && given[i + 2]; i++)
        list[i + 1] = text_of("%02d", score_problem(given[i + 2])->number);
    scored = list;
    make_folders();
    child_interrupted(interrupted);
    const bool cpu = strcmp(run.backend, "cpu") == 0;
    printf("FlashAttention workbook: %s%s/ on %s\n", run.mine ? "your code, " : "", run.impl,
           cpu ? "the CPU execution layer (no GPU needed)" : "the GPU");
    const long until = atol(setting("WB_UNTIL", "0"));
    for (char **at = list + 1; *at; at++) {
        child_check();
        if (run.builder && !run.one && access(text_of("%s/%s.json", run.record, *at), F_OK) == 0) continue;
        if (until && time(NULL) >= until)
            late = text_of("%s %s", late, *at);
        else
            test_one(score_problem(*at));
    }
    if (*late) note(text_of("Not run, since the time for this submission was used up:%s", late));
    finish();
    return status;
}
